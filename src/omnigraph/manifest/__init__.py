"""The manifest: which version of which table belongs to the graph, and how that came to be."""
