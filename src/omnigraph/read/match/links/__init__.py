"""How the variables of a match are joined: along an edge, over several hops, or by equal values.

``link`` says what every kind answers; the others implement it. They import ``candidates`` and ``pattern`` of
the room around them, and never how a match is solved.
"""
