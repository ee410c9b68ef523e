"""Opens a graph in a process of Spark's, with the way to S3 that the options of the source gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.state import Mode
    from omnigraph.storage.store_kinds.store_kind import StoreOptions


def open_graph(uri: str, store: StoreOptions | None, mode: Mode = "rw") -> Graph:
    """Open a graph by its address; ``store`` wins over the environment of the process."""
    from omnigraph.graph.opening import open as open_it

    return open_it(uri, mode, storage_options=None if store is None else store.to_mapping())
