"""The loops of the algorithms, in NumPy, each with a twin in Numba that gives the same results (``…_numba``)."""
