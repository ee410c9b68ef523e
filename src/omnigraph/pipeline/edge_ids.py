"""Edges that are loaded again: a record without an id takes the id of the edge that it describes.

A type with a unique group that contains both ends (``EdgeType.identity``) says when two records mean
one edge. A record without an id takes the id of the committed edge with its tuple; where there is
none, that of an earlier record of the load with the same tuple. A tuple with a null never equals
another. Records with an id keep it.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.engine import Incoming
from omnigraph.runner.protocol import Runner
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import Committed


def assign_edge_ids(
    runner: Runner, incoming: Mapping[str, Incoming], committed: Committed
) -> set[str]:
    """Let records without an id take that of the edge they mean. Merges of every engine call this.

    Each call starts from the ids that the records were read with, so a load that is tried again calls
    it with the rows of the new head. Returns the tables in which some row has another id than
    before the call: what was written of them must be written again.
    """
    changed = set()
    for key, rows in incoming.items():
        edge = rows.entity
        if not isinstance(edge, EdgeType) or edge.identity is None or not rows.any_made:
            continue
        columns = list(dict.fromkeys(["id", "src", "dst", *edge.identity, ORDER, MADE]))
        pending = rows.frame(runner, columns, as_read=True)
        held = committed.between(edge, edge.identity, pending)
        taken = runner.sql(rules.identified_edges(edge.identity), {"pend": pending, "com": held})
        if rows.take_ids(runner, taken):
            changed.add(key)
    return changed
