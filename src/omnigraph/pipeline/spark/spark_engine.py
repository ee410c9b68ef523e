"""The Spark engine of a load: executors read, check and write the records, and this process commits them.

Tasks write their rows to files while they read them (`load_tasks`): as fragments of the table or images of
its rows where they can become part of it as they are, otherwise as rows that are read again once the rules
have decided what is stored (`written/`). Spark keeps nothing of it, so that rows which rules have looked at are
those that are committed, also of a frame that gives others each time. Every task gives the same rows
each time it runs, so Spark may run it again, twice at once, or elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from omnigraph.pipeline.engine import FindTarget, Incoming, LoadTarget, ReadRecords, Tell
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.load_plan import LoadPlan
from omnigraph.pipeline.progress import OnRows, ProgressReport
from omnigraph.pipeline.rows.row_rules import Aliases, RowRules
from omnigraph.pipeline.rows.stored_rows import Spellings, spellings_of
from omnigraph.pipeline.rule_questions import RuleQuestions
from omnigraph.pipeline.spark.maintenance_jobs import build_on_spark
from omnigraph.pipeline.spark.read_plan import InputPlan
from omnigraph.pipeline.spark.rule_proof import rules_hold, written_pieces
from omnigraph.pipeline.spark.spark_rows import SparkRows, SparkSizes
from omnigraph.pipeline.written.task_files import Destination, discard_files, form_of
from omnigraph.pipeline.written.task_rows import TaskPlan, TaskResult
from omnigraph.pipeline.written.written_engine import WrittenEngine, bad_records
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.masters import local_cores
from omnigraph.runner.runner import Runner
from omnigraph.runner.spark_errors import error_of, spark_errors
from omnigraph.runner.spark_runner import SparkRunner, working_session
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.validate.committed import Committed
from omnigraph.write.index_builds import Builds, build_here

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


POLL_SECONDS = 0.2


class SparkEngine(WrittenEngine):
    """The executors of one Spark session."""

    sizes: ClassVar[SparkSizes] = SparkSizes()

    def __init__(self, session: SparkSession) -> None:
        super().__init__()
        with spark_errors():
            self.session = working_session(session)
            self.is_local = local_cores(self.session.sparkContext.master or "") is not None
            self.cores = self.session.sparkContext.defaultParallelism
        self.writes_beside_tables = not self.is_local
        self._rows: dict[str, SparkRows] = {}
        self._whole: list[SparkRows] = []
        self._rules: RowRules
        self._is_here = False

    def runner(self) -> Runner:
        """Return a runner that is where the rules are asked: in the session, or here."""
        return LocalRunner() if self._is_here else SparkRunner(self.session)

    def read(
        self,
        request: LoadPlan,
        rules: RowRules,
        directory: Path,
        report: ProgressReport,
        target: FindTarget,
    ) -> ReadRecords:
        """Have executors read and write everything; raise if any record is bad, unless it is to be skipped."""
        report.tell("reading")
        self._rules = rules
        tally = TaskTally(self.session, report.read if report.wanted else None)
        with spark_errors():
            plan = InputPlan(
                self.session, request, rules, directory, tally.counter, is_local=self.is_local
            )
            met = target()
            tasks = self._task_plan(request, rules, directory, met)
            with tally.watched():
                results = plan.run(tasks)
        # Before any failure is raised: `discard` removes the files of the rows that are gathered.
        self._gather(results, request, tasks, directory)
        # Tasks that ran twice have counted twice; what they told is counted once.
        tally.settle(sum(one.rows + one.bad_total for one in results))
        _raise_failure(results)
        _number_parts(results, request)
        try:
            bad = bad_records(results, request, directory, tasks.rejects)
        finally:
            if tasks.rejects is not None:
                discard_files(tasks.rejects, (), [one.rejected for one in results])
        rows = sum(one.rows for one in self._rows.values())
        # Few rows are judged here, without a job for each rule, unless a table is too large to be scanned by
        # one process.
        self._is_here = rows <= self.sizes.here_rows and met.largest <= self.sizes.here_table_rows
        placed = any(one.destination.form != "rows" for one in self._rows.values())
        return ReadRecords(dict(self._rows), bad, are_placed=placed)

    def _task_plan(
        self, request: LoadPlan, rules: RowRules, directory: Path, target: LoadTarget
    ) -> TaskPlan:
        mode = request.options.mode
        destinations = {}
        for key, ref in target.tables.items():
            entity = rules.catalog.entity(key)
            form = form_of(entity, mode, is_final=target.is_final)
            # Rows that become part of the table must lie in its own directory; those that are read again need
            # not.
            place = self._beside(ref, directory) if form == "rows" else ref
            destinations[key] = Destination(entity, place, form, mode == "overwrite")
        rejects = None
        if request.rejects is not None:
            rejects = self._beside(next(iter(target.tables.values())), directory)
        return TaskPlan(rules, destinations, rejects, first_bad=request.options.first_bad)

    def _beside(self, ref: TableRef, directory: Path) -> TableRef:
        """Return where rows lie that are read again: all executors reach it, and no deleted branch takes it along."""
        return TableRef(str(directory / "written")) if self.is_local else ref.on(None)

    def _gather(
        self,
        results: Sequence[TaskResult],
        request: LoadPlan,
        tasks: TaskPlan,
        directory: Path,
    ) -> None:
        """Make incoming rows of what tasks wrote."""
        aliases: Aliases = {}
        for result in results:
            for name, spelled in result.aliases.items():
                aliases.setdefault(name, {}).update(spelled)
        keys = [entity.table_key for entity in request.types_to_empty(tasks.rules.catalog)]
        found = dict.fromkeys([*(key for one in results for key in one.tables), *keys])
        for key in found:
            destination = tasks.destinations[key]
            self._rows[key] = SparkRows(
                self.session,
                self.sizes,
                destination,
                [one.tables[key] for one in results if key in one.tables],
                directory,
                spellings_of(destination.entity, aliases),
            )

    def proves_rules(
        self,
        runner: Runner,  # noqa: ARG002 - tasks look at the columns
        incoming: Mapping[str, Incoming],
        mode: LoadMode,
        committed: Committed,
    ) -> bool:
        """Ask executors; few rows are looked at here."""
        written = {key: rows for key, rows in incoming.items() if isinstance(rows, SparkRows)}
        rows = sum(one.rows for one in written.values())
        if rows <= self.sizes.fetched_rows or not all(one.is_final for one in written.values()):
            return False
        with spark_errors():
            questions = RuleQuestions(
                self._rules.catalog,
                written,
                mode,
                committed,
                lambda key: written_pieces(written[key]),
            )
            return rules_hold(self.session, questions, self.cores, self.sizes.shared_bytes)

    def complete(
        self, rules: RowRules, records: Incoming, ref: TableRef, directory: Path, tell: Tell
    ) -> Incoming:
        """Make whole rows of the records of a patch: few in this process, many on executors."""
        assert isinstance(records, SparkRows)
        if records.rows <= self.sizes.here_rows:
            return super().complete(rules, records, ref, directory, tell)
        beside = self._beside(ref, directory)
        done = records.completed(rules, ref, beside)
        for one in done:
            if one.bad:
                tell(one.bad)
        whole = SparkRows(
            self.session,
            self.sizes,
            Destination(records.entity, beside, "rows"),
            [one.written for one in done],
            directory,
            Spellings(),
        )
        self._whole.append(whole)
        return whole

    def discard(self) -> None:
        """Remove the files that executors wrote; none that a version of a table refers to."""
        for rows in self._all_rows:
            rows.remove_files(failed=True)
        self._free()

    def builds(self, rows: int) -> Builds:
        """Have executors build the indexes of a large table, and this process those of a small one."""
        is_small = rows < self.sizes.indexed_rows
        return build_here if is_small else partial(build_on_spark, self.session)

    def close(self) -> None:
        """Free what the executors keep of the load, and remove the files that served only its rules."""
        for rows in self._all_rows:
            rows.remove_files(failed=False)
        self._free()

    def _free(self) -> None:
        with spark_errors():
            for rows in self._all_rows:
                rows.free()
        self._rows, self._whole = {}, []

    @property
    def _all_rows(self) -> list[SparkRows]:
        return [*self._rows.values(), *self._whole]


def _raise_failure(results: Sequence[TaskResult]) -> None:
    """Raise the first error in the input that ends the load."""
    for one in results:
        if one.failure is not None:
            raise error_of(one.failure)


def _number_parts(results: Sequence[TaskResult], request: LoadPlan) -> None:
    """Note the sizes of the partitions of DataFrames, from which row numbers are computed."""
    parts: dict[int, dict[int, int]] = {}
    for source, part, rows in (one.part for one in results if one.part is not None):
        parts.setdefault(source, {})[part] = rows
    sources = request.inputs.sources
    for index, sizes in parts.items():
        counted = tuple(sizes.get(part, 0) for part in range(max(sizes) + 1))
        sources[index] = replace(sources[index], parts=counted)


class TaskTally:
    """A count that tasks add to. ``counter`` is sent to them; None if no progress is reported."""

    def __init__(self, session: SparkSession, on_rows: OnRows | None) -> None:
        self.counter: Accumulator[int] | None = None
        if on_rows is not None:
            self.counter = session.sparkContext.accumulator(0)
        self._on_rows = on_rows
        self._seen = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Report the count several times a second while the block waits for a job."""
        if self.counter is None:
            yield
            return
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def settle(self, total: int) -> None:
        """Report the difference between ``total`` and what was reported so far."""
        if self._on_rows is not None and total != self._seen:
            more, self._seen = total - self._seen, total
            self._on_rows(more)

    def _watch(self, over: threading.Event) -> None:
        assert self.counter is not None
        while not over.wait(POLL_SECONDS):
            self.settle(self.counter.value)
