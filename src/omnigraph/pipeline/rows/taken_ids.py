"""Ids that the records of a merge take from edges that are there already, kept in a mapped file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.runner.protocol import Frame, Runner
from omnigraph.validate.change_set import ORDER


class TakenIds:
    """Ids that records take, by their order. They lie in a mapped file and use no memory of their own."""

    def __init__(self, table: pa.Table) -> None:
        self._orders = table.column(ORDER).to_numpy()
        self._ids = table.column("id")

    @classmethod
    def of(cls, runner: Runner, taken: Frame, path: Path) -> TakenIds | None:
        """Write the frame to ``path``; None where no record takes an id."""
        schema = pa.schema({ORDER: pa.int64(), "id": pa.utf8()})
        with pa.ipc.new_file(str(path), schema) as file:
            for batch in runner.stream(taken, order_by=ORDER):
                file.write_batch(batch.select(schema.names).cast(schema))
        with pa.memory_map(str(path)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        return cls(table) if table.num_rows else None

    def apply_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Replace the ids of rows that take one; the others keep theirs."""
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
