"""Loads, index builds and compactions by Spark's executors.

`spark_engine` runs a load: `read_plan` has tasks read the input and write the rows (`written/`), `rule_proof` has
them prove the set rules, `spark_rows` has them read and rewrite rows. `maintenance_jobs` builds indexes
and compacts tables. How tasks are handed out and how their errors come back is in `runner/`
(`spark_tasks`, `spark_errors`).
"""
