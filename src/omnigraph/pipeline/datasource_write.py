"""Writing a type from Spark: tasks judge rows and put down files, one commit makes them visible.

A task does with its rows what a load does with a frame's, in whatever process it runs and however
often: ids come from the operation, the partition and the row. What it wrote is told in a message. The
commit is a load whose rows are those files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.commit.workspace import Workspace, lance_branch
from omnigraph.errors import BadRequest, Conflict
from omnigraph.lang.schema.catalog import Catalog, NodeType
from omnigraph.manifest.create import new_commit_id, now_us
from omnigraph.pipeline.datasource import Entity, WriteOptions, find_type
from omnigraph.pipeline.frames import typed_batches
from omnigraph.pipeline.incoming import SOURCE_SHIFT, ReadRecords, stored_rows
from omnigraph.pipeline.inputs import LoadInput
from omnigraph.pipeline.judging import RowRules
from omnigraph.pipeline.load import load
from omnigraph.pipeline.locations import InMemory
from omnigraph.pipeline.progress import ProgressReport, Told
from omnigraph.pipeline.report import Bad, BadRecords
from omnigraph.pipeline.request import LoadMode, LoadRequest, LoadResult
from omnigraph.pipeline.sources import Source
from omnigraph.pipeline.spool import scratch
from omnigraph.runner.local import LocalRunner
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.storage.handles import Table, TableRef, open_table
from omnigraph.storage.loose_files import (
    LooseFile,
    data_files,
    read_data_file,
    remove_loose_files,
)
from omnigraph.storage.staging import (
    Staged,
    stage_append,
    stage_append_fragments,
    stage_merge_insert,
    stage_overwrite,
    stage_overwrite_fragments,
    write_fragments,
)
from omnigraph.validate.change_set import ORDER, needed_columns
from omnigraph.write.ensure_indices import Builds, build_here

if TYPE_CHECKING:
    import pyarrow as pa

MAX_PARTITIONS = 1 << (63 - SOURCE_SHIFT)
RETRIES = 3
"""A whole job is not thrown away because another writer came between its last look and its commit."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write, fixed before its tasks run; it travels to them and back to the commit.

    ``named``: rows have ids that others may have too, and not only such as are made for them.
    ``direct``: what tasks write are fragments of the table as it will be. Otherwise they are files
    that the commit reads again: a merge has to find what it replaces, and on a branch that has no
    fork of the table yet there is no place for its fragments.
    """

    options: WriteOptions
    mode: LoadMode
    rules: RowRules
    table_key: str
    ref: TableRef
    ir_hash: str
    branch_identifier: str | None
    named: bool
    direct: bool

    @property
    def entity(self) -> Entity:
        """The type that is written."""
        return self.rules.catalog.entity(self.table_key)


@dataclass(frozen=True, slots=True)
class Written:
    """What one task did: its files, or what is wrong with its rows.

    ``loose`` names the file that the commit reads: of all columns, or only of those that rules look
    at, where they cannot be read from the fragments.
    """

    partition: int
    rows: int = 0
    fragments: tuple[Any, ...] = ()
    loose: str | None = None
    bad: tuple[Bad, ...] = ()
    bad_total: int = 0
    embeddings_pending: int = 0


def plan_write(
    space: Workspace,
    accepted: tuple[str, Catalog],
    options: WriteOptions,
    schema: pa.Schema,
    *,
    overwrite: bool,
) -> WritePlan:
    """Check what can be checked before a task runs, and fix what all tasks share.

    ``accepted`` is the accepted schema and the hash that names it; ``schema`` is that of the frame.
    """
    ir_hash, catalog = accepted
    entity = find_type(catalog, options.type)
    if overwrite and options.merge:
        raise BadRequest("merge=true goes with mode append, where it replaces rows of the same id")
    _check_columns(entity, options, schema)
    state = space.manifest.state(options.branch)
    pin = state.head.tables[entity.table_key]
    mode: LoadMode = "merge" if options.merge else "overwrite" if overwrite else "append"
    named = "id" in schema.names or (isinstance(entity, NodeType) and entity.key is not None)
    return WritePlan(
        options,
        mode,
        RowRules(catalog, new_commit_id(), now_us() // 1000),
        entity.table_key,
        space.pinned(pin),
        ir_hash,
        state.identifier,
        named,
        direct=not (mode == "merge" and named) and pin.table_branch == lance_branch(options.branch),
    )


def _check_columns(entity: Entity, options: WriteOptions, schema: pa.Schema) -> None:
    """Refuse columns that no row can fit: names and types show without any rows."""
    import pyarrow as pa

    none = pa.RecordBatch.from_pylist([], schema=schema)
    reader = pa.RecordBatchReader.from_batches(schema, [none])
    for _ in typed_batches(entity, reader, options.ends.source, options.ends.target):
        pass


# ------------------------------------------------------------------ a task


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> Written:
    """Judge the rows of a partition and write them; with a bad one among them nothing stays."""
    if partition >= MAX_PARTITIONS:
        raise BadRequest(f"the frame has more than {MAX_PARTITIONS} partitions; coalesce it")
    rows = _Judging(plan, partition)
    loose = LooseFile(plan.ref)
    fragments: list[Any] = []
    try:
        if plan.direct:
            fragments = _write_fragments(plan, rows.good(batches), loose)
        else:
            for batch in rows.good(batches):
                loose.add(batch)
        loose.close()
    except BaseException:
        _remove(plan, fragments, loose.name)
        raise
    if rows.failure is not None or rows.bad.total:
        _remove(plan, fragments, loose.name)
    if rows.failure is not None:
        raise rows.failure
    if rows.bad.total:
        return Written(partition, bad=tuple(rows.bad.first), bad_total=rows.bad.total)
    return Written(
        partition, rows.rows, tuple(fragments), loose.name, embeddings_pending=rows.pending
    )


def _write_fragments(
    plan: WritePlan, good: Iterator[pa.RecordBatch], loose: LooseFile
) -> list[Any]:
    import pyarrow as pa

    first = next(good, None)
    if first is None:
        return []
    table = open_table(plan.ref)
    batches: Iterator[pa.RecordBatch] = itertools.chain([first], good)
    if plan.entity.blob_properties:
        batches = _noted(plan.entity, batches, loose)
    stored = stored_rows(plan.entity, table.schema, batches)
    reader = pa.RecordBatchReader.from_batches(table.schema, stored)
    return write_fragments(
        table, reader, mode="overwrite" if plan.mode == "overwrite" else "append"
    )


def _noted(
    entity: Entity, batches: Iterable[pa.RecordBatch], loose: LooseFile
) -> Iterator[pa.RecordBatch]:
    """The batches as they are; what rules look at is also written to a file of its own."""
    columns = ["id", *needed_columns(entity), ORDER]
    for batch in batches:
        loose.add(batch.select(columns))
        yield batch


def _remove(plan: WritePlan, fragments: Iterable[Any], loose: str | None) -> None:
    names = data_files(fragments)
    remove_loose_files(plan.ref, names if loose is None else [*names, loose])


class _Judging:
    """The rows of one partition on their way to a file, and what is wrong with them."""

    def __init__(self, plan: WritePlan, partition: int) -> None:
        self.plan = plan
        self.partition = partition
        self.bad = BadRecords()
        self.rows = 0
        self.pending = 0
        self.failure: BaseException | None = None

    def good(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as a load has them; after the first bad one they are only judged."""
        try:
            yield from self._judged(batches)
        except Exception as error:  # noqa: BLE001 - raised again once Lance is out of the way
            self.failure = error

    def _judged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        given = iter(batches)
        first = next(given, None)
        if first is None:
            return
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], given))
        ends = self.plan.options.ends
        for parsed in typed_batches(
            self.plan.entity, reader, ends.source, ends.target, source=self.partition
        ):
            judged = self.plan.rules.judge(parsed)
            self.bad.add(judged.bad)
            self.pending += judged.embeddings_pending
            for _, batch in judged.rows:
                if not self.bad.total and batch.num_rows:
                    self.rows += batch.num_rows
                    yield batch


# ------------------------------------------------------------------ the commit


def commit_rows(space: Workspace, plan: WritePlan, written: Sequence[Written]) -> LoadResult:
    """Judge the rows of all tasks together, and publish them as one commit."""
    identifier = space.manifest.state(plan.options.branch).identifier
    if identifier != plan.branch_identifier:
        raise Conflict(
            f"the branch `{plan.options.branch}` was deleted and made again while rows were "
            "written for it; write them again",
            branch=plan.options.branch,
        )
    ordered = sorted(written, key=lambda one: one.partition)
    with scratch() as directory:
        inputs = LoadInput(directory)
        count = 1 + max((one.partition for one in ordered), default=-1)
        inputs.sources = [
            Source(number, f"partition {number}", InMemory(b""), 0, unit="row")
            for number in range(count)
        ]
        request = LoadRequest(
            inputs,
            plan.mode,
            plan.options.branch,
            actor_id=plan.options.actor,
            retries=RETRIES,
            ir_hash=plan.ir_hash,
        )
        result = load(space, plan.rules.catalog, request, _WrittenEngine(plan, ordered))
    remove_loose_files(plan.ref, [one.loose for one in ordered if one.loose is not None])
    return result


def discard_rows(plan: WritePlan, written: Sequence[Written]) -> None:
    """Remove what tasks wrote, except files that became part of the table."""
    fragments = [fragment for one in written for fragment in one.fragments]
    loose = [one.loose for one in written if one.loose is not None]
    remove_loose_files(plan.ref, [*data_files(fragments), *loose])


class _WrittenEngine:
    """An engine whose records were read, judged and written by tasks of Spark."""

    name = "spark"

    def __init__(self, plan: WritePlan, written: Sequence[Written]) -> None:
        self.plan = plan
        self.written = written

    def runner(self) -> Runner:
        return LocalRunner()

    def read(
        self,
        request: LoadRequest,
        rules: RowRules,  # noqa: ARG002 - the tasks had theirs
        directory: Path,  # noqa: ARG002
        report: ProgressReport,
    ) -> ReadRecords:
        report.tell("reading")
        bad = BadRecords()
        for one in self.written:
            bad.add(one.bad)
            bad.total += one.bad_total - len(one.bad)
        bad.end(request.inputs.sources, None)
        rows = _WrittenRows(self.plan, self.written)
        if not rows.rows and self.plan.mode != "overwrite":
            return ReadRecords({})
        pending = sum(one.embeddings_pending for one in self.written)
        return ReadRecords({self.plan.table_key: rows}, pending)

    def builds(self, _rows: int) -> Builds:
        return build_here

    def close(self) -> None:
        """The files are kept or removed by the caller."""


class _WrittenRows:
    """The rows that tasks wrote, as the incoming rows of a load."""

    def __init__(self, plan: WritePlan, written: Sequence[Written]) -> None:
        self.plan = plan
        self.written = written
        self.entity = plan.entity
        self.rows = sum(one.rows for one in written)
        self.may_repeat = plan.named
        self._losers: pa.Array | None = None

    def frame(self, runner: Runner, columns: Sequence[str]) -> Frame:
        import pyarrow as pa

        schema = self.entity.arrow_schema()
        fields = [pa.field(ORDER, pa.int64()) if name == ORDER else schema.field(name)
                  for name in columns]  # fmt: skip
        narrow = pa.schema([field.remove_metadata().with_nullable(True) for field in fields])
        batches = (
            pa.RecordBatch.from_arrays([batch.column(name) for name in columns], schema=narrow)
            for batch in self._batches([name for name in columns if name != ORDER])
        )
        return runner.frame(pa.RecordBatchReader.from_batches(narrow, batches))

    def leave_out(self, runner: Runner, losers: Frame) -> int:
        self._losers = runner.collect(losers).column(ORDER).combine_chunks()
        return len(self._losers)

    def stage(self, table: Table, mode: LoadMode, told: Told | None = None) -> Staged:  # noqa: ARG002
        import pyarrow as pa

        if self.plan.direct:
            fragments = [fragment for one in self.written for fragment in one.fragments]
            if mode == "overwrite":
                return stage_overwrite_fragments(table, fragments, table.schema)
            return stage_append_fragments(table, fragments)
        stored = stored_rows(self.entity, table.schema, self._batches(None), self._losers)
        rows = pa.RecordBatchReader.from_batches(table.schema, stored)
        if mode == "overwrite":
            return stage_overwrite(table, rows)
        if mode == "append" or not self.may_repeat:
            return stage_append(table, rows)
        return stage_merge_insert(table, rows)

    def _batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The rows in their order; None gives all columns."""
        for one in self.written:
            if one.loose is not None:
                wanted = None if columns is None else [*columns, ORDER]
                yield from read_data_file(self.plan.ref, one.loose, wanted)
                continue
            row = 1
            for name in data_files(one.fragments):
                for batch in read_data_file(self.plan.ref, name, columns):
                    yield _numbered(batch, one.partition, row)
                    row += batch.num_rows


def _numbered(batch: pa.RecordBatch, partition: int, row: int) -> pa.RecordBatch:
    """The batch with the order column, which fragments do not keep."""
    import numpy as np
    import pyarrow as pa

    order = np.arange(row, row + batch.num_rows, dtype=np.int64) | (partition << SOURCE_SHIFT)
    return batch.append_column(ORDER, pa.array(order))
