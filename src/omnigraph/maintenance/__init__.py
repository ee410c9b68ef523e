"""Keep a graph in shape: `cleanup` removes versions that nothing needs any more."""
