"""Lines that add to groups, reduced to one line per group.

A line is a row of a match, or what many rows were reduced to before. Both are reduced alike, so batches
can be reduced one by one and their results once more. Counts are exact.

    keys [1, 0, 1], rows [1, 1, 2]   ->   keys [0, 1], rows [1, 3]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import aside
from omnigraph.read.kernels.arrays import Codes, Counts, Floats
from omnigraph.read.match.measures import COUNT, Measure
from omnigraph.read.output.selection import permutation
from omnigraph.read.values.numbers import MAX_COUNT, settled, too_many

Amounts = npt.NDArray[Any] | None
Integers = npt.NDArray[np.integer]


# Slots beyond the lines there are that may stay empty: clearing them costs less than sorting.
_EMPTY_SLOTS = 1 << 16
_EXACT = 2.0**53
# As many 32-bit halves as a float64 adds up exactly.
_HALVES = 1 << 20

Slot = tuple[int, Measure]
"""An output column and one of its measures."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Per line its group, a code per key column (-1 is null), and what it adds to it.

    ``rows`` is how many rows it stands for (None: each for one), negative where rows are subtracted
    (``complement``). The measures of each output column are entries in the form for groups; of a count also
    a mask (one where true) or None (as many as rows).
    """

    length: int
    keys: Sequence[Codes]
    rows: Counts | None
    measures: Mapping[Slot, Amounts] = field(default_factory=dict)


def reduced(lines: Lines) -> Lines:
    """One line per group, in the order of the codes; exactly one where there are no keys."""
    if _is_reduced(lines.keys):
        return _filled(lines)
    return aside(lambda: _grouped(lines), items=lines.length)


def _grouped(lines: Lines) -> Lines:
    slots = _Slots.of(lines.keys, lines.length)
    rows = slots.totals(lines.rows)
    measures: dict[Slot, Amounts] = {}
    for slot, amounts in lines.measures.items():
        measures[slot] = rows if amounts is None else slot[1].grouped(slots, amounts)
    if not lines.keys:
        return Lines(1, [], rows, measures)
    # Rows that are subtracted may come before the rows they are subtracted from.
    counts = [given(measures[slot]) != 0 for slot in measures if slot[1] is COUNT]
    taken = np.flatnonzero(np.logical_or.reduce([rows != 0, *counts]))
    if len(taken) < slots.count:
        rows = rows[taken]
        measures = {slot: given(amounts)[..., taken] for slot, amounts in measures.items()}
    return Lines(len(taken), slots.keys_of(taken), rows, measures)


def merged(parts: Sequence[Lines]) -> Lines:
    """Reduced lines of several batches as one line per group."""
    if len(parts) == 1:
        return parts[0]
    return reduced(
        Lines(
            sum(part.length for part in parts),
            [np.concatenate(codes) for codes in zip(*(part.keys for part in parts), strict=True)],
            np.concatenate([given(part.rows) for part in parts]),
            {
                slot: np.concatenate([given(part.measures[slot]) for part in parts], axis=-1)
                for slot in parts[0].measures
            },
        )
    )


def places(groups: Lines, keys: Sequence[Codes], length: int) -> Counts:
    """Which of the groups each of ``length`` lines belongs to, given the codes of the lines."""
    if not groups.keys:
        return np.zeros(length, np.int64)
    both = [np.concatenate(codes) for codes in zip(groups.keys, keys, strict=True)]
    slots = _Slots.of(both, groups.length + length)
    assert slots.of_line is not None, "there are keys"
    group_of = np.zeros(slots.count, np.int64)
    group_of[slots.of_line[: groups.length]] = np.arange(groups.length)
    found: Counts = group_of[slots.of_line[groups.length :]]
    return found


def _is_reduced(keys: Sequence[Codes]) -> bool:
    """Whether each line is a group already and they are in order; known only of one key."""
    if len(keys) != 1:
        return False
    [key] = keys
    return bool((key[1:64] > key[:-1][:63]).all() and (key[1:] > key[:-1]).all())


def _filled(lines: Lines) -> Lines:
    """Lines that are groups, with all their numbers."""
    rows = np.ones(lines.length, np.int64) if lines.rows is None else lines.rows
    measures: dict[Slot, Amounts] = {}
    for slot, amounts in lines.measures.items():
        if amounts is None:
            measures[slot] = rows
        else:
            is_mask = amounts.dtype == np.bool_
            measures[slot] = amounts.astype(np.int64) if is_mask else amounts
    return Lines(lines.length, lines.keys, rows, measures)


def given(amounts: Amounts) -> npt.NDArray[Any]:
    """The amounts, where a reduction has filled them in."""
    assert amounts is not None, "reduced lines carry all their numbers"
    return amounts


@dataclass(frozen=True, slots=True)
class _Slots:
    """A slot for every line: lines of one group share one. Some slots may be unused.

    ``of_line`` is None where there are no keys. ``mixed`` gives the key codes of a slot, all mixed
    into one integer (None: the slot is that integer), each code with its own base and lowest value;
    ``firsts``, where no integer can hold them, a line of each slot.
    """

    count: int
    length: int
    of_line: Integers | None
    keys: Sequence[Codes] = ()
    bases: Sequence[tuple[int, int]] = ()
    mixed: Counts | None = None
    firsts: Counts | None = None

    @classmethod
    def of(cls, keys: Sequence[Codes], length: int) -> _Slots:
        if not keys:
            return cls(1, length, None)
        bases = [
            (low := int(key.min(initial=0)), int(key.max(initial=0)) - low + 1) for key in keys
        ]
        room = math.prod(base for _, base in bases)
        if room > MAX_COUNT:
            return cls._without_mixing(keys, length)
        if room <= 2 * length + _EMPTY_SLOTS:
            mixed = _mixed(keys, bases)
            return cls(room, length, mixed.astype(np.intp, copy=False), keys, bases)
        if any(_is_distinct(key, *base) for key, base in zip(keys, bases, strict=True)):
            lines = np.arange(length)
            return cls(length, length, lines, keys, firsts=lines)
        mixed = _mixed(keys, bases)
        order = permutation(mixed, room)
        ordered = mixed[order]
        is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        slots = np.empty(length, np.intp)
        slots[order] = np.cumsum(is_first) - 1
        distinct = ordered[is_first]
        return cls(len(distinct), length, slots, keys, bases, distinct)

    @classmethod
    def _without_mixing(cls, keys: Sequence[Codes], length: int) -> _Slots:
        slots = np.zeros(length, np.int64)
        firsts = slots[:0]
        for key in keys:
            _, codes = np.unique(key, return_inverse=True)
            width = int(codes.max(initial=0)) + 1
            _, firsts, slots = np.unique(
                slots * width + codes, return_index=True, return_inverse=True
            )
        return cls(len(firsts), length, slots, keys, firsts=firsts)

    def keys_of(self, slots: Counts) -> list[Codes]:
        if self.firsts is not None:
            return [key[self.firsts[slots]] for key in self.keys]
        rest = slots if self.mixed is None else self.mixed[slots]
        if len(self.bases) == 1:
            return [(rest + self.bases[0][0]).astype(np.int32)]
        codes: list[Codes] = []
        for low, base in reversed(self.bases):
            rest, code = np.divmod(rest, base)
            codes.append((code + low).astype(np.int32))
        return codes[::-1]

    def totals(self, amounts: Amounts) -> Counts:
        """Counts added up exactly."""
        if amounts is None:
            if self.of_line is None:
                return np.array([self.length], np.int64)
            return np.bincount(self.of_line, minlength=self.count)
        if amounts.dtype == np.bool_:
            if self.of_line is None:
                return np.array([np.count_nonzero(amounts)], np.int64)
            return np.bincount(self.of_line[amounts], minlength=self.count)
        if amounts.min(initial=0) < 0:
            # Each sign by itself: in a sum of both, neither side's size could be checked.
            return self.totals(np.maximum(amounts, 0)) - self.totals(np.maximum(-amounts, 0))
        if amounts.sum(dtype=np.float64) < _EXACT:
            return self.sums(amounts).astype(np.int64)
        return self._large_totals(amounts)

    def _large_totals(self, amounts: Counts) -> Counts:
        """Counts beyond what a float64 holds, by halves of 32 bits."""
        high, low = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        for start in range(0, self.length, _HALVES):
            part = slice(start, start + _HALVES)
            lines = None if self.of_line is None else self.of_line[part]
            slots = _Slots(self.count, len(amounts[part]), lines)
            high += slots.sums(amounts[part] >> 32).astype(np.int64)
            low += slots.sums(amounts[part] & 0xFFFFFFFF).astype(np.int64)
            high += low >> 32
            low &= 0xFFFFFFFF
        if (high >= 2**31).any():
            raise too_many()
        return (high << 32) | low

    def sums(self, amounts: npt.NDArray[Any]) -> Floats:
        """Numbers added up as float64."""
        if self.of_line is None:
            # Infinities of both signs have no sum: that is NaN, not a fault.
            with np.errstate(over="ignore", invalid="ignore"):
                return np.array([amounts.sum(dtype=np.float64)])
        sums = np.bincount(self.of_line, weights=amounts, minlength=self.count)
        return sums.astype(np.float64, copy=False)

    def added(self, amounts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sums of floats, of integers, which wrap at 2^64, or of limbs, which never do."""
        if amounts.ndim > 1:
            return settled(np.stack([self._wrapped(limb) for limb in amounts]))
        return self.sums(amounts) if amounts.dtype.kind == "f" else self._wrapped(amounts)

    def _wrapped(self, amounts: Counts) -> Counts:
        if self.of_line is None:
            return np.array([amounts.sum(dtype=np.int64)])
        if np.abs(amounts.astype(np.float64)).sum() < _EXACT:
            return self.sums(amounts).astype(np.int64)
        out = np.zeros(self.count, np.int64)
        np.add.at(out, self.of_line, amounts)
        return out

    def folded(
        self, values: npt.NDArray[Any], function: np.ufunc, neutral: float
    ) -> npt.NDArray[Any]:
        """What a function of two numbers makes of each slot's values; ``neutral`` for none."""
        if self.of_line is None:
            return np.array([function.reduce(values, initial=neutral)], values.dtype)
        out = np.full(self.count, neutral, values.dtype)
        function.at(out, self.of_line, values)
        return out


def _is_distinct(key: Codes, low: int, base: int) -> bool:
    """Whether no two lines have the same code, so that every line is a group of its own."""
    if not len(key) <= base <= 2 * len(key) + _EMPTY_SLOTS:
        return False
    return int(np.bincount(key - low, minlength=base).max()) <= 1


def _mixed(keys: Sequence[Codes], bases: Sequence[tuple[int, int]]) -> Integers:
    """The codes of all keys in one integer, the first one leading."""
    if len(keys) == 1:
        low = bases[0][0]
        return keys[0] - low if low else keys[0]
    mixed = np.zeros(len(keys[0]), np.int64)
    for key, (low, base) in zip(keys, bases, strict=True):
        mixed *= base
        mixed += key
        mixed -= low
    return mixed
