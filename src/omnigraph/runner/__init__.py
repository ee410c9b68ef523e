"""Runners: the engines that frames are read, mapped and joined on. One pipeline runs on any of them.

`runner` says what a pipeline may ask; `local_runner` answers with DuckDB in this process (`databases`),
`spark_runner` with the executors of a Spark session. `session` starts and ends that session
(`masters`, `java`, `gateway`, `archive`), `spark_tasks` runs functions on its executors, and
`spark_errors` brings their errors home.
"""
