"""Small parts of a graph as they are drawn: the neighbors of a node, chosen nodes with the edges among them."""
