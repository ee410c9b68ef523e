"""Data for other libraries: whole types as Arrow streams, small graphs as documents, networkx graphs."""
