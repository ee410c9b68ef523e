"""Indexes of tables: their kinds, builds and files, what covers what, doing without a damaged one."""
