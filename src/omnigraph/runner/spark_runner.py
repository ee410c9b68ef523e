"""The Spark runner: frames are DataFrames, and SQL runs on Spark's executors.

A frame is either a small Arrow table of this process or a DataFrame. A query over Arrow tables only
is answered here, by the local runner, which understands the same texts. Every runner works in a
session of its own on the caller's context, so its settings and views do not disturb the caller.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.runner import (
    BATCH_ROWS,
    BatchFunction,
    Frame,
    Through,
    decoded,
    encoded,
    encoded_text,
    renamed,
)
from omnigraph.runner.spark_columns import (
    from_portable,
    portable,
    portable_schema,
    signed_places,
    spark_schema,
)
from omnigraph.runner.spark_errors import spark_errors
from omnigraph.runner.spark_tasks import Batches, executor_task, kept_frame, sent_frame, task_frame
from omnigraph.storage.filters import Pushdown
from omnigraph.storage.fragment_groups import fragment_sizes, group_fragments, scan_windows
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FETCHED_ROWS = 100_000
"""Filtered reads and sorted scans of up to this number of rows are made here."""
SCANNED_ROWS = 10_000_000
"""The rows of a table up to this size are compared with given values here: that takes a second or two."""
FOUND_ROWS = 500_000
"""If more of its rows have one of these values, executors look for them."""
GROUP_ROWS = 500_000
"""The rows of a table that one task scans at most, unless a single fragment has more."""
COMPARED_ROWS = 1 << 20
BATCH_BYTES = 16 << 20
PARTITION_BYTES = 32 << 20
"""How much of a table, as it is stored, one partition of its sorted rows has: the driver holds two."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Some rows are megabytes: without a bound on bytes a batch of them could be gigabytes.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    # Kept frames are read only a few times, so compressing them costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Up to this size, joining ids by hash tables is faster than sorting them.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64MB",
    "spark.sql.autoBroadcastJoinThreshold": "64MB",
}


def working_session(session: SparkSession) -> SparkSession:
    """Return a new session on the context of another, with the settings that our jobs need."""
    own = session.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    return own


_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """Rows in Arrow (`table`), in a DataFrame (`data`) under encoded names, or in both."""

    columns: tuple[str, ...]
    table: Any = None
    data: Any = None


class SparkRunner:
    """Frames on the executors of a Spark session."""

    name = "spark"

    def __init__(
        self,
        session: SparkSession,
        *,
        fetched_rows: int = FETCHED_ROWS,
        scanned_rows: int = SCANNED_ROWS,
        found_rows: int = FOUND_ROWS,
    ) -> None:
        self.session = session
        self._fetched_rows = fetched_rows
        self._scanned_rows = scanned_rows
        self._found_rows = found_rows
        self._views: dict[int, tuple[SparkFrame, str]] = {}
        self._kept: list[DataFrame] = []
        self._here = LocalRunner()

    @classmethod
    def on(cls, session: SparkSession, *, fetched_rows: int = FETCHED_ROWS) -> SparkRunner:
        """Return a runner that does not disturb what else the session does."""
        return cls(working_session(session), fetched_rows=fetched_rows)

    def frame(self, data: pa.Table | pa.RecordBatchReader) -> SparkFrame:
        """Take rows of this process; they are sent to executors when a query needs them there."""
        import pyarrow as pa

        table = data if isinstance(data, pa.Table) else data.read_all()
        return SparkFrame(tuple(table.column_names), table=table)

    def of(self, data: DataFrame) -> SparkFrame:
        """Return a DataFrame of this runner's session, with encoded column names, as a frame."""
        return SparkFrame(tuple(decoded(name) for name in data.columns), data=data)

    def scan(
        self, ref: TableRef, columns: Sequence[str], where: Pushdown | None = None
    ) -> SparkFrame:
        """Read columns of a table: few filtered rows here, everything else on executors."""
        table = open_table(ref)
        if where is not None:
            found = table.read(columns, where, limit=self._fetched_rows + 1)
            if found.num_rows <= self._fetched_rows:
                return self.frame(found)
        return self.scan_fragments(table, columns, where)

    def scan_among(
        self, ref: TableRef, columns: Sequence[str], column: str, values: pa.ChunkedArray
    ) -> SparkFrame:
        """Read the rows with one of these values: here, unless the table is large or most rows have one.

        A Spark job would first send the whole columns from Python to Java.
        """
        table = open_table(ref)
        keep = partial(_among, column=column, values=values.drop_null().combine_chunks())
        if table.count_rows() <= self._scanned_rows:
            found = _read_through(table, columns, keep, self._found_rows)
            if found is not None:
                return self.frame(found)
        schema = table.scan(columns, limit=1).schema
        return self.scan_fragments(table, columns, through=Through(keep, schema))

    def scan_fragments(
        self,
        table: Table,
        columns: Sequence[str],
        where: Pushdown | None = None,
        through: Through | None = None,
        **options: Any,
    ) -> SparkFrame:
        """Have executors read rows of a table; ``options`` are those of Lance's scanner."""
        given = table.scan(columns, limit=1, **options).schema
        schema = given if through is None else through.schema
        schema = signed_places(schema.empty_table()).schema
        groups = group_fragments(fragment_sizes(table), GROUP_ROWS)
        if not groups:
            return self.frame(schema.empty_table())
        scan = partial(
            _scan_fragments,
            ref=table.ref,
            columns=list(columns),
            where=where,
            function=None if through is None else through.function,
            options=options,
        )
        ids = [group.fragment_ids for group in groups]
        with spark_errors():
            shown = spark_schema(portable_schema(schema))
            return self.of(task_frame(self.session, scan, ids, shown))

    def map(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> SparkFrame:
        """Pass every batch through the function, on the executors."""
        shown = spark_schema(portable_schema(schema))
        with spark_errors():
            mapped = self.data(_spark(frame)).mapInArrow(partial(_mapped, function=function), shown)
            return self._keep(mapped)

    def sql(self, text: str, frames: Mapping[str, Frame]) -> SparkFrame:
        """Return the rows of a query, cached, because most are read more than once."""
        if self._all_here(frames):
            return self.frame(self.ask(text, frames))
        with spark_errors():
            return self._keep(self.query(text, frames))

    def ask(self, text: str, frames: Mapping[str, Frame]) -> pa.Table:
        """Return the rows of a query at once."""
        if self._all_here(frames):
            local = {name: self._here.frame(_spark(frame).table) for name, frame in frames.items()}
            return self._here.ask(text, local)
        with spark_errors():
            return _fetched(self.query(text, frames))

    def collect(self, frame: Frame, limit: int | None = None) -> pa.Table:
        """Return the rows as an Arrow table."""
        spark = _spark(frame)
        if spark.table is not None:
            return spark.table if limit is None else spark.table.slice(0, limit)
        with spark_errors():
            return _fetched(spark.data if limit is None else spark.data.limit(limit))

    def stream(
        self, frame: Frame, batch_rows: int = BATCH_ROWS, *, order_by: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches; executors sort them, and one partition is fetched after another."""
        spark = _spark(frame)
        if spark.table is not None:
            yield from self._here.stream(
                self._here.frame(spark.table), batch_rows, order_by=order_by
            )
        else:
            yield from _streamed(spark.data, batch_rows, order_by)

    def sorted_scan(
        self, ref: TableRef, columns: Sequence[str], order_by: str, through: Through | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order; executors read and sort them, unless they are few."""
        table = open_table(ref)
        fragments = table.fragments()
        if sum(fragment.num_rows for fragment in fragments) <= self._fetched_rows:
            return self._here.sorted_scan(ref, columns, order_by, through)
        scanned = self.scan_fragments(table, columns, through=through)
        size = sum(file.file_size_bytes or 0 for one in fragments for file in one.files)
        return _streamed(scanned.data, BATCH_ROWS, order_by, 1 + size // PARTITION_BYTES)

    def in_memory(self, frame: Frame) -> pa.Table | None:
        """Return the rows if they are in Arrow already."""
        return _spark(frame).table

    def may_repeat(self, frame: Frame, column: str) -> bool:
        """Look only at rows that are in this process; others may repeat."""
        here = self.in_memory(frame)
        return here is None or self._here.may_repeat(self._here.frame(here), column)

    def count(self, frame: Frame) -> int:
        """Return the number of rows."""
        spark = _spark(frame)
        if spark.table is not None:
            return int(spark.table.num_rows)
        with spark_errors():
            return int(spark.data.count())

    def _all_here(self, frames: Mapping[str, Frame]) -> bool:
        return bool(frames) and all(self.in_memory(frame) is not None for frame in frames.values())

    def close(self) -> None:
        """Drop the views, and free what executors keep of the frames."""
        self._here.close()
        with spark_errors():
            for _, view in self._views.values():
                self.session.catalog.dropTempView(view)
            for data in self._kept:
                data.unpersist()
        self._views.clear()
        self._kept.clear()

    def _keep(self, data: DataFrame) -> SparkFrame:
        self._kept.append(kept_frame(data))
        return self.of(self._kept[-1])

    def query(self, text: str, frames: Mapping[str, Frame]) -> DataFrame:
        """Return a query as a DataFrame, not run and not cached; it may be used after this runner.

        The frames' names are defined inside the query (``WITH``), so queries cannot disturb each
        other.
        """
        named = [
            f"{name} AS (SELECT * FROM {self._view(_spark(frame))})"
            for name, frame in frames.items()
        ]
        text = encoded_text(text).strip()
        if not named:
            return self.session.sql(text)
        rest = f", {text[5:]}" if text.startswith("WITH ") else f" {text}"
        return self.session.sql(f"WITH {', '.join(named)}{rest}")

    def _view(self, frame: SparkFrame) -> str:
        known = self._views.get(id(frame))
        if known is None:
            known = (frame, f"og_{next(_numbers)}")
            # Dropping the view of a cached frame frees its rows; the view of a selection does not.
            self.data(frame).select("*").createTempView(known[1])
            self._views[id(frame)] = known
        return known[1]

    def data(self, frame: SparkFrame) -> DataFrame:
        """Return the rows of a frame as a DataFrame with encoded names."""
        import pyarrow as pa

        if frame.data is not None:
            data: DataFrame = frame.data
            return data
        schema = portable_schema(frame.table.schema)
        batches = [portable(batch) for batch in frame.table.to_batches()]
        return sent_frame(
            self.session, pa.Table.from_batches(batches, schema), spark_schema(schema)
        )


@executor_task
def _scan_fragments(
    fragment_ids: Sequence[int],
    *,
    ref: TableRef,
    columns: Sequence[str],
    where: Pushdown | None,
    function: BatchFunction | None,
    options: dict[str, Any],
) -> Batches:
    """Read the rows of some fragments, in types that Spark takes."""
    table = open_table(ref)
    if where is None:
        batches = scan_windows(table, columns, fragment_ids, **options)
    else:
        batches = iter(table.scan(columns, where, fragment_ids=fragment_ids, **options))
    for batch in batches:
        yield portable(signed_places(batch if function is None else function(batch)))


def _among(batch: pa.RecordBatch, *, column: str, values: pa.Array) -> pa.RecordBatch:
    import pyarrow.compute as pc

    return batch.filter(pc.is_in(batch.column(column), value_set=values))


def _read_through(
    table: Table, columns: Sequence[str], keep: BatchFunction, limit: int
) -> pa.Table | None:
    """Return what a function leaves of the rows of a table; None if these are more than the limit."""
    import pyarrow as pa

    # The function may be dear to begin with, so it gets few and large batches.
    batches = table.scan(columns, batch_size=COMPARED_ROWS)
    narrowed, rows = [], 0
    for batch in batches:
        narrowed.append(keep(batch))
        rows += narrowed[-1].num_rows
        if rows > limit:
            return None
    return pa.Table.from_batches(narrowed, batches.schema)


@executor_task
def _mapped(batches: Batches, *, function: BatchFunction) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        table = from_portable(pa.Table.from_batches([batch]))
        for whole in renamed(table, decoded).combine_chunks().to_batches():
            yield portable(function(whole))


def _streamed(
    data: DataFrame, batch_rows: int, order_by: str | None, partitions: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Fetch one partition after another; ``partitions`` is their number, if they are sorted."""
    with spark_errors():
        if order_by is not None:
            by = data[f"`{encoded(order_by)}`"].asc_nulls_last()
            if partitions is None:
                data = data.orderBy(by)
            else:
                data = data.repartitionByRange(partitions, by).sortWithinPartitions(by)
        packed = data.mapInArrow(_packed, "batch binary")
        for row in packed.toLocalIterator(prefetchPartitions=True):
            yield from _unpacked(row.batch).to_batches(max_chunksize=batch_rows)


@executor_task
def _packed(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Pack every batch into one row: Spark has no other way to stream Arrow to the driver."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def _unpacked(data: bytearray) -> pa.Table:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return from_portable(renamed(reader.read_all(), decoded))


def _fetched(data: DataFrame) -> pa.Table:
    return from_portable(renamed(data.toArrow(), decoded))


def _spark(frame: Frame) -> SparkFrame:
    assert isinstance(frame, SparkFrame), "a frame belongs to the runner that made it"
    return frame
