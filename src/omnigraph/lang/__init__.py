"""The two languages: text in, values out. No tables, no files."""
