"""Blob columns of tables: their Arrow form, writing, reading, and copying from one file to another.

A value is bytes that the table keeps (*managed*) or the address of bytes kept elsewhere (*external*).
Managed bytes lie inside the data file up to 64 KiB, up to 4 MiB in a file shared with others (packed),
above that in a file of their own (dedicated). Scans give small descriptors; bytes are read by row id.
"""
