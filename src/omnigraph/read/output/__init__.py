"""From the rows of a match to the answer.

``aggregate`` groups rows, ``order`` lists them, ``projection`` fetches their columns; ``query_result`` is what
the caller gets, and ``render`` writes it as text. This room imports ``match`` and the rooms below it.
"""
