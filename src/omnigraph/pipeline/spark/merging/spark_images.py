"""The incoming rows of a merge that executors wrote as images while they read them.

What set rules look at lies in files beside the images. Few rows are read and asked here; many are read
by executors, where the rules then run. Images that cannot be used as they are, because a record loses
to a later one or the table has other rows by now, are written again by executors, from the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph import settings
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.progress import OnRows
from omnigraph.pipeline.rows.images import Images, KeptFragments, match_again
from omnigraph.pipeline.rows.row_rules import narrow_columns
from omnigraph.pipeline.rows.stored_rows import drop_losers
from omnigraph.pipeline.rows.taken_ids import TakenIds
from omnigraph.pipeline.written.task_files import Destination, Written, discard_files
from omnigraph.pipeline.written.task_images import TAKEN, image_rows
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.names import encoded
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.runner.spark_columns import portable, portable_schema, spark_schema
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import SparkFrame, SparkRunner
from omnigraph.runner.spark_tasks import Batches, executor_task, run_tasks, task_frame
from omnigraph.storage.tables.loose_files import read_data_file
from omnigraph.storage.tables.staging import Staged, stage_append_fragments, stage_replace_rows
from omnigraph.storage.tables.table import Table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate import rules
from omnigraph.validate.change_set import ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAKEN_BY_TASKS = "SELECT f.`0rec`, f.`0taken` AS id FROM f WHERE f.`0taken` IS NOT NULL"


class SparkImages(WrittenRows):
    """The rows of one table that are merged. ``fetched_rows`` at most are looked at in this process."""

    def __init__(
        self,
        session: SparkSession,
        destination: Destination,
        written: Sequence[Written],
        directory: Path,
        *,
        named: int,
        fetched_rows: int,
    ) -> None:
        super().__init__(destination, written, directory, may_repeat=named > 0)
        self.session = session
        self._named = named
        self._is_small = self.rows <= fetched_rows
        self._here: pa.Table | None = None
        self._away: DataFrame | None = None
        self._taken_away: DataFrame | None = None
        self._again = KeptFragments()
        self._again_without: tuple[pa.Array | None, TakenIds | None] = (None, None)
        self._rewrites: list[tuple[TableRef, Any]] = []

    # -- what set rules look at

    def frame(self, runner: Runner, columns: Sequence[str], *, as_read: bool = False) -> Frame:
        """Return some of the columns that set rules look at."""
        assert isinstance(runner, SparkRunner), "rows on executors are asked there"
        if self._is_small:
            rows = self._fetched()
            if not as_read and self._taken is not None:
                batches = [self._taken.apply_to(batch) for batch in rows.to_batches()]
                rows = pa.Table.from_batches(batches, rows.schema)
            return runner.frame(rows.select(list(columns)))
        with spark_errors():
            whole = runner.of(self._noted())
            if not as_read and self._taken_away is not None:
                others = [name for name in whole.columns if name != "id"]
                frames = {"pend": whole, "taken": runner.of(self._taken_away)}
                whole = runner.sql(rules.with_taken_ids(others), frames)
            return runner.of(runner.data(whole).select([f"`{encoded(name)}`" for name in columns]))

    def _fetched(self) -> pa.Table:
        if self._here is None:
            self._here = self._narrow(narrow_columns(self.entity), as_read=True).read_all()
        return self._here

    def _noted(self) -> DataFrame:
        """Return all of these columns as a frame on executors; they read it once."""
        if self._away is None:
            columns = narrow_columns(self.entity)
            self._away = self._read_away(columns, self.narrow_schema(columns)).persist()
        return self._away

    def _read_away(self, columns: Sequence[str], schema: pa.Schema) -> DataFrame:
        read = partial(_read_noted, ref=self.destination.ref, columns=list(columns))
        names = [one.loose for one in self.written if one.loose is not None]
        return task_frame(self.session, read, names, spark_schema(portable_schema(schema)))

    # -- ids that records take

    def take_ids(self, runner: Runner, taken: Frame) -> bool:
        """Remember the ids that records take, and say whether they differ from the ones before."""
        assert isinstance(runner, SparkRunner)
        assert isinstance(taken, SparkFrame)
        changed = super().take_ids(runner, taken)
        if changed and not self._is_small:
            self._free_taken()
            if self._taken is not None:
                with spark_errors():
                    self._taken_away = runner.data(taken).select("*").persist()
        self.may_repeat = self._named > 0 or self._taken is not None
        return changed

    def _taken_by_tasks(self, runner: Runner) -> Frame:
        if self._is_small:
            return super()._taken_by_tasks(runner)
        assert isinstance(runner, SparkRunner)
        schema = pa.schema({ORDER: pa.int64(), TAKEN: pa.utf8()})
        with spark_errors():
            noted = runner.of(self._read_away(schema.names, schema))
            return runner.of(runner.query(TAKEN_BY_TASKS, {"f": noted}))

    # -- writing

    def stage(self, table: Table, mode: LoadMode, on_rows: OnRows | None = None) -> Staged:
        """Stage the images, or have them written again; ``on_rows`` is told once how many rows they have."""
        staged = super().stage(table, mode)
        if on_rows is not None:
            on_rows(self.rows - (0 if self._losers is None else len(self._losers)))
        return staged

    def _merged_again(self, table: Table) -> Staged:
        """Have executors write the rows once more, without those left out, for the table as it is now."""
        losers = None if self._losers is None else self._losers.sort()
        if self._again_without != (losers, self._taken):
            self._again.drop()
        fragments = self._again.of(table, "images")
        places = None if fragments is None else match_again(table, fragments)
        if fragments is None or places is None:
            done = self._rewritten(table.ref)
            fragments = [fragment for one in done for fragment in one.fragments]
            places = np.concatenate([np.empty(0, np.uint64), *(one.replaced for one in done)])
            self._again.keep(table, "images", fragments)
            self._again_without = (losers, self._taken)
            self._rewrites += [(table.ref, fragment) for fragment in fragments]
        if not len(places):
            return stage_append_fragments(table, fragments)
        return stage_replace_rows(table, places, fragments)

    def _rewritten(self, ref: TableRef) -> list[Written]:
        run = _Rewrite(self.destination, ref, self._losers, self._taken)
        outcomes = run_tasks(
            self.session,
            run,
            [one for one in self.written if one.rows],
            at_once=settings.LOAD_CONCURRENCY.get(),
            weight=lambda one: one.rows,
        )
        return [outcome.get() for outcome in outcomes]

    # -- afterwards

    def free(self) -> None:
        """Free what executors keep for the rules."""
        self._free_taken()
        if self._away is not None:
            self._away.unpersist()
            self._away = None

    def _free_taken(self) -> None:
        if self._taken_away is not None:
            self._taken_away.unpersist()
            self._taken_away = None

    def remove_files(self) -> None:
        """Remove every file that did not become part of the table."""
        fragments = [fragment for one in self.written for fragment in one.fragments]
        discard_files(self.destination.ref, fragments, [one.loose for one in self.written])
        for ref in dict.fromkeys(ref for ref, _ in self._rewrites):
            discard_files(ref, [one for other, one in self._rewrites if other == ref], [])


@executor_task
def _read_noted(name: str, *, ref: TableRef, columns: Sequence[str]) -> Batches:
    """Yield columns of a file that a task wrote beside its images."""
    for batch in read_data_file(ref, name, columns):
        yield portable(batch.select(list(columns)))


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """Writes the images of a task again, for another version of the table or without some records."""

    destination: Destination
    ref: TableRef
    losers: pa.Array | None
    taken: TakenIds | None

    def __call__(self, one: Written) -> Written:
        old = self.destination
        assert one.loose is not None
        images = Images(self.ref, old.entity, old.image_sizes)
        rows = image_rows(old.ref, old.entity, one.fragments, one.loose)
        for batch in drop_losers(rows, self.losers):
            images.add(batch if self.taken is None else self.taken.apply_to(batch))
        images.write()
        return Written(
            one.partition,
            one.rows,
            tuple(images.fragments),
            replaced=images.replaced,
        )
