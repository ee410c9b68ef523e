"""Answer the question of set rules about ends (`rule_questions`), where a load asks no other.

That is the usual load of many edges: their ids were made, so that no other row has them, and no rule
compares or counts them. What is left is whether every end is a node that is there. Ids that spell integers
close together are looked up in an array of one byte for each, which takes a fraction of the time of a query:
with nodes `0` to `4` there is `[1, 1, 1, 1, 1, 0, …]`, and the ends `3` and `7` are its places 3 and 7.
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
from omnigraph.pipeline.rule_questions import Piece, RuleQuestions, ValueQuestion
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
    if mode != "append" or not all(_pays(rows, committed) for rows in incoming.values()):
        return False
    questions = RuleQuestions(
        catalog, incoming, mode, committed, lambda key: [_SpooledPiece(incoming[key])]
    )
    if questions.any_needs_edges():
        return False
    return all(
        question.kind == "missing" and _has_none_missing(question, catalog, committed)
        for question in questions.asked()
    )


def _pays(rows: Incoming, committed: Committed) -> bool:
    """Whether to read all ids of the nodes; of few edges each end is looked up instead."""
    edge = rows.entity
    if not isinstance(edge, EdgeType):
        return False
    nodes = sum(committed.pins[f"node:{name}"].row_count for name in (edge.from_type, edge.to_type))
    return rows.rows > KEY_LIMIT or (rows.rows > FEW_EDGES and nodes <= 4 * rows.rows)


class _SpooledPiece:
    """All rows of one table, as this engine holds them."""

    def __init__(self, spooled: Incoming) -> None:
        assert isinstance(spooled, SpooledRows)
        self._spooled = spooled
        self.rows = spooled.rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._spooled.records(columns)


def _has_none_missing(question: ValueQuestion, catalog: Catalog, committed: Committed) -> bool:
    """Whether all ends are nodes. The nodes are stored: beside edges no load of this proof has any."""
    assert question.among is not None
    known = _known_nodes(catalog.nodes[question.among], committed)
    if known is None:
        return False
    # Both ends of an edge that links one type are read together.
    columns: dict[Piece, list[str]] = {}
    for values in question.values:
        columns.setdefault(values.piece, []).extend(values.columns)
    return all(
        all(in_order(partial(_are_all, known.has, group, names) for group in batches))
        for piece, names in columns.items()
        for batches in [known.grouped(piece.batches(names))]
    )


def _are_all(
    has: Callable[[pa.Array], bool], batches: Sequence[pa.RecordBatch], columns: Sequence[str]
) -> bool:
    return all(
        has(pa.concat_arrays([batch.column(column) for batch in batches])) for column in columns
    )


def _known_nodes(node: NodeType, committed: Committed) -> _Integers | _Texts | None:
    """The ids of the stored nodes of a type, ready to be looked up; None where they are too many."""
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
