"""`graph.export`: from a target and a place to the records written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest
from omnigraph.graph.access import Access
from omnigraph.graph.reads import resolve, retry_if_remade
from omnigraph.graph.state import GraphState
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Target
from omnigraph.policy.checker import Action

# Loaded by the first export: it needs numpy and pyarrow.
if TYPE_CHECKING:
    from omnigraph.changes.export.export import ExportResult
    from omnigraph.changes.export.output import Out, Output
    from omnigraph.runner.executors import EngineName, Executors
    from omnigraph.runner.protocol import Runner

OnExported = Callable[[int, int], object]
"""Called with the number of records written, and of those there are in all."""


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
) -> ExportResult:
    """Write the records of one snapshot that the actor may export; ``lease`` as below."""
    access.state.ensure_open()
    wanted = access.ask_read(target, Action.EXPORT)
    return write_snapshot(
        access.state, out, wanted, types, engine, progress, format=format, lease=lease
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
) -> ExportResult:
    """Write the records of one snapshot; what is refused is refused before the first byte.

    ``format`` is one of JSON lines or of files of columns; by default the name of the file says which.
    ``durable``: a file is on disk, with its name, before this returns.
    ``lease`` says whether to try to put a read lease; by default, if the handle may write.
    """
    from omnigraph.changes.export.column_export import write_column_export
    from omnigraph.changes.export.column_files import LINES, format_of
    from omnigraph.changes.export.export import write_export
    from omnigraph.changes.export.output import output_to
    from omnigraph.changes.export.pinned_export import PinnedExport, Selection, pin_export
    from omnigraph.runner.executors import Executors

    def open_output(where: Out) -> Output:
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
