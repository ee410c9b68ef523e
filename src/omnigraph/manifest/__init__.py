"""The manifest: which version of which table belongs to the graph, and the commits that led there."""
