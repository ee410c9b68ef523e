"""The change feed of a branch as Spark's streams call it: offsets, limits, partitions; no rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.runner.spark_errors import short_errors
from omnigraph.spark.batch_columns import arrow_schema, check_type
from omnigraph.spark.opened_graph import open_graph
from omnigraph.spelling import did_you_mean

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.pipeline.streams.feed_source import FeedStream, Limit
    from omnigraph.pipeline.streams.source_options import FeedColumn, FeedOptions
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


class PinnedFeed:
    """A stream as it is planned: its options and its columns, which stay what they were at its start."""

    def __init__(self, given: Mapping[str, str], store: StoreOptions | None) -> None:
        from omnigraph.graph.graph import state_of
        from omnigraph.pipeline.streams.source_options import feed_columns, feed_options

        self.options: FeedOptions = feed_options(given)
        self.store = store
        with open_graph(self.options.graph, store, mode="r") as graph:
            catalog = state_of(graph).schemas.of(self.options.branch).catalog
        self.columns: tuple[FeedColumn, ...] = feed_columns(catalog, self.options)

    def reader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of these columns."""
        known = {column.name: column for column in self.columns}
        for field in schema.fields:
            if field.name not in known:
                hint = did_you_mean(field.name, known) or f"it has {', '.join(known)}"
                raise BadRequest(f"the stream has no column `{field.name}`; {hint}")
            check_type("the stream", known[field.name], field)
        return _Reader(self, [known[name] for name in schema.fieldNames()], schema)


class RefusedFeed(DataSourceStreamReader):
    """Tells why there is no stream, at the first question of a query.

    What `streamReader` itself raises is lost: Spark 4.3 then fails with an error of its own.
    """

    def __init__(self, why: OmniGraphError) -> None:
        self._why = why

    def initialOffset(self) -> NoReturn:
        """Raise what is wrong."""
        with short_errors():
            raise self._why

    def latestOffset(self, *_: Any) -> NoReturn:
        """Raise it; a query that goes on from a checkpoint asks this first."""
        self.initialOffset()

    def partitions(self, *_: Any) -> NoReturn:
        """Raise it; a query that repeats a batch asks this first."""
        self.initialOffset()

    def read(self, *_: Any) -> NoReturn:
        """Raise it; no task gets this far."""
        self.initialOffset()


class _Commits(InputPartition):
    """A group of commits."""


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the batches of a query in one process, which lives as long as the query.

    ``read`` runs in the tasks, on a copy.
    """

    def __init__(
        self, pinned: PinnedFeed, columns: Sequence[FeedColumn], schema: StructType
    ) -> None:
        self._options = pinned.options
        self._store = pinned.store
        self._columns = columns
        self._schema = schema
        self._graph: Graph | None = None
        self._stream: FeedStream | None = None
        self._initial: dict[str, Any] | None = None
        self._has_begun = False

    def initialOffset(self) -> dict[str, Any]:
        """Return where the query begins; Spark asks more than once, and gets the same answer."""
        if self._initial is None:
            with short_errors():
                self._initial = dict(self._feed().initial())
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the newest commit of now."""
        with short_errors():
            self._feed().stop_at_head()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of the options; the API has no limit of both rows and commits."""
        asked = self._options
        return ReadMaxFiles(asked.max_commits) if asked.by_commits else ReadMaxRows(asked.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends.

        Spark does not store where the first batch of a query begins, and would ask a query that starts
        again before the end of that batch for its initial offset again. `latest` is another commit by
        then. So the first batch of such a query is empty, and its end is where the query began.
        """
        first, self._has_begun = not self._has_begun, True
        if first and self._options.starts_at_head and start == self._initial:
            return start
        with short_errors():
            return dict(self._feed().latest(start, self._limit(limit)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read."""
        with short_errors():
            return [_Commits(group) for group in self._feed().plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the changes of a group of commits."""
        from omnigraph.graph.graph import state_of
        from omnigraph.pipeline.streams.feed_source import read_group

        schema = arrow_schema(self._schema)
        with short_errors(), open_graph(self._options.graph, self._store, mode="r") as graph:
            workspace = state_of(graph).workspace
            yield from read_group(workspace, self._options, self._columns, partition.value, schema)

    def stop(self) -> None:
        """Close the graph."""
        if self._graph is not None:
            self._graph.close()
        self._graph = self._stream = None

    def _feed(self) -> FeedStream:
        if self._stream is None:
            from omnigraph.graph.graph import state_of
            from omnigraph.pipeline.streams.feed_source import FeedStream

            self._graph = open_graph(self._options.graph, self._store, mode="r")
            self._stream = FeedStream(state_of(self._graph).workspace, self._options)
        return self._stream

    def _limit(self, limit: ReadLimit) -> Limit:
        """Return a limit of Spark's; what it does not bound, the options bound, unless all is wanted."""
        from omnigraph.pipeline.streams.feed_source import Limit

        rows, commits = self._options.max_rows, self._options.max_commits
        match limit:
            case ReadAllAvailable():
                return Limit()
            case ReadMaxRows():
                return Limit(limit.max_rows, commits)
            case ReadMaxFiles():
                return Limit(rows, limit.max_files)
            case ReadMaxBytes():
                return Limit(rows, commits, limit.max_bytes)
        raise BadRequest(
            f"a stream of omnigraph has no limit of the kind {type(limit).__name__}; it knows rows, "
            "files (commits) and bytes"
        )
