"""Purge: take entities out of every branch, version, index and cache of a graph."""
