"""What a load on Spark takes for few rows: the one place where tests say otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from omnigraph.pipeline.spark.spark_engine import SparkEngine
from omnigraph.pipeline.spark.spark_rows import SparkSizes

ON_EXECUTORS = SparkSizes(fetched_rows=-1, here_rows=-1)
"""Nothing is fetched or written here because it is little."""
ALL_ON_EXECUTORS = SparkSizes(
    **{
        one.name: -1
        for one in fields(SparkSizes)
        if one.name.startswith(("fetched_", "here_", "looked_up_"))
    }
)
"""Whatever the driver does of a few rows by itself, it leaves to the executors."""


@contextmanager
def all_loads_with(sizes: SparkSizes) -> Iterator[None]:
    """Have every load of this process meanwhile go by these sizes."""
    before = SparkEngine.sizes
    SparkEngine.sizes = sizes
    try:
        yield
    finally:
        SparkEngine.sizes = before
