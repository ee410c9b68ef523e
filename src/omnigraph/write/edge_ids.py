"""The ids of rows that a mutation inserts without a key.

An edge that a tuple identifies (``EdgeType.identity``) gets the id made from it, as in loads, unless
another edge has that id: then the tuples differ, or the rule about tuples has something to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.clock import new_ulid
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.validate.committed import KEY_LIMIT
from omnigraph.write.pending import PendingTable


def new_id(table: PendingTable, values: Mapping[str, Any]) -> str:
    """The id of a row to be inserted; ``settle_ids`` looks at it again."""
    import pyarrow as pa

    edge = table.entity
    if not isinstance(edge, EdgeType) or edge.identity is None:
        return new_ulid()
    schema = edge.arrow_schema()
    (made,) = edge.tuple_ids(
        lambda name: pa.array([values.get(name)], schema.field(name).type)
    ).to_pylist()
    if made is None or made in table.made_ids:
        return new_ulid()
    table.made_ids[made] = None
    return str(made)


def settle_ids(table: PendingTable) -> None:
    """Give new ids to inserted edges whose id a committed edge has."""
    import pyarrow as pa

    taken = set(_committed_ids(table, table.made_ids))
    if taken:
        ids = [new_ulid() if one in taken else one for one in table.rows.column("id").to_pylist()]
        table.set_column("id", pa.array(ids, pa.utf8()))


def _committed_ids(table: PendingTable, ids: Iterable[str]) -> Iterable[str]:
    if not table.pin.row_count:
        return
    made = list(ids)
    for start in range(0, len(made), KEY_LIMIT):
        yield from table.committed_ids(made[start : start + KEY_LIMIT])
