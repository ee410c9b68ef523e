"""A typed property graph that branches, merges and time-travels like Git."""

__version__ = "0.1.0"
