"""Rows that tasks wrote before the load knows whether they may stay.

A task judges rows, puts them into files of their table that no version names yet (`task_files`, and
`task_images` for merges), and reports the files. The load then looks at the rows through these files
(`written_rows`) and makes them part of the table, or writes them again. The data source and loads on
Spark work this way.
"""
