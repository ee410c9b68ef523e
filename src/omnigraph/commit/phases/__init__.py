"""Parts of the commit protocol: its locks, the publish, and what becomes of a commit that failed."""
