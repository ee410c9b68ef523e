"""Prove that no set rule is broken, where edges only need their ends to exist.

That is the usual load of many edges: their ids were made, so that no other row has them, and no rule
compares or counts them. What is left is whether every end is a node that is there, which takes a fraction
of the time of a query. Whatever looks broken is left to the rules themselves (`validate/`), which know
what to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.cores import usable_cores
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.engine import Incoming
from omnigraph.pipeline.load_options import LoadMode
from omnigraph.pipeline.local.parallel import in_order
from omnigraph.pipeline.local.spooled_rows import SpooledRows
from omnigraph.storage.tables.btrees.integer_texts import spelled_integers
from omnigraph.storage.tables.table import open_table
from omnigraph.validate.committed import KEY_LIMIT, Committed

FEW_EDGES = 1000
MOST_TEXTS = 500_000
"""Of more nodes whose ids are no integers, a query that can spill holds the ids."""
COMPARED_ROWS = 1 << 19
"""Ends that are looked up at a time among texts: Arrow makes a table of all ids each time."""


def proves_rules(incoming: Mapping[str, Incoming], mode: LoadMode, committed: Committed) -> bool:
    """Whether it is certain that no set rule is broken; False: the rules must be asked."""
    edges = [rows for rows in incoming.values() if _needs_ends_only(rows)]
    if mode != "append" or len(edges) < len(incoming):
        return False
    return all(_pays(rows, committed) and _ends_exist(rows, committed) for rows in edges)


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


def _ends_exist(rows: Incoming, committed: Committed) -> bool:
    edge = rows.entity
    assert isinstance(edge, EdgeType)
    assert isinstance(rows, SpooledRows)
    sides: dict[str, list[str]] = {}
    for side, name in (("src", edge.from_type), ("dst", edge.to_type)):
        sides.setdefault(name, []).append(side)
    for name, columns in sides.items():
        known = _known_nodes(name, committed)
        if known is None:
            return False
        batches = known.grouped(rows.records())
        asked = (partial(_are_all, known.has, group, columns) for group in batches)
        if not all(in_order(asked, usable_cores())):
            return False
    return True


def _are_all(
    has: Callable[[pa.Array], bool], batches: Sequence[pa.RecordBatch], columns: Sequence[str]
) -> bool:
    return all(
        has(pa.concat_arrays([batch.column(column) for batch in batches])) for column in columns
    )


def _known_nodes(name: str, committed: Committed) -> _Integers | _Texts | None:
    """The ids of the nodes of a type, ready to be looked up; None where they are too many."""
    key = f"node:{name}"
    committed.relied_on.add(key)
    table = open_table(committed.locate(committed.pins[key]))
    found = [batch.column("id") for batch in table.scan(["id"])]
    integers = _Integers.of(found)
    if integers is not None:
        return integers
    ids = pa.chunked_array(found, pa.utf8())
    return _Texts(ids) if len(ids) <= MOST_TEXTS else None


class _Integers:
    """Ids that spell integers close together: one bit of memory tells whether there is one."""

    def __init__(self, there: NDArray[np.bool_]) -> None:
        self._there = there

    @classmethod
    def of(cls, found: Sequence[pa.Array]) -> _Integers | None:
        read = []
        for chunk in found:
            integers = spelled_integers(chunk)
            if integers is None:
                return None
            read.append(integers)
        count = sum(map(len, read))
        greatest = max((int(one.max()) for one in read if len(one)), default=-1)
        if greatest >= 8 * count + 1:
            return None
        there = np.zeros(greatest + 1, np.bool_)
        for one in read:
            there[one] = True
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

    def grouped(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """The batches as they are looked up together."""
        group: list[pa.RecordBatch] = []
        for batch in batches:
            group.append(batch)
            if sum(one.num_rows for one in group) >= COMPARED_ROWS:
                yield group
                group = []
        if group:
            yield group

    def has(self, values: pa.Array) -> bool:
        """Whether all values are among the ids."""
        return bool(pc.all(pc.is_in(values, self._ids), min_count=0).as_py())
