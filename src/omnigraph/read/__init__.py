"""Reading: the query engine. `execute.run_read` is its one door."""
