"""Arrays kept in the cache directory between processes: the format of a file, and the files there are.

What the arrays mean is known to those who keep them (``read.view``). A file that is not exactly what
its reader expects counts as missing.
"""
