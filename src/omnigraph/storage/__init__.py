"""The files of a graph: its tables, control objects, locks and scratch directories.

Nothing outside this package calls a Lance method that commits: tests/storage/test_surface_guard.py
walks the source to make sure. What is built on top stages a write here and commits it here, so
every version of a table comes from a place that can be found and recovered.
Imports `lang.schema` for the kinds of index, `settings`, `cores` and `errors`.
"""
