"""The steps of one request: its route, its parts, its turn, the engine's work, and its answer."""
