"""The two ways to a graph: its storage, opened in this process, and a server."""
