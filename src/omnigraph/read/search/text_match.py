"""Text predicates: the nodes whose text shares a term with the query, or nearly so.

    search($p.bio, "graph db")   bios "A graph", null, "db admin"   ->   nodes 0 and 2

The answer never depends on indexes. Lance is asked about the rows that the table's own inverted index
covers. The other rows are read and analysed here when they are few, and indexed on the spot otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.kernels.arrays import Codes
from omnigraph.read.search.scratch_index import COLUMN, with_scratch_index
from omnigraph.read.search.terms import OwnIndex, Terms, own_index, texts_with_terms
from omnigraph.read.thresholds import SearchThresholds
from omnigraph.read.values.column import one_array
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.view import View
from omnigraph.storage.tables.indexing.full_text import (
    TooManyEdits,
    analysed,
    can_be_fuzzy,
    text_hits,
)
from omnigraph.storage.tables.indexing.index_health import IndexUnusable

DEFAULT_EDITS: Final = 2


def text_matches(
    view: View, node_type: NodeType, predicate: ir.TextMatch, params: Mapping[str, Any]
) -> Codes:
    """The ordinals, ascending, of the nodes that satisfy a text predicate."""
    query = ir.value_of(predicate.query, params)
    edits: int | None = DEFAULT_EDITS if predicate.function == "fuzzy" else 0
    if predicate.max_edits is not None:
        edits = ir.value_of(predicate.max_edits, params)
    space = view.nodes(node_type.name)
    name = predicate.field.property
    terms = [] if query is None else analysed(query)
    if edits is None or edits < 0 or not terms or space.stored_name(name) is None:
        return np.empty(0, np.int32)
    if edits == 0:
        return _looked_up(view, space, name, query, terms, 0)
    thresholds = view.thresholds.search
    if edits > thresholds.fuzzy_edits or not all(map(can_be_fuzzy, terms)):
        return _all_read(space, name, terms, edits, thresholds)
    try:
        # A fuzzy query is not analysed, so it is given the terms themselves.
        return _looked_up(view, space, name, " ".join(terms), terms, edits)
    except TooManyEdits:
        return _all_read(space, name, terms, edits, thresholds)


def _looked_up(
    view: View, space: NodeSpace, name: str, query: str, terms: Sequence[str], edits: int
) -> Codes:
    own = own_index(view, space, name, IndexKind.FTS)
    if own is not None and own.tail_rows <= view.thresholds.search.unindexed_rows:
        # Without an index that cannot be read, below.
        with contextlib.suppress(IndexUnusable):
            return _in_own_index(view, space, own, query, terms, edits)
    thresholds = view.thresholds.search
    if space.size > thresholds.unindexed_rows:
        ordinals, _ = with_scratch_index(
            space,
            name,
            lambda table: text_hits(table, COLUMN, query, edits=edits),
            thresholds.scratch_bytes,
        )
        return np.sort(ordinals.astype(np.int32))
    held = view.cache.get(
        ("terms", space.column_key(name)), lambda: Terms(space.column(name).array), _nbytes
    )
    return np.flatnonzero(held.holding(terms, edits)).astype(np.int32)


def _in_own_index(
    view: View, space: NodeSpace, own: OwnIndex, query: str, terms: Sequence[str], edits: int
) -> Codes:
    """What the index of the table finds, and the rows that it does not cover."""
    partly = bool(own.tail)
    found = [text_hits(space.pinned.table, own.column, query, edits=edits, indexed_only=partly)[0]]
    if partly:
        row_ids, tail = view.cache.get(
            ("tail terms", space.pinned.exact, own.column),
            lambda: _tail(space, own),
            lambda made: made[0].nbytes + made[1].nbytes,
        )
        found.append(row_ids[tail.holding(terms, edits)])
    codes = space.ordinals_of_row_ids(np.concatenate(found))
    return np.unique(codes[codes >= 0])


def _nbytes(terms: Terms) -> int:
    return terms.nbytes


def _tail(space: NodeSpace, own: OwnIndex) -> tuple[npt.NDArray[np.uint64], Terms]:
    """The row ids and terms of the rows that the table's index does not answer for."""
    rows = space.pinned.table.read([own.column], with_row_id=True, fragment_ids=own.tail)
    return rows.column("_rowid").to_numpy(), Terms(one_array(rows.column(own.column)))


def _all_read(
    space: NodeSpace, name: str, terms: Sequence[str], edits: int, thresholds: SearchThresholds
) -> Codes:
    found = texts_with_terms(space.column(name).array, terms, edits, thresholds.texts_at_once)
    return np.flatnonzero(found).astype(np.int32)
