"""The algorithms on Spark: joins of a frame of edges with a frame that has one row for each node."""
