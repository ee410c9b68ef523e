"""Control objects: a graph's small text files, on disk, in S3 or in memory.

``stores.open_store`` opens the store of a root; every failure is a class of ``store_errors``.
Imports `storage.{flock, layout, store_kinds, uris}`. Stores are opened and written with obstore here.
"""
