"""Commit a write from Spark: a load whose rows are in files that tasks wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omnigraph.commit.replays import publish_once
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.datasource.write import WritePlan, discard_rows
from omnigraph.pipeline.engine import FindTarget, ReadRecords
from omnigraph.pipeline.load import load
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.load_plan import LoadPlan, LoadResult
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.written.task_rows import TaskResult
from omnigraph.pipeline.written.written_engine import WrittenEngine, bad_records
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.runner import Runner
from omnigraph.write.index_builds import Builds, build_here


def commit_rows(
    workspace: Workspace, plan: WritePlan, results: Sequence[TaskResult]
) -> LoadResult | None:
    """Check the rows of all tasks together, and publish them as one commit.

    None: they are a micro-batch of a stream that is empty, or is there already.
    """
    ordered = sorted(results, key=lambda one: one.task)
    batch, branch = plan.options.batch, plan.options.load.branch
    if batch is not None:
        batch = replace(batch, table_key=plan.table_key)
        plan = replace(plan, options=replace(plan.options, batch=batch))
    if batch is None:
        result: LoadResult | None = _load(workspace, plan, ordered)
    elif plan.mode == "overwrite" or any(one.rows or one.bad_total for one in ordered):
        result = publish_once(workspace, branch, batch, lambda: _load(workspace, plan, ordered))
    else:
        result = publish_once(workspace, branch, batch, lambda: None)
    # Images that had to be read again as rows are of no use any more, nor is what tasks of a write wrote
    # that was committed before.
    used = plan.form == "fragments" and result is not None and not result.replayed
    discard_rows(plan, ordered, failed=False, fragments=not used)
    return result


def _load(workspace: Workspace, plan: WritePlan, ordered: Sequence[TaskResult]) -> LoadResult:
    with LoadInput(store=workspace.root.options) as inputs:
        count = 1 + max((one.task for one in ordered), default=-1)
        inputs.sources = [
            InputSource(number, f"partition {number}", InMemory(b""), 0, unit="row")
            for number in range(count)
        ]
        options, batch = plan.options.load, plan.options.batch
        if batch is not None:
            options = replace(options, operation_id=batch.operation_id)
        request = LoadPlan(
            inputs,
            options,
            branch_id=plan.branch_identifier,
            batch=batch,
            to_merge='write with .option("merge", "true")',
        )
        schema = plan.ir_hash, plan.rules.catalog
        return load(workspace, lambda: schema, request, _CommitEngine(plan, ordered))


class _CommitEngine(WrittenEngine):
    """An engine whose records were already read, checked and written by tasks of Spark."""

    def __init__(self, plan: WritePlan, results: Sequence[TaskResult]) -> None:
        super().__init__()
        self.plan = plan
        self.results = results

    def runner(self) -> Runner:
        return LocalRunner()

    def read(
        self,
        request: LoadPlan,
        rules: RowRules,  # noqa: ARG002 - the tasks had theirs
        directory: Path,
        report: ProgressReport,
        target: FindTarget,  # noqa: ARG002 - the tasks wrote already
    ) -> ReadRecords:
        report.tell("reading")
        bad = bad_records(self.results, request, directory, self.plan.ref)
        written = [one for result in self.results for one in result.tables.values()]
        rows = WrittenRows(self.plan.destination, written, directory)
        if not rows.rows and self.plan.mode != "overwrite":
            return ReadRecords({}, bad)
        return ReadRecords({self.plan.table_key: rows}, bad)

    def builds(self, _rows: int) -> Builds:
        return build_here

    def proves_rules(self, *_: object) -> bool:
        return False

    def discard(self) -> None:
        """Do nothing, as below."""

    def close(self) -> None:
        """Do nothing: the caller keeps or removes the files."""
