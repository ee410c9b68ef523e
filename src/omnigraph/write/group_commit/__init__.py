"""Mutations of one process that share a commit: who waits for whom, and how those that waited run as one."""
