"""Plan a write of Spark's on the graph as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.runner.spark_columns import columns_of_frame
from omnigraph.spark.opening import open_graph

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from omnigraph.pipeline.datasource.options import WriteOptions
    from omnigraph.pipeline.datasource.write import WritePlan
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


def plan_rows(
    asked: WriteOptions, schema: StructType, store: StoreOptions | None, *, overwrite: bool
) -> WritePlan:
    """Return the plan of a write of rows with these columns; ``overwrite``: they replace all rows."""
    from omnigraph.graph.graph import state_of
    from omnigraph.pipeline.datasource.write import base_branch, plan_write

    with open_graph(asked.graph, store, mode="r") as graph:
        state, columns = state_of(graph), columns_of_frame(schema)
        schemas = state.schemas.of(base_branch(state.workspace, asked))
        accepted = schemas.ir_hash, schemas.catalog
        return plan_write(state.workspace, accepted, asked, columns, overwrite=overwrite)
