"""Whether a written file is what it should be; shares no code with the engines."""
