"""The change feed: what each commit changed, the commits of a branch in order, and baselines."""
