"""Sections with known answers, for readers of any tool: made from a seed, without hypothesis."""
