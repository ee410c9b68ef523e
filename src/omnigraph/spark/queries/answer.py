"""From a checked plan to a frame of Spark, and from the frame to an answer."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from omnigraph.cancel import interruptible
from omnigraph.embeddings.embedder import Embedder
from omnigraph.errors import StorageError
from omnigraph.lang.query import ir
from omnigraph.read.execute import ReadAnswer
from omnigraph.read.limits import ReadLimits
from omnigraph.read.match.lookups.outline import outline_of
from omnigraph.read.match.pattern import pattern_of
from omnigraph.read.output.window import Window
from omnigraph.read.search.ranking import check_ranking
from omnigraph.read.values.numbers import too_many
from omnigraph.read.view.view import View
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_runner import working_session
from omnigraph.spark.queries.grouped import grouped
from omnigraph.spark.queries.listed import listed
from omnigraph.spark.queries.output import Output, finished
from omnigraph.spark.queries.relations import Relations
from omnigraph.spark.queries.rows import Job
from omnigraph.spark.queries.tables import Tables
from omnigraph.spark.queries.values.fields import ColumnNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


T = TypeVar("T")

ROWS_PER_PARTITION = 20_000
"""A shuffle of few rows has few partitions: each costs a task."""

_ANSI = "spark.sql.ansi.enabled"
"""With these rules a count beyond 64 bits ends the job; without, it would come out as another number.

Spark asks for them when it resolves an expression: a resolved plan keeps them in every session.
"""


def query_session(session: SparkSession, view: View, plan: ir.ReadPlan) -> SparkSession:
    """A session of its own for one query, with as many partitions as the tables that it reads are worth."""
    own = working_session(session)
    outline = outline_of(plan)
    catalog = view.catalog
    read = [*(catalog.nodes[name] for name in outline.node_types)]
    rows = sum(view.table(one).row_count for one in read)
    rows += sum(view.table(catalog.edges[name]).row_count for name in outline.edge_types)
    most = int(own.conf.get("spark.sql.shuffle.partitions") or 200)
    own.conf.set("spark.sql.shuffle.partitions", str(min(most, 1 + rows // ROWS_PER_PARTITION)))
    own.conf.set(_ANSI, "true")
    return own


def checking_session(session: SparkSession) -> SparkSession:
    """A session to compile a frame in: the caller's, or one with ANSI rules if that goes without."""
    if str(session.conf.get(_ANSI)).lower() == "true":
        return session
    own = session.newSession()
    own.conf.set(_ANSI, "true")
    return own


class PlanFrames:
    """A plan on one snapshot, without forms that are `refused`, as frames of a session.

    Nothing runs until rows are asked for. ``keeps_rules``: the snapshot was made under the schema of the view, so
    its rows keep what that demands; a read of the past may find others.
    """

    def __init__(
        self,
        session: SparkSession,
        view: View,
        plan: ir.ReadPlan,
        params: Mapping[str, Any],
        embedder: Embedder | None = None,
        *,
        keeps_rules: bool = False,
    ) -> None:
        self._plan = plan
        self._window = Window.of(plan, params)
        check_ranking(plan.ranking, params)
        tables = Tables(session, view, params, keeps_rules=keeps_rules)
        names = ColumnNames("c")
        self._job = Job(
            session,
            view,
            params,
            names=names,
            tables=tables,
            relations=Relations(tables),
            answer=_source_frame,
            embedder=embedder,
        )
        with spark_errors(), view.reading():
            self._output = _output(self._job, plan)

    def frame(self, session: SparkSession) -> DataFrame:
        """The rows, in order, under the names of the plan's columns, as a frame of a session."""
        with spark_errors():
            frame = self._named(None)
            return frame if frame.sparkSession is session else _moved(frame, session)

    def _named(self, most: int | None) -> DataFrame:
        frame = finished(self._job, self._plan, self._output, most=most)
        return frame.toDF(*(column.name for column in self._plan.columns))

    def answer(self, limits: ReadLimits) -> ReadAnswer:
        """The rows as far as the limits let them through."""
        total = None
        with _counts_checked(), spark_errors():
            if limits.counts_rows:
                total = self._window.rows_of(self._run(self._output.frame.count))
                limits.check_rows(total)
            table = self._run(self._named(limits.shown(self._window.limit)).toArrow)
        answer = as_planned(table, self._plan)
        limits.check_bytes(answer.nbytes)
        return ReadAnswer(answer, total if limits.max_rows is not None else None)

    def _run(self, job: Callable[[], T]) -> T:
        """Run a job of Spark, and stop it when the read should stop."""
        context: Any = self._job.session.sparkContext
        tag = f"omnigraph-{uuid.uuid4().hex}"

        def tagged() -> T:
            context.addJobTag(tag)
            try:
                return job()
            finally:
                context.removeJobTag(tag)

        return interruptible(tagged, lambda: context.cancelJobsWithTag(tag))

    def plan_text(self) -> str:
        """The plan of Spark, as it stands before anything runs."""
        with spark_errors():
            java: Any = self._named(None)._jdf  # noqa: SLF001
            return str(java.queryExecution().simpleString())


def _moved(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same plan, as it is resolved, as a frame of another session."""
    from pyspark.sql import DataFrame as Frames

    java: Any = frame._jdf  # noqa: SLF001
    jvm: Any = session._jvm  # noqa: SLF001
    datasets = jvm.org.apache.spark.sql.classic.Dataset
    there = session._jsparkSession  # noqa: SLF001
    return Frames(datasets.ofRows(there, java.logicalPlan()), session)


@contextmanager
def _counts_checked() -> Iterator[None]:
    """Raise the local engine's refusal where a count passes 64 bits: sums of values are checked for themselves."""
    try:
        yield
    except StorageError as error:
        if _OVERFLOW.search(str(error)):
            raise too_many() from error
        raise


_OVERFLOW = re.compile(r"\[(ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE)")


def _output(job: Job, plan: ir.ReadPlan, *, in_order: bool = False) -> Output:
    pattern = pattern_of(plan.steps)
    if plan.is_aggregate or plan.distinct:
        return grouped(job, plan, pattern)
    return listed(job, plan, pattern, in_order=in_order)


def _source_frame(job: Job, plan: ir.ReadPlan, position: str | None) -> DataFrame:
    """The rows of a query that is a source, in its order if it has a limit."""
    check_ranking(plan.ranking, job.params)
    in_order = position is not None or plan.limit is not None or plan.offset is not None
    output = _output(job, plan, in_order=in_order)
    if in_order:
        output = Output(output.frame, output.order, is_ordered=True)
    return finished(job, plan, output, position)


def as_planned(table: pa.Table, plan: ir.ReadPlan) -> pa.Table:
    """The rows that Spark gave, in the types of the plan."""
    arrays = []
    fields = [pa.field(column.name, column.type.arrow_type()) for column in plan.columns]
    for at, field in enumerate(fields):
        values = table.column(at)
        arrays.append(values if values.type == field.type else values.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
