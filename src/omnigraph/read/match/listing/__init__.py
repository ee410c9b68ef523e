"""Listing the rows of a match: in which order variables are bound, and how."""
