"""What is kept in the cache directory between processes: files of arrays, and sealed directories.

What is in them is known to those who keep them (``read.view``, ``read.search``). What is not exactly as its
reader expects counts as missing.
"""
