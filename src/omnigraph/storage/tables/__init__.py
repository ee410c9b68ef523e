"""Tables, each one Lance dataset: open, read, stage, commit, index, branch and maintain.

``table`` opens and reads, ``staging`` prepares a write, ``table_commits`` commits it;
``inline_residual`` holds the operations that Lance can only commit by itself.
Imports `storage.{filters, objects, uris}`. Lance loads on first use (``lance_import``).
"""
