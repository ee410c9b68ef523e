"""Filters that Lance evaluates: conditions on columns as SQL that means exactly the same.

Imports nothing else in storage.
"""
