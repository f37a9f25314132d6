"""FDEs of an `.eh_frame` removed, replaced, added, moved and merged, as wire records."""
