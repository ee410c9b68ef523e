"""`graph.verify()`: read what every kept state names, and compare it with what it should be."""
