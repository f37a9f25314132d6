"""Operations on whole files, which combine several formats."""
