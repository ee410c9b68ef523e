"""Rows that tasks wrote before the load knows whether they may stay: the one row store of Spark.

A task judges rows and puts them into files of their table that no version names yet (`task_rows`,
`task_files`), and reports the files. The load then looks at the rows through these files (`written_reader`,
`written_rows`) and makes them part of the table, or writes them again. The data source and loads on
Spark work this way.
"""
