"""Write a type from Spark: tasks check rows and write files, one commit makes them visible.

A task treats its rows as a load treats those of a frame. It may run in any process and more than
once: ids are made from the operation, the partition and the row. It reports its files in a `Written`.
The commit is a load whose rows are in those files (`datasource/commit.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import check_precondition
from omnigraph.errors import BadRequest, StorageError
from omnigraph.lang.schema.catalog import Catalog, EdgeType, Entity, NodeType
from omnigraph.manifest import refs
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.lost_races import branch_remade, version_removed
from omnigraph.manifest.manifest import branch_not_found
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.pipeline.datasource.options import WriteOptions, find_type, refuse_ends
from omnigraph.pipeline.datasource.rejected import RejectedRows
from omnigraph.pipeline.formats.frames import frame_blocks
from omnigraph.pipeline.formats.typed_batch import MAX_SOURCES
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.rows.bad_records import BadRecords
from omnigraph.pipeline.rows.images import IMAGE_SIZES, ImageSizes
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.written.task_files import (
    Destination,
    Form,
    TaskFiles,
    Written,
    discard_files,
)
from omnigraph.storage import layout
from omnigraph.storage.locks.write_marks import end_job, mark_job
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.tables.branch_refs import read_branch
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.uris import Root


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write, planned before its tasks run; it is sent to them and to the commit.

    ``named``: rows may have the ids of other rows, because ids are given, made from a key, or taken
    from stored edges.
    ``form``: what tasks write (see `Destination`). A branch without a fork of the table has no place for
    fragments yet.
    """

    options: WriteOptions
    mode: LoadMode
    rules: RowRules
    table_key: str
    ref: TableRef
    ir_hash: str
    branch_identifier: str | None
    """The identifier of the branch; None for `main`, and for a branch that the commit makes."""
    named: bool
    form: Form
    image_sizes: ImageSizes = IMAGE_SIZES
    made_from: str | None = None
    """The branch that the commit makes a missing one from."""

    @property
    def entity(self) -> Entity:
        """The type that is written."""
        return self.rules.catalog.entity(self.table_key)

    @property
    def destination(self) -> Destination:
        """Where its tasks write, and what."""
        return Destination(
            self.entity, self.ref, self.form, self.mode == "overwrite", self.image_sizes
        )


def base_branch(workspace: Workspace, options: WriteOptions) -> str:
    """Return the branch whose rows a write meets: its own, or the one it will be made from."""
    if options.from_branch is None or options.branch in refs.list_refs(workspace.manifest):
        return options.branch
    return options.from_branch


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
        raise BadRequest(
            "merge=true goes with mode append, where it replaces rows of the same id; give merge=false "
            "to replace all rows"
        )
    if overwrite and options.patch:
        raise BadRequest(
            "patch=true goes with mode append, where it changes rows of the same id; give patch=false "
            "to replace all rows"
        )
    _check_columns(entity, catalog, options, schema)
    base = base_branch(workspace, options)
    state = workspace.manifest.state(base)
    if (
        options.operation_id is None
    ):  # the commit of an operation that is sent again moved the branch
        check_precondition(workspace, state, options.if_commit)
    pin = state.head.tables[entity.table_key]
    mode: LoadMode = "overwrite" if overwrite else "append"
    if options.merge or options.patch:
        mode = "patch" if options.patch else "merge"
    named = "id" in options.layout(entity, catalog).places(schema.names) or (
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
            show_rows=options.rejects is not None,
        ),
        entity.table_key,
        workspace.pinned(pin),
        ir_hash,
        state.identifier if base == options.branch else None,
        named,
        _form(entity, options, mode, named, pin.table_branch == lance_branch(options.branch)),
        made_from=None if base == options.branch else base,
    )


def _form(entity: Entity, options: WriteOptions, mode: LoadMode, named: bool, forked: bool) -> Form:
    # Of fragments no row can be left out later, and the records of a patch are no whole rows. The commit
    # makes missing vectors, each text once, which tasks that run again could not.
    if not forked or options.patch or options.on_bad == "skip" or entity.embeds:
        return "rows"
    if mode != "merge" and isinstance(entity, EdgeType) and entity.identity is not None:
        # An id that was made may have to be another one: files with blobs cannot be read again, and others
        # do not say which ids were made.
        return "rows" if named or entity.blob_properties else "fragments"
    if mode != "merge" or not named:
        return "fragments"
    # Images may have to be read again, which is not possible for files with blobs.
    return "rows" if entity.blob_properties else "images"


def _check_columns(
    entity: Entity, catalog: Catalog, options: WriteOptions, schema: pa.Schema
) -> None:
    """Refuse wrong column names and types: an empty frame already shows them."""
    refuse_ends(entity, options.ends)
    none = pa.RecordBatch.from_pylist([], schema=schema)
    reader = pa.RecordBatchReader.from_batches(schema, [none])
    for read in frame_blocks(options.layout(entity, catalog), reader, source=0):
        read()


# ------------------------------------------------------------------ a task


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> Written:
    """Check the rows of a partition and write them; a bad row among them means no file stays."""
    if partition >= MAX_SOURCES:
        raise BadRequest(f"the frame has more than {MAX_SOURCES} partitions; coalesce it")
    with _on_its_branch(plan):
        mark_job(_store(plan), plan.rules.operation_id)
        return _write_rows(plan, batches, partition)


def _store(plan: WritePlan) -> ObjectStore:
    return open_store(Root.parse(plan.options.graph), given=plan.ref.storage_options)


@contextmanager
def _on_its_branch(plan: WritePlan) -> Iterator[None]:
    """Report failures because the branch or the version that the write was planned for is gone."""
    try:
        yield
    except StorageError as error:
        branch = plan.options.branch if plan.made_from is None else plan.made_from
        if branch != MAIN:
            found = read_branch(_store(plan), layout.MANIFEST, branch)
            if found is None:
                raise branch_not_found(branch) from None
            if plan.made_from is None and found.identifier != plan.branch_identifier:
                raise branch_remade(branch) from None
        if isinstance(error, VersionMissing):
            raise version_removed(plan.table_key, error.details["version"]) from None
        raise


def _write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> Written:
    judging = _Judging(plan, partition)
    files = TaskFiles(plan.destination)
    try:
        for batch in judging.good(batches):
            files.add(batch)
        if judging.is_refused:
            files.discard()
            written = Written(partition)
        else:
            written = files.close(partition, named=judging.named, unfilled=judging.unfilled)
        judging.rejected.close()
    except BaseException:
        files.discard()
        discard_files(plan.ref, (), [judging.rejected.name])
        raise
    return replace(
        written,
        bad=tuple(judging.bad.first),
        bad_total=judging.bad.total,
        rejected=judging.rejected.name,
        cut=judging.bad.cut,
        job=plan.rules.operation_id,
    )


class _Judging:
    """Checks the rows of one partition, and collects what is wrong with them."""

    def __init__(self, plan: WritePlan, partition: int) -> None:
        self.plan = plan
        self.partition = partition
        self.bad = BadRecords()
        self.rejected = RejectedRows(plan.ref, wanted=plan.options.rejects is not None)
        self.named = 0
        self.unfilled = 0

    @property
    def is_refused(self) -> bool:
        """Whether a bad row ends the write."""
        return self.bad.total > 0 and not self.plan.rules.skip

    def good(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the checked rows; after the first bad one rows are only checked."""
        given = iter(batches)
        first = next(given, None)
        if first is None:
            return
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], given))
        layout = self.plan.options.layout(self.plan.entity, self.plan.rules.catalog)
        for read in frame_blocks(layout, reader, source=self.partition):
            judged = self.plan.rules.judge(read())
            self.bad.add(judged.bad)
            self.bad.cut.update(judged.cut)
            self.rejected.add(judged.bad)
            self.unfilled += sum(judged.unfilled.values())
            self.named += sum(judged.named.values())
            for _, batch in judged.rows:
                if not self.is_refused:
                    yield batch


# ------------------------------------------------------------------ what is left of a failure


def discard_rows(plan: WritePlan, written: Sequence[Written], *, failed: bool = True) -> None:
    """Remove the files that tasks wrote, except those that became part of the table.

    This is the end of the job, whether it was committed or not: nothing of it will be any more.
    """
    fragments = [fragment for one in written for fragment in one.fragments]
    loose = [name for one in written for name in (one.loose, one.rejected)]
    discard_files(plan.ref, fragments, loose)
    jobs = {one.job for one in written if one.job is not None}
    for job in jobs or {plan.rules.operation_id}:
        # Of tasks that failed nobody was told which files they left.
        end_job(_store(plan), job, left_files=failed)
