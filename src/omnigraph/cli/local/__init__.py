"""Commands that touch no graph."""
