"""Nodes that the target left without edges, where the source requires some from now on.

A fewest number of edges is for nodes that ever had one. The rows of the merged type show no edge of such a
node; the base does.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.changes.table_side import TableSide

AreThere = Callable[[pa.StringArray], pa.BooleanArray]
"""Of the ids of some nodes, which of them are in the merged graph."""


def deserted_sources(base: TableSide, edges: pa.Table, are_there: AreThere) -> pa.Table:
    """Return the nodes (`src`) that have edges in the base and none among ``edges``, and are still there."""
    left = edges.column("src").combine_chunks()
    chunks = [pa.array([], pa.string())]
    for rows in base.as_stored():
        sources = rows.column("src").unique()
        chunks.append(sources.filter(pc.invert(pc.is_in(sources, value_set=left))))
    found = pc.unique(pa.chunked_array(chunks, pa.string())).sort()
    return pa.table({"src": found.filter(are_there(found))})
