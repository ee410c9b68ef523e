"""Changes of a table's columns: plan and stage them, rewrite files without a column, purge old versions.

A schema apply moves each table by transactions staged here, under UUIDs its sidecar names.
"""
