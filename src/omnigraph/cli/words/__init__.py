"""The words of a command line: which is the graph and which are names, and what is wrong with them."""
