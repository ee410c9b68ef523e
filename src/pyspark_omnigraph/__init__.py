"""Lets Spark find the data source `omnigraph`: it looks for packages named `pyspark_…`."""

from omnigraph.spark import OmniGraphSource as DefaultSource

__all__ = ["DefaultSource"]
