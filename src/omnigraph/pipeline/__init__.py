"""Bulk work: loading records, reading and writing types from Spark, and jobs on its executors.

`load` runs one load in stages: read the records, judge each row, check the set rules against the
pinned snapshot, write files, commit. It knows no engine: `local/` and `spark/` do the same work behind
the protocols of `engine`, and `datasource/` brings rows that Spark's tasks wrote already. Each
folder imports only what is further down: engines use `rows/` (what becomes of one row), that uses
`formats/` (bytes and frames to typed batches), and that uses `sources/` (what there is to read).
"""
