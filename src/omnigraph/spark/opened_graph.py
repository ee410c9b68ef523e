"""Opens a graph in a process of Spark's, with the way to S3 that the options of the source gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.runner.spark_columns import columns_of_frame

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from omnigraph.graph.graph import Graph
    from omnigraph.graph.state import Mode
    from omnigraph.pipeline.datasource.options import WriteOptions
    from omnigraph.pipeline.datasource.write import WritePlan
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


def open_graph(uri: str, store: StoreOptions | None, mode: Mode = "rw") -> Graph:
    """Open a graph by its address; ``store`` wins over the environment of the process."""
    from omnigraph.graph.opening import open as open_it

    return open_it(uri, mode, storage_options=None if store is None else store.to_mapping())


def plan_rows(
    asked: WriteOptions, schema: StructType, store: StoreOptions | None, *, overwrite: bool
) -> WritePlan:
    """Return the plan of a write of rows with these columns; ``overwrite``: they replace all rows."""
    from omnigraph.graph.graph import state_of
    from omnigraph.pipeline.datasource.write import plan_write
    from omnigraph.pipeline.load_branch import base_branch

    with open_graph(asked.graph, store, mode="r") as graph:
        state, columns = state_of(graph), columns_of_frame(schema)
        schemas = state.schemas.of(base_branch(state.workspace, asked.load))
        accepted = schemas.ir_hash, schemas.catalog
        return plan_write(state.workspace, accepted, asked, columns, overwrite=overwrite)
