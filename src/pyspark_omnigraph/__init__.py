"""Spark looks for data sources in packages named `pyspark_…`; this one leads it to ours."""

from omnigraph.spark import OmniGraphSource as DefaultSource

__all__ = ["DefaultSource"]
