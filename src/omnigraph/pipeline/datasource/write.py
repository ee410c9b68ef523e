"""Write a type from Spark: tasks check rows and write files, one commit makes them visible.

A task treats its rows as a load treats those of a frame. It may run in any process and more than
once: ids are made from the operation, the partition and the row. It reports its files in a `TaskResult`.
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
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.lost_races import branch_remade, version_removed
from omnigraph.manifest.manifest import branch_not_found
from omnigraph.manifest.workspace import Workspace, lance_branch
from omnigraph.pipeline.datasource.options import WriteOptions, find_type, refuse_ends
from omnigraph.pipeline.formats.frame_blocks import frame_blocks
from omnigraph.pipeline.formats.typed_batch import MAX_SOURCES
from omnigraph.pipeline.load_branch import base_branch
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.rows.row_images import IMAGE_SIZES, ImageSizes
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.written.task_files import Destination, Form, discard_files, form_of
from omnigraph.pipeline.written.task_rows import TaskPlan, TaskResult, TaskRows
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
    ``form``: what tasks write (see `Destination`).
    """

    options: WriteOptions
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
    def mode(self) -> LoadMode:
        """How the rows meet those that are there."""
        return self.options.load.mode

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

    @property
    def for_tasks(self) -> TaskPlan:
        """What its tasks need to know."""
        rejects = None if self.options.load.rejects is None else self.ref
        destinations = {self.table_key: self.destination}
        return TaskPlan(self.rules, destinations, rejects, job=self.rules.operation_id)


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
    if overwrite:
        options = _overwriting(options)
    load = options.load
    _check_columns(entity, catalog, options, schema)
    base = base_branch(workspace, load)
    state = workspace.manifest.state(base)
    # The commit of an operation that is sent again moved the branch.
    if load.operation_id is None:
        check_precondition(workspace, state, load.if_commit)
    pin = state.head.tables[entity.table_key]
    named = "id" in options.layout(entity, catalog).places(schema.names) or (
        entity.key is not None
        if isinstance(entity, NodeType)
        else load.mode in {"merge", "patch"} and entity.identity is not None
    )
    # A branch without a fork of the table has no place for fragments yet. Of fragments no row can be left
    # out later, and the records of a patch are no whole rows.
    is_forked = pin.table_branch == lance_branch(load.branch)
    is_final = is_forked and load.mode != "patch" and not load.skips
    return WritePlan(
        options=options,
        rules=RowRules(
            catalog,
            new_ulid(),
            stamp_us() // 1000,
            patch=load.mode == "patch",
            skip=load.skips,
            show_rows=load.rejects is not None,
        ),
        table_key=entity.table_key,
        ref=workspace.pinned(pin),
        ir_hash=ir_hash,
        branch_identifier=state.identifier if base == load.branch else None,
        named=named,
        form=form_of(entity, load.mode, is_final=is_final, named=named),
        made_from=None if base == load.branch else base,
    )


def _overwriting(options: WriteOptions) -> WriteOptions:
    """Return the options of a write that replaces all rows; refuse those that say what few rows replace."""
    for name, what in (("merge", "replaces"), ("patch", "changes")):
        if options.load.mode == name:
            raise BadRequest(
                f"{name}=true goes with mode append, where it {what} rows of the same id; give "
                f"{name}=false to replace all rows"
            )
    return replace(options, load=replace(options.load, mode="overwrite"))


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


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> TaskResult:
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
        branch = plan.options.load.branch if plan.made_from is None else plan.made_from
        if branch != MAIN:
            found = read_branch(_store(plan), layout.MANIFEST, branch)
            if found is None:
                raise branch_not_found(branch) from None
            if plan.made_from is None and found.identifier != plan.branch_identifier:
                raise branch_remade(branch) from None
        if isinstance(error, VersionMissing):
            raise version_removed(plan.table_key, error.details["version"]) from None
        raise


def _write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], partition: int) -> TaskResult:
    with TaskRows(plan.for_tasks) as rows:
        given = iter(batches)
        first = next(given, None)
        if first is not None:
            chained = itertools.chain([first], given)
            reader = pa.RecordBatchReader.from_batches(first.schema, chained)
            layout = plan.options.layout(plan.entity, plan.rules.catalog)
            blocks = frame_blocks(layout, reader, source=partition)
            rows.take(partition, (read() for read in blocks))
        return rows.finish(partition)


# ------------------------------------------------------------------ what is left of a failure


def discard_rows(
    plan: WritePlan, results: Sequence[TaskResult], *, failed: bool = True, fragments: bool = True
) -> None:
    """Remove the files that tasks wrote, except those that became part of the table.

    This is the end of the job, whether it was committed or not: nothing of it will be any more.
    ``fragments``: whether any may be left that did not.
    """
    written = [one for result in results for one in result.tables.values()]
    loose = [*(one.loose for one in written), *(result.rejected for result in results)]
    found = [one for result in results for one in result.fragments] if fragments else []
    discard_files(plan.ref, found, loose)
    jobs = {one.job for one in results if one.job is not None}
    for job in jobs or {plan.rules.operation_id}:
        # Of tasks that failed nobody was told which files they left.
        end_job(_store(plan), job, left_files=failed)
