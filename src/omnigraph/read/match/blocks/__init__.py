"""Blocks inside a match: those that must have a match or none, and those that may have none."""
