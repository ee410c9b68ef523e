"""The rows of one partition of a DataFrame, as the task that reads it numbers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.pipeline.formats.frame_layout import Layout
from omnigraph.pipeline.formats.frames import read_batches
from omnigraph.pipeline.formats.typed_batch import SOURCE_SHIFT, Parsed
from omnigraph.pipeline.sources.sources import PART_SHIFT, Source
from omnigraph.pipeline.spark.payloads import COUNT, Payload
from omnigraph.runner.spark_columns import columns_of_frame
from omnigraph.runner.spark_tasks import Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART = "0part"
"""The column that says which partition of a DataFrame a row is in."""
MAX_PARTS = 1 << (SOURCE_SHIFT - PART_SHIFT)
"""The most partitions of a DataFrame, whose tasks are numbered in steps of it.

With more, rows would share an order, and with it an id that is made of it."""


def numbered_parts(frame: DataFrame) -> DataFrame:
    """Return the rows with the column ``PART``, and their own columns by position instead of by name.

    ``mapInArrow`` looks columns up by name: it misses those with a dot or a backtick in it, and takes two
    that differ only in case for one. The task gives the names back (``FramePart``). Refuses columns of types
    that tasks cannot be given.
    """
    from pyspark.sql import functions

    columns_of_frame(frame.schema)
    by_position = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    return by_position.withColumn(PART, functions.spark_partition_id())


class FramePart:
    """A partition with rows. They are numbered by partition and by place in it.

    The column ``PART`` has the partition: the number of the task that runs is another one where a task
    of a later stage reads rows again that died with their executor.
    """

    def __init__(self, first: pa.RecordBatch, others: Batches, names: Sequence[str]) -> None:
        self.part: int = first.column(PART)[0].as_py()
        if self.part >= MAX_PARTS:
            raise BadRequest(f"the frame has more than {MAX_PARTS} partitions; coalesce it")
        self._batches = chain([first], others)
        self._names = list(names)
        self._seen = 0

    @classmethod
    def of(cls, batches: Batches, names: Sequence[str]) -> Self | None:
        """Return the partition of a frame with columns of these names; None if it has no rows."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        return None if first is None else cls(first, filled, names)

    def blocks(self, layout: Layout, source: Source) -> Iterator[Parsed]:
        """Read the rows, block by block."""
        first_row = (self.part << PART_SHIFT) + 1
        return read_batches(layout, self._counted(), source=source.index, first_row=first_row)

    def _counted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self._seen += batch.num_rows
            own = batch.remove_column(batch.schema.get_field_index(PART))
            yield own.rename_columns(self._names)

    def size(self, number: int, source: Source) -> Payload:
        """Return the payload that tells how many rows were read, for the task of this number."""
        return Payload(number, 0, COUNT, str(source.index), self._seen, pending=self.part)
