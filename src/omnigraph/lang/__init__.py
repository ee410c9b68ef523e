"""The two languages, schemas and queries: text in, values out. They touch no table and no file.

Queries are checked against a schema's catalog, so `query` imports `schema`, never the reverse.
"""
