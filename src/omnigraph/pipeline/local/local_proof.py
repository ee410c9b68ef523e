"""Prove that no set rule is broken, where edges only need their ends to exist.

That is the usual load of many edges: their ids were made, so that no other row has them, and no rule
compares or counts them. What is left is whether every end is a node that is there, which takes a fraction
of the time of a query. Whatever looks broken is left to the rules themselves (`validate/`), which can say
what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.lang.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.pipeline.engine import Incoming
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.local.parallel import in_order
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.storage.tables.indexing.text_order import spelled_integers
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.validate.committed import KEY_LIMIT, Committed

FEW_EDGES = 1000
MOST_TEXTS = 500_000
MOST_BYTES = 128 << 20
"""Of more nodes whose ids are no integers, or of longer ids, a query that can spill holds the ids."""
COMPARED_ROWS = 1 << 19
COMPARED_BYTES = 64 << 20
"""Ends that are looked up at a time among texts: Arrow makes a table of all ids each time."""


def proves_rules(
    catalog: Catalog, incoming: Mapping[str, Incoming], mode: LoadMode, committed: Committed
) -> bool:
    """Whether it is certain that no set rule is broken. False: the rules must be evaluated."""
    edges = [rows for rows in incoming.values() if _needs_ends_only(rows)]
    if mode != "append" or len(edges) < len(incoming):
        return False
    return all(_pays(rows, committed) and _ends_exist(catalog, rows, committed) for rows in edges)


def _pays(rows: Incoming, committed: Committed) -> bool:
    """Whether to read all ids of the nodes; of few edges each end is looked up instead."""
    edge = rows.entity
    assert isinstance(edge, EdgeType)
    nodes = sum(committed.pins[f"node:{name}"].row_count for name in (edge.from_type, edge.to_type))
    return rows.rows > KEY_LIMIT or (rows.rows > FEW_EDGES and nodes <= 4 * rows.rows)


def _needs_ends_only(rows: Incoming) -> bool:
    entity = rows.entity
    if not isinstance(entity, EdgeType) or rows.may_repeat or entity.unique:
        return False
    # A node that gets an edge has at least one.
    return entity.cardinality.min <= 1 and entity.cardinality.max is None


def _ends_exist(catalog: Catalog, rows: Incoming, committed: Committed) -> bool:
    edge = rows.entity
    assert isinstance(edge, EdgeType)
    assert isinstance(rows, SpooledRows)
    sides: dict[str, list[str]] = {}
    for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
        sides.setdefault(name, []).append(side)
    for name, columns in sides.items():
        known = _known_nodes(catalog.nodes[name], committed)
        if known is None:
            return False
        batches = known.grouped(rows.records(columns))
        asked = (partial(_are_all, known.has, group, columns) for group in batches)
        if not all(in_order(asked)):
            return False
    return True


def _are_all(
    has: Callable[[pa.Array], bool], batches: Sequence[pa.RecordBatch], columns: Sequence[str]
) -> bool:
    return all(
        has(pa.concat_arrays([batch.column(column) for batch in batches])) for column in columns
    )


def _known_nodes(node: NodeType, committed: Committed) -> _Integers | _Texts | None:
    """The ids of the nodes of a type, ready to be looked up; None where they are too many."""
    committed.relied_on.add(node.table_key)
    pin = committed.pins[node.table_key]
    table = open_table(committed.locate(pin))

    def values(column: str) -> Iterator[pa.Array]:
        return (batch.column(column) for batch in table.scan([column]))

    key = _integer_key(node, table)
    spelled = map(spelled_integers, values("id")) if key is None else map(_counted, values(key))
    integers = _Integers.of(spelled, pin.row_count)
    if integers is not None or pin.row_count > MOST_TEXTS:
        return integers
    return _Texts.of(values("id"))


def _integer_key(node: NodeType, table: Table) -> str | None:
    """The column of integers whose texts are the ids of the nodes, if there is one: it is quicker to read."""
    if node.key is None or len(node.key) != 1:
        return None
    (name,) = node.key
    return name if pa.types.is_integer(table.schema.field(name).type) else None


def _counted(keys: pa.Array) -> NDArray[np.int64] | None:
    """Integers as they are; None where their texts would not be read as integers."""
    if keys.null_count or not len(keys):
        return None if keys.null_count else np.empty(0, np.int64)
    least, greatest = pc.min_max(keys).as_py().values()
    return keys.to_numpy().astype(np.int64) if least >= 0 and greatest < 2**63 else None


class _Integers:
    """Ids that spell integers close together: one byte of memory tells whether there is one."""

    def __init__(self, there: NDArray[np.bool_]) -> None:
        self._there = there

    @classmethod
    def of(cls, ids: Iterator[NDArray[np.int64] | None], count: int) -> _Integers | None:
        """Those of ``count`` ids; None if one is no integer or too large."""
        there = np.zeros(8 * count + 1, np.bool_)
        for integers in ids:
            if integers is None or (len(integers) and int(integers.max()) >= len(there)):
                return None
            there[integers] = True
        return cls(there)

    def grouped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """The batches as they are looked up together."""
        return ([batch] for batch in batches)

    def has(self, values: pa.Array) -> bool:
        """Whether all values are among the ids."""
        asked = spelled_integers(values)
        if asked is None:
            return False
        return not len(asked) or (
            int(asked.max()) < len(self._there) and bool(self._there[asked].all())
        )


class _Texts:
    """Any ids."""

    def __init__(self, ids: pa.ChunkedArray) -> None:
        self._ids = ids

    @classmethod
    def of(cls, ids: Iterator[pa.Array]) -> _Texts | None:
        """These ids; None if they are too long."""
        found, size = [], 0
        for some in ids:
            found.append(some)
            size += some.nbytes
            if size > MOST_BYTES:
                return None
        return cls(pa.chunked_array(found, pa.utf8()))

    def grouped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """The batches as they are looked up together."""
        group: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            group.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= COMPARED_ROWS or size >= COMPARED_BYTES:
                yield group
                group, rows, size = [], 0, 0
        if group:
            yield group

    def has(self, values: pa.Array) -> bool:
        """Whether all values are among the ids."""
        return bool(pc.all(pc.is_in(values, self._ids), min_count=0).as_py())
