"""Parts of `benchmarks/server.py`: graphs to serve, processes that are watched, and a client that costs little."""
