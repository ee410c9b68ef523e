"""Graphs that change their places: forks that follow, and files that were replaced under a process."""
