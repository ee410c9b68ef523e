"""The data source of Spark: `spark.read.format("omnigraph")` and `df.write.format("omnigraph")`.

Spark creates these objects in Python processes of its own, pickles them, and calls them in others:
for the schema, for planning, in every task, and for the commit. Each process opens the graph by its
address, so writers are kept apart by the locks and checks of the commit protocol, as everywhere. Such
a process lives for a second or two, so modules are imported only where they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.pipeline.datasource.option_values import split_store_options
from omnigraph.runner.spark_errors import short_errors
from omnigraph.runner.spark_tasks import same_active_session
from omnigraph.spark.batch_columns import arrow_schema, check_type, spark_schema
from omnigraph.spark.catalog_tables import is_of_table, is_table, options_with, table_schema
from omnigraph.spark.opened_graph import open_graph, plan_rows
from omnigraph.storage.store_kinds.known import STORE_KINDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from omnigraph.pipeline.datasource.options import ReadOptions
    from omnigraph.pipeline.datasource.read import PinnedSource
    from omnigraph.pipeline.datasource.write import WritePlan
    from omnigraph.pipeline.written.task_rows import TaskResult
    from omnigraph.spark.feed import PinnedFeed
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


__all__ = ["NAME", "OmniGraphSource", "in_thread", "register"]

NAME = "omnigraph"
_FEED = "feed"
"""The option that makes a read one of the change feed."""


def register(session: SparkSession) -> None:
    """Make the format `omnigraph` known to a session, and how this process reaches S3.

    Spark finds the format by itself where it can, but reads and writes with the environment that Java
    was started with: what `AWS_*` variables say by now reaches it through this call.
    """
    stores = {}
    for kind in STORE_KINDS:
        with suppress(BadRequest):  # a process that never uses the store may have any variables
            stores[kind.scheme] = kind.environment_options(os.environ)
    session.dataSource.register(type(NAME, (OmniGraphSource,), {"_registered": stores}))


class OmniGraphSource(DataSource):
    """A node or edge type of a graph, as a data source of Spark."""

    _registered: ClassVar[Mapping[str, StoreOptions]] = {}
    """How the process that registered the source reaches stores, by their scheme."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        with short_errors():
            rest, self._store = split_store_options(options, self._registered)
            if is_table(rest) and len(rest) < len(options):
                raise BadRequest(
                    "a table keeps no options of S3, and would be read without them; leave out those that "
                    "begin with s3., and call omnigraph.spark.register(session) in a process that "
                    "reaches the store"
                )
        super().__init__(rest)
        self._pinned: PinnedSource | None = None
        self._pinned_feed: PinnedFeed | None = None
        self._is_table = is_table(rest)

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the type, or those that the option `columns` names, or of the feed."""
        with short_errors():
            if self._is_feed:
                return spark_schema(self._feed().columns)
            names, source = self._asked().columns, self._source()
            schema = spark_schema(source.columns if names is None else source.select(names))
            return table_schema(schema, self.options) if self._is_table else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of these columns at the pinned version."""
        with short_errors():
            if self._is_feed:
                raise BadRequest("the change feed is a stream; read it with spark.readStream")
            self.options = options_with(self.options, schema)
            self._is_table = is_of_table(schema)
            asked, source = self._asked(), self._source()
            for field in schema.fields:
                (column,) = source.select([field.name])
                check_type(source.type_name, column, field)
            return _Reader(source, schema, asked.partition_rows)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows with these columns, which are added or replace all rows."""
        from omnigraph.pipeline.datasource.options import write_options

        with short_errors():
            asked = write_options(options_with(self.options, schema))
            plan = plan_rows(asked, schema, self._store, overwrite=overwrite)
            return _Writer(plan, self._store)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer for the micro-batches of a stream."""
        from omnigraph.spark.stream_sink import stream_writer

        return stream_writer(self.options, schema, self._store, complete=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of these columns of the change feed, or one that tells why there is none."""
        from omnigraph.spark.feed import RefusedFeed

        try:
            if not self._is_feed:
                raise BadRequest(
                    'a stream reads the change feed of a branch; add .option("feed", BRANCH), with the '
                    "option `types` in place of `type`",
                    option=_FEED,
                )
            return self._feed().reader(schema)
        except OmniGraphError as error:
            return RefusedFeed(error)

    @property
    def _is_feed(self) -> bool:
        return any(name.lower() == _FEED for name in self.options)

    def _feed(self) -> PinnedFeed:
        """Return the stream, whose columns are those of the first call."""
        if self._pinned_feed is None:
            from omnigraph.spark.feed import PinnedFeed

            self._pinned_feed = PinnedFeed(self.options, self._store)
        return self._pinned_feed

    def _asked(self) -> ReadOptions:
        from omnigraph.pipeline.datasource.options import read_options

        return read_options(self.options, table=self._is_table)

    def _source(self) -> PinnedSource:
        """Return what the read sees, pinned at the first call: Spark plans a frame more than once."""
        if self._pinned is None:
            from omnigraph.graph.graph import state_of
            from omnigraph.graph.reads import resolve
            from omnigraph.pipeline.datasource.options import find_type
            from omnigraph.pipeline.datasource.read import pin_source

            asked = self._asked()
            with open_graph(asked.graph, self._store, mode="r") as graph:
                state = state_of(graph)
                snapshot, catalog = resolve(state, asked.target)
                entity = find_type(catalog, asked.type)
                self._pinned = pin_source(state.workspace, snapshot, catalog, entity, asked)
        return self._pinned

    def __getstate__(self) -> dict[str, Any]:
        """Pin the version before pickling, also if the caller gave the schema and `schema` did not run."""
        with suppress(OmniGraphError):  # `reader` will raise it again
            if self._is_feed:
                self._feed()
            else:
                self._source()
        return self.__dict__


class _Fragments(InputPartition):
    """Some fragments of the pinned version, or a part of one."""


class _Reader(DataSourceReader):
    def __init__(self, source: PinnedSource, schema: StructType, partition_rows: int) -> None:
        self._source = source
        self._schema = schema
        self._partition_rows = partition_rows

    def partitions(self) -> Sequence[InputPartition]:
        from omnigraph.pipeline.datasource.read import plan_partitions

        with short_errors():
            groups = plan_partitions(self._source, self._partition_rows)
        return [_Fragments(group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from omnigraph.pipeline.datasource.read import read_fragments

        # Spark makes up a partition where there is none.
        if isinstance(partition, _Fragments):
            names, schema = self._schema.fieldNames(), arrow_schema(self._schema)
            with short_errors():
                yield from read_fragments(self._source, names, schema, partition.value)


@dataclass
class _Message(WriterCommitMessage):
    """The message of a task to the commit."""

    result: TaskResult


class _Writer(DataSourceArrowWriter):
    def __init__(self, plan: WritePlan, store: StoreOptions | None) -> None:
        self._plan = plan
        self._store = store

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from omnigraph.pipeline.datasource.write import write_rows

        task = TaskContext.get()
        assert task is not None
        with short_errors():
            return _Message(write_rows(self._plan, iterator, task.partitionId()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from omnigraph.graph.graph import state_of
        from omnigraph.pipeline.datasource.commit import commit_rows

        asked = self._plan.options
        with short_errors(), open_graph(asked.graph, self._store) as graph:
            commit_rows(state_of(graph).workspace, self._plan, _results_of(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from omnigraph.pipeline.datasource.write import discard_rows

        with short_errors():
            discard_rows(self._plan, _results_of(messages))


def _results_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    """Return the results of the tasks; a task that failed has none."""
    return [message.result for message in messages if isinstance(message, _Message)]


@contextmanager
def in_thread(session: SparkSession) -> Iterator[SparkSession]:
    """Let the current thread write with a session that another thread made.

    Java's side of a new thread has no session, and `df.write.save()` looks there for the data sources
    that are written in Python: it would find none. A session of Spark Connect needs nothing of that.

    ```python
    def write(frame, type):
        with omnigraph.spark.in_thread(session):
            frame.write.format("omnigraph").options(graph=uri, type=type).mode("append").save()
    ```
    """
    java: Any = getattr(session, "_jsparkSession", None)
    if java is None:
        yield session
        return
    with same_active_session(session) as sessions:
        sessions.setActiveSession(java)
        yield session
