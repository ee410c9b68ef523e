"""The Spark engine: executors read, judge, keep and write the rows, and build indexes."""
