"""Loops over adjacency on plain arrays, in NumPy and compiled by Numba.

``csr`` holds the adjacency, ``frontier`` the loops over one hop, ``hops`` those over several; both choose
between the two implementations with ``dispatch``. Nothing here knows graphs, types or queries: this room
imports no other room of the engine.
"""
