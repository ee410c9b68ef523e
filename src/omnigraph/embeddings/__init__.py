"""Embedding providers, which turn texts into vectors.

``provider`` is the door: it chooses the embedder of a graph and calls it.
"""
