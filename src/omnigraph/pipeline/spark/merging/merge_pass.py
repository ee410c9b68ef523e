"""The one pass of a merge: a task reads and judges rows, and writes them as images.

It looks up in the pinned version which rows its own rows replace (`TaskImages`), and tells only of its
files: what set rules look at is in them, too. A note of the kind `SUMMARY` has what it wrote for one
table, a pickled `Written`.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.rows.images import IMAGE_SIZES, ImageSizes
from omnigraph.pipeline.rows.row_rules import Judged
from omnigraph.pipeline.spark.executor_tasks import Counter
from omnigraph.pipeline.spark.found_records import FoundWritten, gather_summaries
from omnigraph.pipeline.spark.one_pass.first_pass import (
    SUMMARY,
    FirstPass,
    TaskRows,
    note,
    packed_note,
)
from omnigraph.pipeline.spark.payloads import ROWS, Payload
from omnigraph.pipeline.written.task_files import Destination, TaskFiles, Written
from omnigraph.runner.spark_tasks import Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class MergePass(FirstPass):
    """What every task of the pass needs to know."""

    overwrite: bool = False
    image_sizes: ImageSizes = IMAGE_SIZES

    def task_rows(self, counter: Counter) -> MergedRows:
        """Return what takes the rows of one task."""
        return MergedRows(self, counter)

    def files(self, key: str) -> TaskFiles:
        """Return what writes the rows of a table."""
        return TaskFiles(self.destination(key))

    def destination(self, key: str) -> Destination:
        """Return where the rows of a table go."""
        entity = self.rules.catalog.entity(key)
        return Destination(entity, self.places[key], "images", image_sizes=self.image_sizes)


def can_be_images(entity: Entity) -> bool:
    """Say whether rows of a type are whole when they are read, and can be read again from their images."""
    return not entity.embeds and not entity.blob_properties


class MergedRows(TaskRows):
    """The rows of one task on their way into images."""

    def __init__(self, merge_pass: MergePass, counter: Counter) -> None:
        super().__init__(merge_pass, counter)
        self._held_bytes = merge_pass.image_sizes.held_bytes

    def write(self, number: int, judged: Judged) -> None:
        """Add rows to the images; the largest are written when they take too much memory together."""
        super().write(number, judged)
        held = {key: table.files.held for key, table in self.tables.items()}
        if sum(held.values()) >= self._held_bytes:
            self.tables[max(held, key=held.__getitem__)].files.flush()

    def finish(self) -> Batches:
        """Write what is left, and tell about it."""
        if self.is_refused:
            return
        for key, table in self.tables.items():
            written = table.files.close(table.task, named=table.named)
            rows, data = table.files.rows, pickle.dumps(written)
            told = Payload(table.task, 0, ROWS, key, rows, table.named, wide=data)
            yield note(SUMMARY, packed_note(told))


@dataclass(slots=True)
class FoundImages(FoundWritten):
    """What the pass found, and by table what its tasks wrote."""

    written: dict[str, list[Written]] = field(default_factory=dict)


def found_images(told: DataFrame) -> FoundImages:
    """Run the tasks of the pass, and gather what they tell."""
    found = FoundImages(told)
    for one in gather_summaries(found):
        if one.kind == ROWS:
            written: Written = pickle.loads(one.wide)  # noqa: S301 - written by our own executors
            found.written.setdefault(one.key or "", []).append(written)
    return found
