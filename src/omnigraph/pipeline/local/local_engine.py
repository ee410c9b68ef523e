"""The local engine: threads read and judge blocks, whose rows are written to Arrow files in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from omnigraph.lang.schema.catalog import Catalog
from omnigraph.memory import give_back
from omnigraph.pipeline.engine import FindTarget, Incoming, ReadRecords, Tell
from omnigraph.pipeline.formats.typed_batch import Parsed, ReadBlock, no_rows
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.local.local_proof import proves_rules
from omnigraph.pipeline.local.parallel import in_order
from omnigraph.pipeline.local.patched_rows import complete_spooled
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.pipeline.progress import ProgressReport
from omnigraph.pipeline.rows.bad_records import RejectedRecords
from omnigraph.pipeline.rows.row_rules import Aliases, JudgedBlock, RowRules
from omnigraph.pipeline.rows.stored_rows import spellings_of
from omnigraph.runner.local_runner import FEW_ROWS, LocalRunner
from omnigraph.runner.runner import Runner
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.committed import Committed
from omnigraph.write.index_builds import Builds, build_here


class LocalEngine:
    """Runs a load in this process: DuckDB for set rules, Arrow files between the stages."""

    name = "local"
    writes_beside_tables = False
    few_rows: ClassVar[int] = FEW_ROWS
    """At most this many rows of a table are looked at here, in Arrow, rather than by a query."""

    def __init__(self) -> None:
        self._completed = 0
        self._catalog: Catalog

    def runner(self) -> LocalRunner:
        """A runner with a DuckDB of its own for one attempt."""
        return LocalRunner(few_rows=self.few_rows)

    def read(
        self,
        request: LoadPlan,
        rules: RowRules,
        directory: Path,
        report: ProgressReport,
        target: FindTarget,  # noqa: ARG002 - rows are kept in files until they are checked
    ) -> ReadRecords:
        """Read everything; any bad record ends the load, unless it is to be skipped."""
        self._catalog = rules.catalog
        return _Reading(request, rules, directory, self.few_rows).run(report)

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Make whole rows of the records of a patch, in this process."""
        assert isinstance(records, SpooledRows)
        self._completed += 1
        path = directory / f"whole-{self._completed}.arrow"
        return complete_spooled(rules, records, ref, path, tell, self.few_rows)

    def builds(self, _rows: int) -> Builds:
        """Build the indexes in this process."""
        return build_here

    def proves_rules(
        self,
        _runner: Runner,
        incoming: Mapping[str, Incoming],
        mode: LoadMode,
        committed: Committed,
    ) -> bool:
        """Look up the ends of edges that no other rule concerns."""
        return proves_rules(self._catalog, incoming, mode, committed)

    def discard(self) -> None:
        """Nothing was written outside of the directory of the load."""

    def close(self) -> None:
        """There is nothing to free: files lie in the directory of the load."""


class _Reading:
    """The input of one load, read once."""

    def __init__(self, request: LoadPlan, rules: RowRules, directory: Path, few_rows: int) -> None:
        self.few_rows = few_rows
        self.request = request
        self.rules = rules
        self.directory = directory
        self.incoming: dict[str, SpooledRows] = {}
        self.aliases: Aliases = {}

    def run(self, report: ProgressReport) -> ReadRecords:
        rejects, sources = self.request.rejects, self.request.inputs.sources
        spool = None if rejects is None else self.directory / "bad.jsonl"
        bad = RejectedRecords(spool, self.request.options.first_bad)
        report.tell("reading")
        for parsed, judged in in_order(self._work()):
            bad.add(judged.bad)
            bad.cut.update(judged.cut)
            self._keep(judged)
            rows = sum(typed.batch.num_rows for typed in parsed.batches)
            report.tell("reading", rows + parsed.bad.num_rows)
        if not self.rules.skip:
            bad.end(sources, rejects)
        for entity in self.request.types_to_empty(self.rules.catalog):
            if entity.table_key not in self.incoming:
                self._keep(self.rules.judge(no_rows(entity)))
        if any(rows_of.rows > FEW_ROWS for rows_of in self.incoming.values()):
            give_back()
        for rows_of in self.incoming.values():
            rows_of.finish()
            spellings = spellings_of(rows_of.entity, self.aliases)
            if spellings:
                rows_of.replace_text(spellings)
        incoming: dict[str, Incoming] = dict(self.incoming)
        return ReadRecords(incoming, bad)

    def _work(self) -> Iterator[Callable[[], tuple[Parsed, JudgedBlock]]]:
        for block in self.request.inputs.blocks(self.rules.catalog, patch=self.rules.patch):
            yield partial(self._judge, block)

    def _judge(self, block: ReadBlock) -> tuple[Parsed, JudgedBlock]:
        parsed = block()
        return parsed, self.rules.judge(parsed)

    def _keep(self, judged: JudgedBlock) -> None:
        for name, aliases in judged.aliases.items():
            self.aliases.setdefault(name, {}).update(aliases)
        for key, batch in judged.rows:
            if key not in self.incoming:
                path = self.directory / f"{len(self.incoming)}.arrow"
                self.incoming[key] = SpooledRows(
                    self.rules.catalog.entity(key), path, self.few_rows
                )
            self.incoming[key].add(batch)
            self.incoming[key].unfilled += judged.unfilled[key]
            self.incoming[key].any_named |= judged.named[key] > 0
            self.incoming[key].any_made |= judged.named[key] < batch.num_rows
