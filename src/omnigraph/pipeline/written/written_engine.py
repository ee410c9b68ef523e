"""What the engines have in common whose tasks wrote the rows: the commit of the data source, and loads on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omnigraph.pipeline.engine import Incoming, Tell
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.local.patched_rows import complete_here
from omnigraph.pipeline.rows.bad_records import RejectedRecords
from omnigraph.pipeline.rows.row_rules import RowRules
from omnigraph.pipeline.written.task_rows import TaskResult, read_rejected
from omnigraph.pipeline.written.written_rows import WrittenRows
from omnigraph.runner.local_runner import FEW_ROWS
from omnigraph.storage.tables.table_ref import TableRef

ROW_BYTES = 256
"""About what a row takes, to divide many of them into parts."""


class WrittenEngine:
    """An engine whose records are read, judged and written by tasks."""

    name = "spark"
    writes_beside_tables = True

    def __init__(self) -> None:
        self._completed = 0

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Make whole rows of the records of a patch, in this process."""
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


def bad_records(
    results: Sequence[TaskResult], request: LoadPlan, directory: Path, rejects: TableRef | None
) -> RejectedRecords:
    """Gather the bad records of all tasks; raise if they end the load.

    ``rejects`` is where tasks wrote all of them, if the caller wants them.
    """
    spool = None if request.rejects is None else directory / "bad.jsonl"
    bad = RejectedRecords(spool, request.options.first_bad)
    for one in results:
        bad.cut.update(one.cut)
        if one.rejected is None or rejects is None:
            bad.add(one.bad)
            bad.total += one.bad_total - len(one.bad)
        else:
            for found in read_rejected(rejects, one.rejected):
                bad.add(found)
    if not request.options.skips:
        bad.end(request.inputs.sources, request.rejects)
    return bad
