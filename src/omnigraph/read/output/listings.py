"""The values of an argument, group by group: `collect`, `count(distinct …)`, and extremes of computed texts.

Rows are grouped a second time, by their group and their value. What is kept is one line for each value of a
group, with the number of rows that have it: never more than the answer of `collect` has.

    return { $a.city, collect($b.name) }   rows (Oslo, cy), (Oslo, ada), (Oslo, cy)
    lines (Oslo, ada, 1), (Oslo, cy, 2)   ->   Oslo ["ada", "cy", "cy"]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.errors import ResourceLimit
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.output.aggregate_functions import Numbers, Result
from omnigraph.read.output.grouping import Lines, given, merged, places, reduced
from omnigraph.read.output.row_values import Coder
from omnigraph.read.output.selection import Integers, in_order, nulls_first

_MAX_ITEMS = 2**31 - 1


def is_listing(expr: ir.Aggregate) -> bool:
    """Whether an aggregate is made of the values of each group, not of numbers that are merged."""
    return expr.distinct or expr.function == "collect"


class Listing:
    """One such aggregate: takes the rows of batches and gives its result for all groups."""

    def __init__(self, expr: ir.Aggregate, coder: Coder) -> None:
        self._expr, self._coder = expr, coder
        self._parts: list[Lines] = []

    def add(self, batch: Bindings, keys: Sequence[Codes], few: bool) -> None:
        """Take the rows of a batch, given the codes of their groups."""
        codes = self._coder.codes(batch, few)
        weights = None if self._expr.distinct else batch.weights
        there = codes >= 0
        if not there.all():
            keys, codes = [key[there] for key in keys], codes[there]
            weights = None if weights is None else weights[there]
        self._parts.append(reduced(Lines(len(codes), [*keys, codes], weights)))
        if sum(part.length for part in self._parts[1:]) > self._parts[0].length:
            self._parts = [merged(self._parts)]

    def finish(self, groups: Lines) -> Result:
        """The result for these groups."""
        look()
        if not self._parts:
            nothing = [np.zeros(0, np.int32) for _ in range(len(groups.keys) + 1)]
            self._parts.append(Lines(0, nothing, np.zeros(0, np.int64)))
        lines = merged(self._parts)
        *keys, codes = lines.keys
        group = places(groups, keys, lines.length)
        if self._expr.function == "count":
            return Numbers(np.bincount(group, minlength=groups.length))
        ranks = self._coder.ranks(codes)
        order = in_order(np.arange(lines.length), [lambda at: group[at], lambda at: ranks[at]])
        starts = np.searchsorted(group[order], np.arange(groups.length + 1))
        if self._expr.function != "collect":
            return _Ends(self._expr.function, self._coder, codes[order], ranks[order], starts)
        times = None if self._expr.distinct else given(lines.rows)[order]
        return Lists(self._coder, codes[order], times, starts)


@dataclass(frozen=True, slots=True)
class Lists(Result):
    """A list per group: its lines from one of ``starts`` to the next, each as often as ``times`` says (None: once)."""

    coder: Coder
    codes: Codes
    times: Counts | None
    starts: Counts

    def sort_keys(self) -> list[Integers]:
        """No list is a sort key."""
        raise NotImplementedError

    def at(self, groups: Counts, kind: pa.DataType) -> pa.Array:
        """The lists of these groups."""
        begins, lengths = self.starts[groups], self.starts[groups + 1] - self.starts[groups]
        ends = np.cumsum(lengths)
        lines = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
            begins - (ends - lengths), lengths
        )
        if self.times is not None:
            times = self.times[lines]
            sums = np.concatenate([[0], np.cumsum(times)])
            ends = sums[ends]
            _refuse(int(sums[-1]))
            lines = np.repeat(lines, times)
        _refuse(len(lines))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        values = self.coder.values(self.codes[lines], kind.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets), values).cast(kind)


def _refuse(items: int) -> None:
    if items > _MAX_ITEMS:
        raise ResourceLimit(
            f"the lists of the answer have {items:,} items, more than the {_MAX_ITEMS:,} there may be; "
            "narrow the match, set a limit, or collect distinct values",
            resource="items",
            limit=_MAX_ITEMS,
            actual=items,
        )


@dataclass(frozen=True, slots=True)
class _Ends(Result):
    """The first or the last value of each group."""

    function: str
    coder: Coder
    codes: Codes
    ranks: Integers
    starts: Counts

    def _lines(self, groups: Counts) -> tuple[Counts, Mask]:
        """A line of each group (any, where there is none), and whether there is one."""
        begins, ends = self.starts[groups], self.starts[groups + 1]
        there: Mask = ends > begins
        lines = begins if self.function == "min" else ends - 1
        return np.where(there, lines, 0), there

    def sort_keys(self) -> list[Integers]:
        """The ranks of the values; null first."""
        lines, there = self._lines(np.arange(len(self.starts) - 1))
        ranks = np.zeros(len(there), np.int64)
        ranks[there] = self.ranks[lines[there]]
        return nulls_first(ranks, there)

    def at(self, groups: Counts, kind: pa.DataType) -> pa.Array:
        """The values of these groups."""
        lines, there = self._lines(groups)
        codes = np.full(len(groups), -1, np.int32)
        codes[there] = self.codes[lines[there]]
        return self.coder.values(codes, kind)
