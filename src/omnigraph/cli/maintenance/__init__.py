"""Commands that keep a graph in shape; they open its storage themselves."""
