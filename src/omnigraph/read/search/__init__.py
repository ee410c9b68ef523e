"""Text predicates and rankings of nodes.

``text_match`` answers `search`, `match_text` and `fuzzy`; ``ranking`` answers `nearest` (``nearest``),
`bm25` and their fusion; ``terms`` and ``scratch_index`` stand in where a table has no index. This room
imports ``view`` and the rooms below it.
"""
