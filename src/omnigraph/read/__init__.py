"""The query engine: `execute.run_read` runs a plan, `explain.explain` describes it, `profile` times it.

The rooms, each of which imports only those below it:

- ``output``: rows of a match become the answer (groups, order, columns, texts).
- ``match``: a pattern becomes rows (candidates, links, summing away, enumeration).
- ``search``: text predicates and rankings.
- ``view``: a snapshot opened for reading (numbered nodes, edges, properties, the cache).
- ``values``: columns of values and what predicates say about them.
- ``kernels``: loops over adjacency, in NumPy and compiled.
"""
