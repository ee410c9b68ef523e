"""A stream into a graph without Spark: its micro-batches, planned twice as Spark does it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph.graph import state_of
from omnigraph.pipeline.datasource.write import plan_write
from omnigraph.pipeline.load_plan import LoadResult
from omnigraph.pipeline.streams.sink import Sink, TaskOutput, sink_options
from tests.pipeline.datasource_helpers import pieces

QUERY = "6c0c4b4e-query"


def sink(graph: Graph, schema: pa.Schema, **options: str | None) -> Sink:
    """What `streamWriter` makes, in the process of the planner or of the commit; None: not given."""
    given = {"graph": graph.uri, "app_id": "s", **options}
    asked = sink_options({k: v for k, v in given.items() if v is not None}, complete=False)
    state = state_of(graph)
    schemas = state.schemas.of(asked.write.load.branch)
    accepted = schemas.ir_hash, schemas.catalog
    made = plan_write(state.workspace, accepted, asked.write, schema, overwrite=False)
    return pickle.loads(pickle.dumps(Sink(made, asked.app_id)))


def run_tasks(
    planned: Sink, batches: Sequence[pa.RecordBatch], query: str | None = QUERY
) -> list[TaskOutput]:
    """One task for each batch of rows, which it gets in pieces."""
    return [
        pickle.loads(pickle.dumps(planned.write(pieces(batch), number, query)))
        for number, batch in enumerate(batches)
    ]


def send(
    graph: Graph,
    batch_id: int,
    *batches: pa.RecordBatch,
    query: str | None = QUERY,
    **options: str | None,
) -> LoadResult | None:
    """Run a micro-batch as Spark does: tasks, then the commit; an abort when that fails."""
    schema = batches[0].schema
    outputs = run_tasks(sink(graph, schema, **options), batches, query)
    committing = sink(graph, schema, **options)
    try:
        return committing.commit(state_of(graph).workspace, outputs, batch_id)
    except OmniGraphError:
        sink(graph, schema, **options).abort(outputs)
        raise
