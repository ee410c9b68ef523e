"""A table beside a writer: an older numbered state of it, and what changed since.

`node_changes` and `edge_changes` hold the changes since a numbered state, grown commit by commit; `chain`
finds the newest of them in the cache and adds what is missing. `overlaid` answers look-ups: which rows
have these ids, which edges end at these nodes. Numbering a state anew is left to ``view.numbering``.
"""
