"""`graph.diff`, `graph.export`, `commits.changes` and `changes.baseline`: states of a graph, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.cancel import Cancel, current, watched
from omnigraph.errors import BadRequest, BranchNotFound
from omnigraph.graph.access import Access
from omnigraph.graph.arguments import check_progress
from omnigraph.graph.reads import resolve, retry_if_remade
from omnigraph.graph.state import GraphState
from omnigraph.graph.unknown_here import reading_of
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import find_commit
from omnigraph.manifest.history.resolve import resolve_on
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot, Target, TargetLike
from omnigraph.policy.checker import Action

# What these need is imported inside the functions, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.diff import Change, Position
    from omnigraph.changes.diff_result import DiffResult
    from omnigraph.changes.export.export_files import ExportOutput, Out
    from omnigraph.changes.export.write_export import ExportResult
    from omnigraph.changes.feed.commit_changes import CommitChanges
    from omnigraph.changes.feed.poll import BaselineResult
    from omnigraph.changes.stats import Meter
    from omnigraph.runner.executors import EngineName, Executors
    from omnigraph.runner.runner import Runner

OnPinned = Callable[[str], object]
"""Called with the id of the commit that is written, before its first byte."""
OnExported = Callable[[int, int], object]
"""Called with the number of records written, and of those there are in all."""
Filter = tuple[Iterable[str] | None, Iterable[str] | None, Iterable[str] | None]
"""Kinds, types and ops, as a caller gives them."""


def diff(
    state: GraphState,
    from_: TargetLike,
    to: TargetLike,
    filter: ChangeFilter,
    *,
    images: bool,
    short: bool = False,
    engine: EngineName = "auto",
    token: Callable[[], Cancel | None] = current,
) -> DiffResult:
    """Pin both sides and compare them when the result is read; refuse what cannot be compared.

    ``token`` gives the token for a reading of the result.
    """
    from omnigraph.changes.cursors import filter_digest
    from omnigraph.changes.diff import diff_chunks
    from omnigraph.changes.diff_result import DiffResult
    from omnigraph.changes.differing_types import type_names
    from omnigraph.changes.schemas.two_schemas import schema_change
    from omnigraph.runner.executors import Executors

    executors = Executors(engine)
    before, _ = _pinned(state, from_)
    after, current = _pinned(state, to)

    sides = (state.workspace, before, after, current, filter)
    chunks = partial(diff_chunks, *sides, images=images, short=short)

    def compared(meter: Meter, start_after: Position | None) -> Iterator[Sequence[Change]]:
        with executors.comparing() as spark_for:
            yield from chunks(start_after=start_after, meter=meter, spark_for=spark_for)

    def run(meter: Meter, start_after: Position | None) -> Iterator[Sequence[Change]]:
        return watched(token(), compared(meter, start_after))

    # Errors are raised here, not when the result is read.
    chunks()
    form = {"images": images, "short": short, "names": type_names(current)}
    shown = filter_digest({**filter.to_json(), **form})
    schema = schema_change(state.workspace.manifest, before, after)
    return DiffResult(state.workspace, before, after, shown, run, schema)


def _pinned(state: GraphState, side: TargetLike) -> tuple[Snapshot, Catalog]:
    """Return the snapshot of a side, and the schema that is accepted now on its branch."""
    branch, snapshot = resolve_on(state.workspace.manifest, Target.of_value(side))
    return snapshot, state.schemas.at(branch).catalog


def export(
    access: Access,
    out: Out,
    target: Target,
    types: Sequence[str] | None = None,
    engine: EngineName = "auto",
    progress: OnExported | None = None,
    *,
    format: object = None,
    lease: bool | None = None,
    on_pinned: OnPinned | None = None,
) -> ExportResult:
    """Write the records of one snapshot that the actor may export; ``lease`` and ``on_pinned`` as below."""
    access.state.ensure_open()
    wanted = access.ask_read(target, Action.EXPORT)
    with reading_of(access, wanted):
        return write_snapshot(
            access.state,
            out,
            wanted,
            types,
            engine,
            progress,
            format=format,
            lease=lease,
            on_pinned=on_pinned,
        )


def write_snapshot(
    state: GraphState,
    out: Out,
    target: Target,
    types: Sequence[str] | None = None,
    engine: EngineName = "auto",
    progress: OnExported | None = None,
    *,
    format: object = None,
    kinds: Sequence[str] = (),
    operation: str = "export",
    lease: bool | None = None,
    durable: bool = False,
    on_pinned: OnPinned | None = None,
) -> ExportResult:
    """Write the records of one snapshot; what is refused is refused before the first byte.

    ``format`` is one of JSON lines or of files of columns; by default the name of the file says which.
    ``durable``: a file is on disk, with its name, before this returns.
    ``lease`` says whether to try to put a read lease; by default, if the handle may write.
    ``on_pinned`` is called with the id of the commit before the first byte.
    """
    from omnigraph.changes.export.column_files import LINES, format_of, write_column_export
    from omnigraph.changes.export.export_files import output_to
    from omnigraph.changes.export.pinned_export import PinnedExport, Selection, pin_export
    from omnigraph.changes.export.write_export import write_export
    from omnigraph.runner.executors import Executors

    def open_output(where: Out) -> ExportOutput:
        return output_to(where, durable=durable, options=state.workspace.root.options)

    chosen = format_of(out, format)
    executors = Executors(engine)
    if chosen == LINES:
        output = open_output(out)
    elif engine == "spark":
        raise BadRequest(
            f"Spark sorts exports of JSON lines, and {chosen} is written here; leave engine out, or write "
            'spark.read.format("omnigraph") with Spark\'s own writers'
        )
    selection = Selection(tuple(types or ()), tuple(kinds))

    def pin() -> PinnedExport:
        return pin_export(
            state.workspace,
            lambda: resolve(state, target),
            selection,
            operation=operation,
            may_write=state.mode == "rw" if lease is None else lease,
        )

    if chosen != LINES:
        with retry_if_remade(target, pin) as pinned:
            on_rows = _telling(progress, pinned.row_count)
            return write_column_export(state.workspace, pinned, out, chosen, open_output, on_rows)
    with retry_if_remade(target, pin) as pinned, _runners(executors) as runner_for, output:
        if on_pinned is not None:
            on_pinned(pinned.snapshot.graph_commit_id)
        on_records = _telling(progress, pinned.row_count)
        result = write_export(state.workspace, pinned, output, runner_for, on_records)
    return replace(result, note=executors.note)


def _telling(progress: OnExported | None, total: int) -> Callable[[int], object] | None:
    return None if progress is None else lambda records: progress(records, total)


@contextmanager
def _runners(executors: Executors) -> Iterator[Callable[[TableState], Runner]]:
    """Give the engine for each table: one that runs here, and one on Spark if it is needed."""
    from omnigraph.runner.local_runner import LocalRunner

    made: dict[str, Runner] = {}

    def runner_for(table: TableState) -> Runner:
        session = executors.for_table(table)
        if session is None:
            return made.setdefault("local", LocalRunner())
        if "spark" not in made:
            from omnigraph.runner.spark_runner import SparkRunner, working_session

            made["spark"] = SparkRunner(working_session(session))
        return made["spark"]

    try:
        yield runner_for
    finally:
        for runner in made.values():
            runner.close()


def baseline(
    access: Access,
    out: Out,
    branch: str,
    filter: Filter,
    engine: EngineName = "auto",
    progress: Callable[[int, int], object] | None = None,
    *,
    lease: bool | None = None,
    on_pinned: OnPinned | None = None,
) -> BaselineResult:
    """Write a baseline; ``lease`` and ``on_pinned`` as in an export."""
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.feed.poll import BaselineResult, Feed

    state, wanted = access.state, ChangeFilter.of(*filter)
    state.ensure_open()
    access.ask(Action.EXPORT, branch)
    # One head for both: what is committed from here on is what the cursor gives first.
    head = state.workspace.manifest.state(branch)
    feed = Feed(state.workspace, head, wanted)
    commit_id = head.head.commit.graph_commit_id
    done = write_snapshot(
        state,
        out,
        Target.of(snapshot=commit_id),
        wanted.types,
        engine,
        check_progress(progress),
        kinds=wanted.kinds,
        operation="baseline",
        lease=lease,
        durable=True,
        on_pinned=on_pinned,
    )
    return BaselineResult(commit_id, feed.cursor(commit_id), done)


def commit_changes(
    state: GraphState,
    graph_commit_id: str,
    filter: Filter,
    limit: int | None,
    page_token: str | None,
    *,
    images: bool,
    short: bool = False,
) -> CommitChanges:
    """Return a page of what a commit changed against its first parent."""
    from omnigraph.changes.change_filter import ChangeFilter
    from omnigraph.changes.feed import commit_changes as feed

    manifest = state.workspace.manifest
    try:
        branch = manifest.state(find_commit(manifest, graph_commit_id).branch or MAIN)
    except BranchNotFound:
        branch = manifest.state(
            MAIN
        )  # its rows are gone with the branch, and reading them will say so
    wanted, current = ChangeFilter.of(*filter), state.schemas.at(branch).catalog
    reader = feed.ChangeReader(state.workspace, current, wanted, images=images, short=short)
    return feed.commit_changes(reader, graph_commit_id, limit, page_token)
