"""Locks between writers: files on a disk, leases in S3, one ``LockManager`` over both.

Imports `storage.objects` and the single modules of storage, never tables.
"""
