"""Streams of Spark: the change feed of a branch as a source, and a type of a graph as a sink."""
