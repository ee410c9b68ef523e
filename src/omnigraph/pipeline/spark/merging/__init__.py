"""A merge on Spark in one pass: tasks look up what their rows replace, and write them at once."""
