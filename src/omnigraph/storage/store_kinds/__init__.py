"""The kinds of object stores: one description each, and the list of those there are.

Imports nothing of storage: everything that touches a store asks here what kind it is.
"""
