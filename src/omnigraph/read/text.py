"""Where the terms of a text property can be looked up, and looking them up without an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from omnigraph.storage.full_text import analysed
from omnigraph.storage.indexes import IndexKind, IndexState, list_indexes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph.read.bindings import Mask
    from omnigraph.read.nodes import NodeSpace
    from omnigraph.read.view import View

FEW_ROWS: Final = 4096
"""So many rows are read and analysed for one search rather than indexed."""

_ROWS_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True)
class OwnIndex:
    """The index of a column that the table itself has, and the fragments it does not answer for."""

    column: str
    tail: tuple[int, ...]
    tail_rows: int


def own_index(view: View, space: NodeSpace, name: str, kind: IndexKind) -> OwnIndex | None:
    """The table's best index of that kind on a property; None when it has none."""
    column = space.stored_name(name)
    states = [state for state in _indexes(view, space) if state.column == column]
    if any(state.kind is None for state in states):
        # Somebody else's, and Lance may choose it.
        return None
    states = [state for state in states if state.kind is kind and state.segments]
    if column is None or not states:
        return None
    best = min(states, key=lambda state: state.unindexed_rows)
    return OwnIndex(column, best.tail, best.unindexed_rows)


def _indexes(view: View, space: NodeSpace) -> list[IndexState]:
    """The indexes of a table version, which never change."""
    pinned = space.pinned
    return view.cache.get(
        ("indexes", pinned.identity),
        lambda: list_indexes(pinned.table),
        lambda states: 512 * (1 + len(states)),
    )


def texts_with_terms(texts: pa.Array, wanted: Sequence[str], edits: int) -> Mask:
    """Which texts hold a term within so many edits of a wanted one.

    Terms never cross white space, so each distinct word between it is analysed once.
    """
    import numpy as np

    known: dict[str, bool] = {}
    found = np.zeros(len(texts), np.bool_)
    for begin in range(0, len(texts), _ROWS_AT_ONCE):
        part = texts.slice(begin, _ROWS_AT_ONCE)
        rows, words, dictionary = _words(part)
        unknown = [word for word in dictionary if word not in known]
        known.update(zip(unknown, _words_with_terms(unknown, wanted, edits), strict=True))
        hits = np.array([known[word] for word in dictionary], np.bool_)
        found[begin + rows[hits[words]]] = True
    return found


def _words(texts: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[Any], list[str]]:
    """For every word the row it stands in and its place in the list of distinct words."""
    import pyarrow.compute as pc

    lists = pc.utf8_split_whitespace(texts)
    encoded = lists.flatten().dictionary_encode()
    rows = pc.list_parent_indices(lists).to_numpy()
    return rows, encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _words_with_terms(words: Sequence[str], wanted: Sequence[str], edits: int) -> list[bool]:
    terms = [analysed(word) for word in words]
    distinct = sorted({term for held in terms for term in held})
    near = set(terms_within(distinct, wanted, edits))
    return [any(term in near for term in held) for held in terms]


def terms_within(terms: Sequence[str], wanted: Sequence[str], edits: int) -> list[str]:
    """The terms whose Levenshtein distance, in characters, from a wanted one is at most ``edits``."""
    import numpy as np

    if edits == 0:
        return sorted(set(terms) & set(wanted))
    lengths = np.array([len(term) for term in terms], np.int64)
    near = np.zeros(len(terms), np.bool_)
    for want in set(wanted):
        maybe = np.flatnonzero(~near & (np.abs(lengths - len(want)) <= edits)).tolist()
        if maybe:
            near[maybe] = _distances([terms[at] for at in maybe], want) <= edits
    return [terms[at] for at in np.flatnonzero(near).tolist()]


def _distances(terms: Sequence[str], want: str) -> npt.NDArray[np.int64]:
    """The Levenshtein distance of every term from one, a row of the table at a time for all."""
    import numpy as np

    lengths = np.array([len(term) for term in terms])
    longest = int(lengths.max())
    if longest == 0:
        return np.full(len(terms), len(want), np.int64)
    characters = np.array(terms, f"<U{longest}").view(np.uint32).reshape(len(terms), longest)
    row = np.tile(np.arange(longest + 1), (len(terms), 1))
    for at, character in enumerate(want, 1):
        above, row = row, np.empty_like(row)
        row[:, 0] = at
        replaced = above[:, :-1] + (characters != ord(character))
        cheapest = np.minimum(replaced, above[:, 1:] + 1)
        for place in range(longest):
            row[:, place + 1] = np.minimum(cheapest[:, place], row[:, place] + 1)
    distances: npt.NDArray[np.int64] = row[np.arange(len(terms)), lengths]
    return distances
