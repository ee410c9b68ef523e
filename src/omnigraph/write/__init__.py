"""Everything small that changes a graph: mutations, indexes, and later merge and schema apply."""
