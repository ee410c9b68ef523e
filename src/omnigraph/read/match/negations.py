"""Negated blocks: which rows have a match of `not { … }` and are therefore dropped.

A block is solved once for all rows: the distinct codes of its outer variables are the seed, and every
row of the answer names the seed it extends.

    $a: [0, 1, 0]   not { $a knows $b }   seed {"a": [0, 1]}   only 0 knows someone   -> [T, F, T]

Solving a block is solving a match, so ``solve`` hands itself in, and ``mask_in_match`` for a block about one
variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from omnigraph.read.kernels.arrays import Codes, Index, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.pattern import Negation, Pattern
from omnigraph.read.match.wanted import Wanted

# Combinations are marked in an array if there are at most this many for each row, and some more.
_MARKS = 64

SEED = "#seed"
"""The variable of an answer that numbers the rows of the seed."""

Solve = Callable[[MatchData, Pattern, Wanted, Mapping[str, Codes]], Iterator[Bindings]]
Present = Callable[[MatchData, Pattern, str, Codes | None], Mask]


class Negations:
    """Finds out for rows of a match whether a negated block has a match beside them."""

    def __init__(self, data: MatchData, solve: Solve, present: Present) -> None:
        self._data = data
        self._solve = solve
        self._present = present

    def any_match(self, negation: Negation) -> bool:
        """Whether a block that names no variable of the row has a match."""
        found = self._solve(self._data, negation.pattern, Wanted(frozenset()), {})
        return any(batch.count for batch in found)

    def matching(self, negation: Negation, name: str, candidates: Candidates) -> Mask:
        """For which candidates of its only outer variable the block has a match."""
        alone = replace(negation.pattern, given=frozenset())
        found = self._present(self._data, alone, name, candidates.codes)
        return found if candidates.codes is None else found[candidates.codes]

    def matches(self, negation: Negation, codes: Mapping[str, Codes], rows: int) -> Mask:
        """For which rows of the outer variables the block has a match."""
        seeds, which = _distinct(self._data, negation, codes, rows)
        found = np.zeros(rows if which is None else int(which.max(initial=-1)) + 1, dtype=np.bool_)
        wanted = Wanted(frozenset({SEED}))
        for batch in self._solve(self._data, negation.pattern, wanted, seeds):
            found[batch.codes[SEED]] = True
        return found if which is None else found[which]


def _distinct(
    data: MatchData, negation: Negation, codes: Mapping[str, Codes], rows: int
) -> tuple[dict[str, Codes], Index | None]:
    """The distinct combinations of the outer codes, and which of them each row has."""
    names = sorted(negation.outer)
    key = np.zeros(rows, dtype=np.int64)
    combinations = 1
    for name in names:
        size = max(1, data.space_of(negation.pattern, name).size)
        if combinations * size >= 2**62:
            return {name: codes[name] for name in names}, None
        key = key * size + codes[name]
        combinations *= size
    which: Index
    if combinations <= _MARKS * (rows + _MARKS):
        marked = np.zeros(combinations, dtype=np.bool_)
        marked[key] = True
        keys = np.flatnonzero(marked)
        which = (np.cumsum(marked) - 1)[key]
    else:
        keys, which = np.unique(key, return_inverse=True)
    if len(keys) == rows:
        return {name: codes[name] for name in names}, None
    seeds: dict[str, Codes] = {}
    for name in reversed(names):
        size = max(1, data.space_of(negation.pattern, name).size)
        seeds[name] = (keys % size).astype(np.int32)
        keys = keys // size
    return seeds, which
