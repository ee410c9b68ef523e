"""Keep a graph in shape: what it looks like, what others did to its tables, what nothing needs any more."""
