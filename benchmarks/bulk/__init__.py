"""Bulk loads and what they are held against: each measured in a process of its own."""
