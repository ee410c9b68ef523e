"""Loops over adjacency on plain arrays, in NumPy and compiled by Numba.

``csr`` holds the adjacency. ``frontier`` are the loops over one hop, ``hops`` those over several, and ``pairs``
those over pairs of rows; all choose between the two implementations with ``dispatch``. Nothing here knows graphs, types or queries: this room
imports no other room of the engine.
"""
