"""Values of rows: what they are called, and how Spark or the local engine computes with them."""
