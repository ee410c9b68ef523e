"""Loads, index builds and compactions by Spark's executors.

`spark_engine` reads the input of a load on executors and `spark_rows` writes it; `executor_tasks` is
what runs there, on rows packed by `payloads`, counted by `tally`. `maintenance_jobs` builds indexes
and compacts tables. How tasks are handed out and how their errors come back is in `runner/`
(`spark_tasks`, `spark_errors`).
"""
