"""Text predicates: the nodes whose text shares a term with the query, or nearly so.

    search($p.bio, "graph db")   bios "A graph", null, "db admin"   ->   nodes 0 and 2

The answer never depends on indexes. Lance is asked about the rows that the table's own inverted index
covers. The other rows are read and analysed here when they are few, and indexed on the spot otherwise.

    terms_within(["helo", "world"], ["hello"], edits=1)   ->   ["helo"]
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.search.phrases import Phrase, SearchText, search_text, texts_with_phrase
from omnigraph.read.search.scratch_index import COLUMN, with_scratch_index
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
from omnigraph.storage.tables.indexing.index_kinds import stands_in_the_way
from omnigraph.storage.tables.indexing.table_indexes import IndexState


@dataclass(frozen=True, slots=True)
class OwnIndex:
    """The index of a column that the table itself has, and the fragments it does not answer for."""

    column: str
    tail: tuple[int, ...]
    tail_rows: int


def own_index(view: View, space: NodeSpace, name: str, kind: IndexKind) -> OwnIndex | None:
    """The table's best index of that kind on a property; None when it has none that can be read."""
    column = space.stored_name(name)
    states = [state for state in _indexes(view, space) if state.column == column]
    if any(stands_in_the_way(state.kind, kind) for state in states):
        return None
    states = [state for state in states if state.kind is kind and state.segments]
    if column is None or not states or any(state.damage is not None for state in states):
        return None
    best = min(states, key=lambda state: state.unindexed_rows)
    return OwnIndex(column, best.tail, best.unindexed_rows)


def _indexes(view: View, space: NodeSpace) -> list[IndexState]:
    """The indexes of a table version, which never change."""
    pinned = space.pinned
    return view.cache.get(
        ("indexes", pinned.exact),
        pinned.indexes,
        lambda states: 512 * (1 + len(states)),
    )


class Terms:
    """The terms of some texts: an inverted index in memory, for a few thousand texts.

    Terms never cross white space, so each distinct word between it is analysed once.
    """

    def __init__(self, texts: pa.Array) -> None:
        self.size = len(texts)
        lists = pc.utf8_split_whitespace(texts)
        words = lists.flatten().dictionary_encode()
        held = [analysed(word) for word in words.dictionary.to_pylist()]
        self.terms = sorted({term for terms in held for term in terms})
        number = {term: at for at, term in enumerate(self.terms)}
        numbers = np.array([number[term] for terms in held for term in terms], np.int32)
        counts = np.array([len(terms) for terms in held], np.int64)
        starts = np.cumsum(counts) - counts
        word = words.indices.to_numpy()
        times = counts[word]
        ends = np.cumsum(times)
        within = np.arange(times.sum()) - np.repeat(ends - times, times)
        self._numbers = numbers[np.repeat(starts[word], times) + within]
        self._rows = np.repeat(pc.list_parent_indices(lists).to_numpy(), times)

    def holding(self, wanted: Sequence[str], edits: int) -> Mask:
        """Which texts hold a term within ``edits`` of a wanted one."""
        near = np.isin(self.terms, terms_within(self.terms, wanted, edits))
        found = np.zeros(self.size, np.bool_)
        found[self._rows[near[self._numbers]]] = True
        return found

    @property
    def nbytes(self) -> int:
        """The bytes it takes, roughly."""
        return int(self._numbers.nbytes + self._rows.nbytes) + 80 * len(self.terms)


def texts_with_terms(texts: pa.Array, wanted: Sequence[str], edits: int, at_once: int) -> Mask:
    """Which texts hold a term within ``edits`` of a wanted one; ``at_once`` texts are analysed at a time."""
    parts = []
    for begin in range(0, len(texts), at_once):
        look()
        parts.append(Terms(texts.slice(begin, at_once)).holding(wanted, edits))
    return np.concatenate([np.zeros(0, np.bool_), *parts])


def terms_within(terms: Sequence[str], wanted: Sequence[str], edits: int) -> list[str]:
    """The terms whose Levenshtein distance, in characters, from a wanted one is at most ``edits``."""
    if edits == 0:
        return sorted(set(terms) & set(wanted))
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    near = np.zeros(len(terms), np.bool_)
    # No distance is larger than the longer text, and the cutoff has to fit a machine's integer.
    cutoff = min(edits, max(map(len, (*terms, *wanted)), default=0))
    for want in set(wanted):
        near |= cdist([want], terms, scorer=Levenshtein.distance, score_cutoff=cutoff)[0] <= cutoff
    return [terms[at] for at in np.flatnonzero(near).tolist()]


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
    if query is None or space.stored_name(name) is None:
        return np.empty(0, np.int32)
    if predicate.function != "fuzzy":
        return words_or_phrases(view, space, name, search_text(query))
    terms = analysed(query)
    if edits is None or edits < 0 or not terms:
        return np.empty(0, np.int32)
    if edits == 0:
        return _looked_up(view, space, name, query, terms)
    thresholds = view.thresholds.search
    if edits > thresholds.fuzzy_edits or not all(map(can_be_fuzzy, terms)):
        return _all_read(space, name, terms, edits, thresholds)
    try:
        # A fuzzy query is not analysed, so it is given the terms themselves.
        return _looked_up(view, space, name, " ".join(terms), terms, edits)
    except TooManyEdits:
        return _all_read(space, name, terms, edits, thresholds)


def words_or_phrases(view: View, space: NodeSpace, name: str, searched: SearchText) -> Codes:
    """The ordinals, ascending, of the nodes whose text has one of the words or one of the phrases."""
    terms = analysed(searched.words)
    found = _looked_up(view, space, name, searched.words, terms) if terms else _NOTHING
    for phrase in searched.phrases:
        found = np.union1d(found, _with_phrase(view, space, name, phrase))
    return found.astype(np.int32, copy=False)


_NOTHING: Final = np.empty(0, np.int32)


def _with_phrase(view: View, space: NodeSpace, name: str, phrase: Phrase) -> Codes:
    """The nodes in whose text a phrase occurs: of those that have all its terms, the texts are read."""

    def found() -> Codes:
        codes = _looked_up(view, space, name, phrase.text, phrase.terms, every_term=True)
        texts = space.values(name, codes) if len(codes) else pa.array([], pa.utf8())
        at_once = view.thresholds.search.texts_at_once
        return codes[texts_with_phrase(texts, phrase, at_once)]

    key = ("phrase", space.column_key(name), phrase.places)
    return view.cache.get(key, found, lambda codes: codes.nbytes)


def _looked_up(
    view: View,
    space: NodeSpace,
    name: str,
    query: str,
    terms: Sequence[str],
    edits: int = 0,
    *,
    every_term: bool = False,
) -> Codes:
    """The nodes whose text has a term of the query, or nearly so, or ``every_term``."""
    own = own_index(view, space, name, IndexKind.FTS)
    if own is not None and own.tail_rows <= view.thresholds.search.unindexed_rows:
        # Without an index that cannot be read, below.
        with contextlib.suppress(IndexUnusable):
            return _in_own_index(view, space, own, query, terms, edits, every_term=every_term)
    thresholds = view.thresholds.search
    if space.size > thresholds.unindexed_rows:
        ordinals, _ = with_scratch_index(
            space,
            name,
            lambda table: text_hits(table, COLUMN, query, edits=edits, every_term=every_term),
            thresholds.scratch_bytes,
        )
        return np.sort(ordinals.astype(np.int32))
    held = view.cache.get(
        ("terms", space.column_key(name)), lambda: Terms(space.column(name).array), _nbytes
    )
    return np.flatnonzero(_holding(held, terms, edits, every_term)).astype(np.int32)


def _holding(held: Terms, terms: Sequence[str], edits: int, every_term: bool) -> Mask:
    if not every_term:
        return held.holding(terms, edits)
    mask: Mask = np.logical_and.reduce([held.holding([term], edits) for term in terms])
    return mask


def _in_own_index(
    view: View,
    space: NodeSpace,
    own: OwnIndex,
    query: str,
    terms: Sequence[str],
    edits: int,
    *,
    every_term: bool,
) -> Codes:
    """What the index of the table finds, and the rows that it does not cover."""
    partly = bool(own.tail)
    table = space.pinned.table
    hits, _ = text_hits(
        table, own.column, query, edits=edits, indexed_only=partly, every_term=every_term
    )
    found = [hits]
    if partly:
        row_ids, tail = view.cache.get(
            ("tail terms", space.pinned.exact, own.column),
            lambda: _tail(space, own),
            lambda made: made[0].nbytes + made[1].nbytes,
        )
        found.append(row_ids[_holding(tail, terms, edits, every_term)])
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
