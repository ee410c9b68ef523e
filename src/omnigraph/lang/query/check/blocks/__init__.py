"""The blocks of a match: bindings, traversals, sources, inner blocks, and the order of their steps."""
