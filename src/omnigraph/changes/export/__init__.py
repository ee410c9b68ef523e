"""Exports: the whole content of one snapshot as JSON lines, which a load takes back."""
