"""Load: many records become one commit, or nothing changes.

The stages: (1) read the records and sort them by type, (2) apply the rules about one row, (3) check the
rules about many rows (set rules) against the pinned snapshot, (4) write fragments, (5) commit in phases A
to D. Everything that depends on the engine goes through the protocols of `engine` and the runner.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnigraph import settings
from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts
from omnigraph.commit.changes import LateFacts, StagedStep, TableChange, Write
from omnigraph.commit.heal import heal
from omnigraph.commit.phases.marking import marked
from omnigraph.commit.replays import run_once
from omnigraph.errors import OmniGraphError, ProviderError, SchemaConflict
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.history.equal_content import check_unchanged
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit, TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.choose_engine import choose_engine
from omnigraph.pipeline.engine import Incoming, LoadEngine, fill_vectors
from omnigraph.pipeline.final_rows import FinalRows, FindFinalRows
from omnigraph.pipeline.load_branch import RowsPlace, base_branch, created_branch, refuse_early
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.load_plan import LoadPlan, LoadResult
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.rows.vector_spool import VectorSpool
from omnigraph.pipeline.sources.load_scratch import scratch
from omnigraph.runner.runner import Runner
from omnigraph.storage.tables.staging import Staged
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.write.index_builds import IndexReport, index_steps, missing_indexes

LARGE_ROWS = 10_000
"""A load of more rows holds its locks for long when it must be validated again under them."""


def load(
    workspace: Workspace,
    pin_schema: Callable[[], tuple[str, Catalog]],
    request: LoadPlan,
    engine: LoadEngine | None = None,
) -> LoadResult:
    """Run a load; a lost race is tried again as often as the caller allows.

    ``pin_schema`` gives the accepted schema and the hash that names it. It is asked once dead writers'
    work is finished, which may change the schema. Records are read once, and rows that were written as
    files stay as they are: only what depends on the head of the branch is done again. Under another schema
    records mean something else, so then they are read again if that is possible. ``engine`` is given for
    records that were read elsewhere; otherwise the request decides. If the operation id is known already,
    nothing is loaded and the first answer is returned again. ``BatchRepeated`` says that the micro-batch of
    a stream is there already (``commit/replays.py``).
    """
    options = request.options
    options.check_choices()
    if not options.check:
        heal(workspace)
    targets = [options.branch] + ([] if options.from_branch is None else [options.from_branch])

    def run() -> LoadResult:
        # A check leaves no trace, so it puts a mark only if its engine needs one, which is not chosen yet.
        with nullcontext() if options.check else marked(workspace, "load"):
            return _load(workspace, pin_schema, request, engine)

    if request.batch is not None:
        return run()
    return run_once(workspace, targets, request.asked, run, LoadResult.replay)


def _load(
    workspace: Workspace,
    pin_schema: Callable[[], tuple[str, Catalog]],
    request: LoadPlan,
    engine: LoadEngine | None,
) -> LoadResult:
    options = request.options
    left = 0 if engine is not None or not request.inputs.is_repeatable else options.retries
    with (
        scratch() as spooled,
        contextlib.closing(_vector_spool(request, spooled)) as vectors,
    ):
        while True:
            schema = pin_schema()
            try:
                return _load_under(workspace, schema, request, engine, vectors)
            except SchemaConflict:
                if left == 0 or options.if_commit is not None or pin_schema()[0] == schema[0]:
                    raise
            left = None if left is None else left - 1


def _vector_spool(request: LoadPlan, directory: Path) -> VectorSpool:
    options = request.options
    return VectorSpool(
        request.embedder, directory / "vectors", all_needed=options.embed, only_asked=options.check
    )


def _load_under(
    workspace: Workspace,
    schema: tuple[str, Catalog],
    request: LoadPlan,
    engine: LoadEngine | None,
    vectors: VectorSpool,
) -> LoadResult:
    """Run a load whose records are read under this schema; ``SchemaConflict`` if it is replaced."""
    ir_hash, catalog = schema
    refuse_early(workspace, request)
    note = None
    if engine is None:
        engine, note = choose_engine(request)
    mark = marked(workspace, "load") if engine.writes_beside_tables else nullcontext()
    with mark, scratch() as directory, contextlib.closing(engine):
        work = _Load(
            workspace,
            catalog,
            ir_hash,
            request,
            engine=engine,
            directory=directory,
            vectors=vectors,
            note=note,
        )
        with _discarding(engine):
            return _run(work, workspace, request)


def _run(work: _Load, workspace: Workspace, request: LoadPlan) -> LoadResult:
    """Read the records, and write them as often as it takes."""
    work.read()
    options = request.options
    if options.check:
        return work.check(workspace.manifest.state(base_branch(workspace, options)))
    # Reading may take hours. The work of writers that died meanwhile is finished before the rows are checked
    # against the graph.
    heal(workspace)
    with created_branch(workspace, request) as work.branch_created:
        attempts = Attempts(
            workspace,
            options.branch,
            options.retries,
            options.if_commit,
            work.branch_id,
            one_schema=True,
        )
        return attempts.run(work.write)


@contextmanager
def _discarding(engine: LoadEngine) -> Iterator[None]:
    """Remove what an engine wrote for a load that fails."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OmniGraphError):
            engine.discard()
        raise


def _and_note(note: str | None, failure: ProviderError | None) -> str | None:
    """Add why vectors were left null, if a provider that is there failed."""
    if failure is None or failure.details.get("missing"):
        return note
    said = f"vectors were left null: {failure.message}; fill them with `embed`"
    return said if note is None else f"{note}; {said}"


class _Load:
    """One load: the input is read once, writing may be tried again."""

    def __init__(
        self,
        workspace: Workspace,
        catalog: Catalog,
        ir_hash: str,
        request: LoadPlan,
        engine: LoadEngine,
        directory: Path,
        vectors: VectorSpool,
        note: str | None,
    ) -> None:
        self.workspace = workspace
        self.catalog = catalog
        self.ir_hash = ir_hash
        self.request = request
        self.options = request.options
        self.engine = engine
        self.directory = directory
        self.started = stamp_us()
        self.search: FindFinalRows
        self.vectors = vectors
        self.note = note
        self.branch_created = False
        self.branch_id = request.branch_id
        """The identifier of the only branch that the rows can go to; None: any of that name."""
        self.report = ProgressReport(self.options.progress)
        self.timings: dict[str, float] = {}

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[stage] = round(time.perf_counter() - start, 4)

    def read(self) -> None:
        """Run stages 1 and 2; any bad record ends the load, unless it is to be skipped."""
        sources = self.request.inputs.sources
        row_rules = RowRules(
            self.catalog,
            new_ulid(),
            self.started // 1000,
            self.request.blobs,
            patch=self.options.mode == "patch",
            skip=self.options.skips,
            show_rows=self.request.rejects is not None and any(s.unit == "row" for s in sources),
            folders=self.request.inputs.folders(),
        )
        place = RowsPlace(self.workspace, self.request, self.catalog, self.ir_hash)
        with self._timed("read"), place.unless_remade():
            found = self.engine.read(
                self.request, row_rules, self.directory, self.report, place.find
            )
        if found.are_placed:
            self.branch_id = place.branch_id
        self.search = FindFinalRows(
            self.workspace, self.request, row_rules, self.engine, found, self.directory
        )

    def check(self, state: BranchState) -> LoadResult:
        """Run stage 3 on one state of the branch, and write nothing."""
        final, pending = self._validate(state)
        return self._result(final, pending)

    def write(self, attempt: Attempt) -> LoadResult:
        """Run stages 3 to 5 on the newest snapshot of the branch."""
        final, pending = self._validate(attempt.state)
        report = IndexReport()
        self.report.tell("writing")
        began = time.perf_counter()
        told = self._result(final, pending)

        def complete(_pins: Sequence[TableState] = ()) -> dict[str, Any]:
            # Known only once the tables are written; a repetition of the load is answered with it too.
            told.indexes_built = list(report.built)
            told.timings["write"] = round(time.perf_counter() - began, 4)
            return self.request.asked.facts(self._kept_answer(told))

        told.commit = self._commit(attempt, final, report, self._kept_answer(told), complete)
        if "write" not in told.timings:
            complete()  # others have published it
        return told

    def _kept_answer(self, told: LoadResult) -> dict[str, Any]:
        """The answer as the commit keeps it: commits are read by others and for ever, so without values."""
        bad = self.search.bad.report(self.request.inputs.sources, plain=True)
        return {**told.answer(), "bad_records": bad}

    def _validate(self, state: BranchState) -> tuple[FinalRows, int]:
        """Run stage 3: the rows that are to be written, and how many of their vectors stay null."""
        if state.head.ir_hash != self.ir_hash:
            raise SchemaConflict("the schema changed while the records were read; load them again")
        self.report.tell("validating")
        runner = self.engine.runner()
        try:
            with self._timed("validate"):
                final = self.search.find(runner, state)
            return final, self._fill_vectors(runner, state, final)
        finally:
            runner.close()

    def _result(self, final: FinalRows, pending: int) -> LoadResult:
        return LoadResult(
            branch=self.options.branch,
            mode=self.options.mode,
            engine=self.engine.name,
            tables=[
                {"table_key": key, "rows_loaded": count}
                for key, count in sorted(final.counts.items())
            ],
            actor_id=self.options.actor,
            commit=None,
            base_branch=self.options.from_branch,
            branch_created=self.branch_created,
            embeddings_pending=pending,
            bad_records=self.search.bad.report(self.request.inputs.sources),
            truncated=dict(sorted(self.search.bad.cut.items())),
            timings=dict(self.timings),
            note=_and_note(self.note, self.vectors.failure) if pending else self.note,
        )

    def _fill_vectors(self, runner: Runner, state: BranchState, final: FinalRows) -> int:
        """Have missing vectors made, and return how many stay null."""
        if not any(incoming.unfilled for incoming in final.incoming.values()):
            return 0
        self.report.tell("embedding")

        def stored(rows: Incoming) -> tuple[TableRef, bool]:
            pin = state.head.tables[rows.entity.table_key]
            replaces = self.options.mode == "merge" and rows.may_repeat and pin.row_count > 0
            return self.workspace.pinned(pin), replaces

        with self._timed("embed"):
            return fill_vectors(final.incoming.values(), runner, stored, self.vectors)

    def _commit(
        self,
        attempt: Attempt,
        final: FinalRows,
        report: IndexReport,
        answer: dict[str, Any],
        complete: LateFacts,
    ) -> GraphCommit:
        state = attempt.state
        pins = state.head.tables
        sources = check_unchanged(self.workspace.manifest, state, self.request.made_from)
        relied_on = (final.relied_on | sources) - set(final.incoming)
        changes = [
            self._change(pins[key], incoming, report)
            for key, incoming in sorted(final.incoming.items())
        ]
        write = Write(
            writer="load",
            pin=state.pin,
            ir_hash=state.head.ir_hash,
            intent=Intent(
                new_ulid(),
                "load",
                self.started,
                self.options.actor,
                facts={**self.request.asked.facts(answer), **self.request.stream_facts},
                operation_id=self.options.operation_id,
            ),
            late_facts=complete,
            batch=self.request.batch,
            tables=tuple(changes),
            relied_on=tuple(pins[key] for key in sorted(relied_on)),
            is_large=sum(incoming.rows for incoming in final.incoming.values()) > LARGE_ROWS,
        )
        return attempt.commit(write)

    def _change(self, pin: TableState, incoming: Incoming, report: IndexReport) -> TableChange:
        # The rows that a patch made are whole: they replace others as those of a merge do.
        mode: LoadMode = "merge" if self.options.mode == "patch" else self.options.mode
        on_rows = self.report.staged if self.report.wanted else None

        def stage(table: Table) -> Staged:
            return incoming.stage(table, mode, on_rows)

        steps = [StagedStep(stage, stop=incoming.stopper())]
        after = incoming.rows + (0 if mode == "overwrite" else pin.row_count)
        if after >= settings.INDEX_MIN_ROWS.get():
            table = open_table(self.workspace.pinned(pin))
            # An overwrite drops every index with the rows it covered.
            wanted = missing_indexes(incoming.entity, table, all_of_them=mode == "overwrite")
            builds = self.engine.builds(after)
            building = index_steps(incoming.entity, wanted, report, builds)
            steps += [self._announced(step) for step in building]
        return TableChange(pin, tuple(steps))

    def _announced(self, step: StagedStep) -> StagedStep:
        """The step of an index build, which reports when it begins."""

        def stage(table: Table) -> Staged | None:
            self.report.tell("indexing")
            return step.stage(table)

        return replace(step, stage=stage)
