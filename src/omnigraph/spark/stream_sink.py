"""What Spark calls to write a stream: `df.writeStream.format("omnigraph")`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph.runner.spark_errors import short_errors
from omnigraph.spark.opened_graph import open_graph, plan_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.pipeline.streams.sink import Sink, TaskOutput
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


def stream_writer(
    options: Mapping[str, str], schema: StructType, store: StoreOptions | None, *, complete: bool
) -> DataSourceStreamArrowWriter:
    """Return a writer for one micro-batch. Spark asks for one to plan it, and for another to commit it."""
    from omnigraph.pipeline.streams.sink import Sink, sink_options

    with short_errors():
        asked = sink_options(options, complete=complete)
        plan = plan_rows(asked.write, schema, store, overwrite=False)
        return _StreamWriter(Sink(plan, asked.app_id), store)


@dataclass
class _Message(WriterCommitMessage):
    """The message of a task to the commit."""

    output: TaskOutput


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, sink: Sink, store: StoreOptions | None) -> None:
        self._sink = sink
        self._store = store

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from omnigraph.pipeline.streams.sink import QUERY_ID

        task = TaskContext.get()
        assert task is not None
        query = task.getLocalProperty(QUERY_ID)
        with short_errors():
            return _Message(self._sink.write(iterator, task.partitionId(), query))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        from omnigraph.graph.graph import state_of

        with short_errors(), open_graph(self._sink.plan.options.graph, self._store) as graph:
            self._sink.commit(state_of(graph).workspace, _outputs_of(messages), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's names
        with short_errors():
            self._sink.abort(_outputs_of(messages))


def _outputs_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutput]:
    """Return what the tasks made; a task that failed has nothing."""
    return [message.output for message in messages if isinstance(message, _Message)]
