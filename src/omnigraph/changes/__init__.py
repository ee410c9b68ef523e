"""What differs between two states of a graph: comparing tables, diffs, the change feed, exports."""
