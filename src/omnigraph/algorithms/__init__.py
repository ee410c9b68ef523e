"""Graph algorithms: what each means, the graph it runs on, its rounds, its result and the way back into the graph."""
