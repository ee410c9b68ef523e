"""Write a type from Spark: tasks check rows and write files, one commit makes them visible.

A task treats its rows as a load treats those of a frame. It may run in any process and more than
once: ids are made from the operation, the partition and the row. It reports its files in a `Written`.
The commit is a load whose rows are in those files (`datasource/commit.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.errors import BadRequest, StorageError
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.lost_races import branch_remade
from omnigraph.manifest.manifest import branch_not_found
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.pipeline.datasource.merge import TaskImages
from omnigraph.pipeline.datasource.options import WriteOptions, find_type
from omnigraph.pipeline.formats.frames import typed_batches
from omnigraph.pipeline.formats.typed_batch import SOURCE_SHIFT
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.rows.bad_records import Bad, BadRecords
from omnigraph.pipeline.rows.images import IMAGE_SIZES, ImageSizes
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.rows.stored_rows import stored_rows
from omnigraph.pipeline.spark.payloads import narrow_columns
from omnigraph.storage import layout
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.loose_files import (
    LooseFile,
    data_files,
    remove_loose_files,
)
from omnigraph.storage.tables.staging import (
    write_fragments,
)
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root

MAX_PARTITIONS = 1 << (63 - SOURCE_SHIFT)
Form = Literal["fragments", "images", "rows"]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write, planned before its tasks run; it is sent to them and to the commit.

    ``named``: rows may have the ids of other rows, because ids are given, made from a key, or taken
    from stored edges.
    ``form``: what tasks write. ``fragments`` become part of the table, and so do the ``images`` of a
    merge if the table does not change meanwhile. ``rows`` are files that the commit reads again: a
    branch without a fork of the table has no place for fragments yet.
    """

    options: WriteOptions
    mode: LoadMode
    rules: RowRules
    table_key: str
    ref: TableRef
    ir_hash: str
    branch_identifier: str | None
    named: bool
    form: Form
    image_sizes: ImageSizes = IMAGE_SIZES

    @property
    def entity(self) -> Entity:
        """The type that is written."""
        return self.rules.catalog.entity(self.table_key)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of one task: its files, or what is wrong with its rows.

    ``loose`` names the file that the commit reads. It has all columns, or only those that set rules
    look at, where they cannot be read from the fragments.
    """

    partition: int
    rows: int = 0
    fragments: tuple[Any, ...] = ()
    loose: str | None = None
    bad: tuple[Bad, ...] = ()
    bad_total: int = 0
    unfilled: int = 0
    """How many vectors are left to be made from their texts."""
    any_made: bool = False
    """Whether an id was made for some row."""
    replaced: Any = field(default=None, compare=False)
    """The addresses of the rows that images replace."""


def plan_write(
    workspace: Workspace,
    accepted: tuple[str, Catalog],
    options: WriteOptions,
    schema: pa.Schema,
    *,
    overwrite: bool,
) -> WritePlan:
    """Check what can be checked before a task runs, and plan the write.

    ``accepted`` is the hash of the accepted schema and its catalog; ``schema`` is the frame's.
    """
    ir_hash, catalog = accepted
    entity = find_type(catalog, options.type)
    if overwrite and options.merge:
        raise BadRequest("merge=true goes with mode append, where it replaces rows of the same id")
    if overwrite and options.patch:
        raise BadRequest("patch=true goes with mode append, where it changes rows of the same id")
    _check_columns(entity, options, schema)
    state = workspace.manifest.state(options.branch)
    pin = state.head.tables[entity.table_key]
    mode: LoadMode = "overwrite" if overwrite else "append"
    if options.merge or options.patch:
        mode = "patch" if options.patch else "merge"
    named = "id" in schema.names or (
        entity.key is not None
        if isinstance(entity, NodeType)
        else mode in {"merge", "patch"} and entity.identity is not None
    )
    return WritePlan(
        options,
        mode,
        RowRules(
            catalog,
            new_ulid(),
            stamp_us() // 1000,
            patch=options.patch,
            skip=options.on_bad == "skip",
        ),
        entity.table_key,
        workspace.pinned(pin),
        ir_hash,
        state.identifier,
        named,
        _form(entity, options, mode, named, pin.table_branch == lance_branch(options.branch)),
    )


def _form(entity: Entity, options: WriteOptions, mode: LoadMode, named: bool, forked: bool) -> Form:
    # Of fragments no row can be left out later, and the records of a patch are no whole rows. The commit
    # makes missing vectors, each text once, which tasks that run again could not.
    if not forked or options.patch or options.on_bad == "skip" or entity.embeds:
        return "rows"
    if mode != "merge" or not named:
        return "fragments"
    # Images may have to be read again, which is not possible for files with blobs.
    return "rows" if entity.blob_properties else "images"


def _check_columns(entity: Entity, options: WriteOptions, schema: pa.Schema) -> None:
    """Refuse wrong column names and types: an empty frame already shows them."""
    none = pa.RecordBatch.from_pylist([], schema=schema)
    reader = pa.RecordBatchReader.from_batches(schema, [none])
    ends = options.ends
    for _ in typed_batches(entity, reader, ends.source, ends.target, patch=options.patch):
        pass


# ------------------------------------------------------------------ a task


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> Written:
    """Check the rows of a partition and write them; a bad row among them means no file stays."""
    if partition >= MAX_PARTITIONS:
        raise BadRequest(f"the frame has more than {MAX_PARTITIONS} partitions; coalesce it")
    with _on_its_branch(plan):
        return _write_rows(plan, batches, partition)


@contextmanager
def _on_its_branch(plan: WritePlan) -> Iterator[None]:
    """Report failures because the branch that the write was planned for was deleted or replaced."""
    try:
        yield
    except StorageError:
        branch = plan.options.branch
        if branch != MAIN:
            store = open_store(Root.parse(plan.options.graph), given=plan.ref.storage_options)
            found = read_branch(store, layout.MANIFEST, branch)
            if found is None:
                raise branch_not_found(branch) from None
            if found.identifier != plan.branch_identifier:
                raise branch_remade(branch) from None
        raise


def _write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> Written:
    rows = _Judging(plan, partition)
    loose = LooseFile(plan.ref)
    images = TaskImages(plan.ref, plan.entity, loose, narrow_columns(plan.entity), plan.image_sizes)
    fragments = images.fragments
    try:
        if plan.form == "fragments":
            fragments += _write_fragments(plan, rows.good(batches), loose)
        else:
            take = loose.add if plan.form == "rows" else images.add
            for batch in rows.good(batches):
                take(batch)
            if not rows.is_refused:
                images.write()
        loose.close()
    except BaseException:
        _remove(plan, fragments, loose.name)
        raise
    if rows.failure is not None or rows.is_refused:
        _remove(plan, fragments, loose.name)
    if rows.failure is not None:
        raise rows.failure
    bad, total = tuple(rows.bad.first), rows.bad.total
    if rows.is_refused:
        return Written(partition, bad=bad, bad_total=total)
    return Written(
        partition,
        rows.rows,
        tuple(fragments),
        loose.name,
        bad,
        total,
        unfilled=rows.unfilled,
        any_made=rows.named < rows.rows,
        replaced=images.replaced,
    )


def _write_fragments(
    plan: WritePlan, good: Iterator[pa.RecordBatch], loose: LooseFile
) -> list[Any]:
    first = next(good, None)
    if first is None:
        return []
    table = open_table(plan.ref)
    batches: Iterator[pa.RecordBatch] = itertools.chain([first], good)
    if plan.entity.blob_properties:
        batches = _note_narrow(plan.entity, batches, loose)
    stored = stored_rows(plan.entity, table.schema, batches)
    reader = pa.RecordBatchReader.from_batches(table.schema, stored)
    return write_fragments(
        table, reader, mode="overwrite" if plan.mode == "overwrite" else "append"
    )


def _note_narrow(
    entity: Entity, batches: Iterable[pa.RecordBatch], loose: LooseFile
) -> Iterator[pa.RecordBatch]:
    """Yield the batches unchanged, and write the columns of set rules to a file of their own."""
    for batch in batches:
        loose.add(batch.select(narrow_columns(entity)))
        yield batch


def _remove(plan: WritePlan, fragments: Iterable[Any], loose: str | None) -> None:
    names = data_files(fragments)
    remove_loose_files(plan.ref, names if loose is None else [*names, loose])


class _Judging:
    """Checks the rows of one partition, and collects what is wrong with them."""

    def __init__(self, plan: WritePlan, partition: int) -> None:
        self.plan = plan
        self.partition = partition
        self.bad = BadRecords()
        self.rows = 0
        self.named = 0
        self.unfilled = 0
        self.failure: BaseException | None = None

    @property
    def is_refused(self) -> bool:
        """Whether a bad row ends the write."""
        return self.bad.total > 0 and not self.plan.rules.skip

    def good(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the checked rows; after the first bad one rows are only checked."""
        try:
            yield from self._judge(batches)
        except Exception as error:  # noqa: BLE001 - raised again once Lance is out of the way
            self.failure = error

    def _judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = iter(batches)
        first = next(given, None)
        if first is None:
            return
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], given))
        ends = self.plan.options.ends
        for parsed in typed_batches(
            self.plan.entity,
            reader,
            ends.source,
            ends.target,
            source=self.partition,
            patch=self.plan.rules.patch,
        ):
            judged = self.plan.rules.judge(parsed)
            self.bad.add(judged.bad)
            self.unfilled += sum(judged.unfilled.values())
            self.named += sum(judged.named.values())
            for _, batch in judged.rows:
                if not self.is_refused and batch.num_rows:
                    self.rows += batch.num_rows
                    yield batch


# ------------------------------------------------------------------ what is left of a failure


def discard_rows(plan: WritePlan, written: Sequence[Written]) -> None:
    """Remove the files that tasks wrote, except those that became part of the table."""
    fragments = [fragment for one in written for fragment in one.fragments]
    loose = [one.loose for one in written if one.loose is not None]
    remove_loose_files(plan.ref, [*data_files(fragments), *loose])
