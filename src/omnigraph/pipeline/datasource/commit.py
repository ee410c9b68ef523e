"""Commit a write from Spark: a load whose rows are in files that tasks wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omnigraph.commit.replays import publish_once
from omnigraph.manifest.workspace import Workspace
from omnigraph.pipeline.datasource.rejected import read_rejected
from omnigraph.pipeline.datasource.write import WritePlan, discard_rows
from omnigraph.pipeline.engine import FindTarget, Incoming, ReadRecords, Tell
from omnigraph.pipeline.load import load
from omnigraph.pipeline.load_input import LoadInput
from omnigraph.pipeline.local.complete_here import complete_here
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.request import LoadRequest, LoadResult
from omnigraph.pipeline.rows.bad_records import BadRecords
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import Source
from omnigraph.pipeline.written.task_files import Written
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.local_runner import FEW_ROWS, LocalRunner
from omnigraph.runner.protocol import Runner
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.write.index_builds import Builds, build_here

ROW_BYTES = 256
"""About what a row takes, to divide many of them into parts."""


def commit_rows(
    workspace: Workspace, plan: WritePlan, written: Sequence[Written]
) -> LoadResult | None:
    """Check the rows of all tasks together, and publish them as one commit.

    None: they are a micro-batch of a stream that is empty, or is there already.
    """
    ordered = sorted(written, key=lambda one: one.partition)
    batch, branch = plan.options.batch, plan.options.branch
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
    left = [replace(one, fragments=()) for one in ordered] if used else ordered
    discard_rows(plan, left, failed=False)
    return result


def _load(workspace: Workspace, plan: WritePlan, ordered: Sequence[Written]) -> LoadResult:
    with LoadInput(store=workspace.root.options) as inputs:
        count = 1 + max((one.partition for one in ordered), default=-1)
        inputs.sources = [
            Source(number, f"partition {number}", InMemory(b""), 0, unit="row")
            for number in range(count)
        ]
        options = plan.options.load_options(plan.mode)
        request = LoadRequest(
            inputs,
            options,
            branch_id=plan.branch_identifier,
            batch=plan.options.batch,
            to_merge='write with .option("merge", "true")',
        )
        schema = plan.ir_hash, plan.rules.catalog
        return load(workspace, lambda: schema, request, _WrittenEngine(plan, ordered))


class _WrittenEngine:
    """An engine whose records were already read, checked and written by tasks of Spark."""

    name = "spark"

    def __init__(self, plan: WritePlan, written: Sequence[Written]) -> None:
        self.plan = plan
        self.written = written
        self._completed = 0

    def runner(self) -> Runner:
        return LocalRunner()

    def read(
        self,
        request: LoadRequest,
        rules: RowRules,  # noqa: ARG002 - the tasks had theirs
        directory: Path,
        report: ProgressReport,
        target: FindTarget,  # noqa: ARG002 - the tasks wrote already
    ) -> ReadRecords:
        report.tell("reading")
        bad = BadRecords(None if request.rejects is None else directory / "bad.jsonl")
        for one in self.written:
            bad.cut.update(one.cut)
            if one.rejected is None:
                bad.add(one.bad)
                bad.total += one.bad_total - len(one.bad)
            else:
                for found in read_rejected(self.plan.ref, one.rejected):
                    bad.add(found)
        if not request.skips:
            bad.end(request.inputs.sources, request.rejects)
        rows = WrittenRows(
            self.plan.destination, self.written, directory, may_repeat=self.plan.named
        )
        if not rows.rows and self.plan.mode != "overwrite":
            return ReadRecords({}, bad)
        return ReadRecords({self.plan.table_key: rows}, bad)

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Make whole rows of the rows of a patch, in the process of the commit."""
        assert isinstance(records, WrittenRows)
        self._completed += 1
        return complete_here(
            rules,
            records.entity,
            records.records(),
            ref,
            directory / f"whole-{self._completed}.arrow",
            tell,
            nbytes=records.rows * ROW_BYTES,
            named=records.may_repeat,
            few_rows=FEW_ROWS,
        )

    def builds(self, _rows: int) -> Builds:
        return build_here

    def proves_rules(self, *_: object) -> bool:
        return False

    def discard(self) -> None:
        """Do nothing, as below."""

    def close(self) -> None:
        """Do nothing: the caller keeps or removes the files."""
