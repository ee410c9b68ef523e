"""The calls of a graph that compare and list states of it: diffs, the change feed, exports."""
