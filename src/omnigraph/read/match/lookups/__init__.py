"""Answering a selective question by indexed look-ups, without reading whole tables.

`access_path` decides between look-ups and whole tables, `fetch` reads the part of the graph that a
pattern touches, and `neighbourhood` offers that part as whole tables are offered: as a `Source` of
``match_data``. Imports the pattern and the data of a match; solving does not know this room.
"""
