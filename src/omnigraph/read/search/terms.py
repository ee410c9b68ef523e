"""The terms of a text property: which index holds them, and how to find them without one.

For example:

    terms_within(["helo", "world"], ["hello"], edits=1)   ->   ["helo"]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.view import View
from omnigraph.storage.tables.indexing.full_text import analysed
from omnigraph.storage.tables.indexing.indexes import IndexState


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
    if any(state.kind is None for state in states):
        # Another program made it, and Lance may choose it.
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
