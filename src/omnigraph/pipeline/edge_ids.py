"""Edges that are loaded again: records without an id take that of the edge which they describe.

A type with a unique group that contains both ends (``EdgeType.identity``) says when two records mean
one edge. A record without an id takes the id of the committed edge that holds its tuple; where there
is none, that of the first record of the load that does, if that comes earlier. A tuple with a null
means no other edge. Records with an id keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.engine import Incoming
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.runner.protocol import Frame, Runner
from omnigraph.validate import rules
from omnigraph.validate.change_set import MADE, ORDER
from omnigraph.validate.committed import Committed

if TYPE_CHECKING:
    import pyarrow as pa


def assign_edge_ids(
    runner: Runner, incoming: Mapping[str, Incoming], committed: Committed
) -> set[str]:
    """Let records without an id take one, as the committed rows are; for merges of any kind.

    Each call starts from the ids that the records were read with, so a load that is tried again calls
    it with the rows of the new head. The answer: the tables some of whose rows have other ids than
    before the call, so that what was written of them is of no use.
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


class TakenIds:
    """Ids that records of this process take, in a file that is mapped: memory stays free of them."""

    def __init__(self, table: pa.Table) -> None:
        self._orders = table.column(ORDER).to_numpy()
        self._ids = table.column("id")

    @classmethod
    def of(cls, runner: Runner, taken: Frame, path: Path) -> TakenIds | None:
        """Write down what the frame says; None where no record takes an id."""
        import pyarrow as pa

        assert isinstance(runner, LocalRunner), "rows of this process are asked here"
        schema = pa.schema({ORDER: pa.int64(), "id": pa.utf8()})
        with runner.ordered(taken, ORDER) as batches, pa.ipc.new_file(str(path), schema) as file:
            for batch in batches:
                file.write_batch(batch.select(schema.names).cast(schema))
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        return cls(table) if table.num_rows else None

    def given_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the ids they take; those that take none keep theirs."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not batch.num_rows:
            return batch
        orders = batch.column(ORDER).to_numpy()
        low, high = np.searchsorted(self._orders, [orders.min(), orders.max() + 1])
        if low == high:
            return batch
        near = self._orders[low:high]
        place = np.minimum(np.searchsorted(near, orders), len(near) - 1)
        found = pa.array(place, mask=near[place] != orders)
        taken = self._ids.slice(low, high - low).take(found).combine_chunks()
        at = batch.schema.get_field_index("id")
        ids = pc.coalesce(taken, batch.column(at))
        return batch.set_column(at, batch.schema.field(at), ids)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TakenIds)
            and len(self._orders) == len(other._orders)
            and bool((self._orders == other._orders).all())
            and self._ids.equals(other._ids)
        )

    __hash__ = None  # type: ignore[assignment]
