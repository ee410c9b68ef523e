"""The history and the blame of one entity: how it came to be what it is, and by whom."""
