"""Equal values of two properties as a link between their variables.

`$a.nick = $b.nick` joins by value: codes with one value are neighbours. Pairs are made only when rows are
asked for; a message goes through the values instead:

    nicks of $b: "x", "x", "y"   ->   "x" 2, "y" 1   ->   every $a called "x" gets 2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import pyarrow.compute as pc

from omnigraph.lang.query import ir
from omnigraph.lang.query.plan_text import predicate_text
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.arrays import Codes, Counts, Mask
from omnigraph.read.kernels.csr import Csr, csr_of
from omnigraph.read.match.candidates import Candidates, refuse_wrap
from omnigraph.read.match.links.link import Expansion, LinkEnds, Message, pieces, summed
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.expressions import column_of, type_of, variables_of
from omnigraph.read.values.operands import Judge


def joins_by_value(join: ir.Condition) -> TypeGuard[ir.Compare]:
    """Whether a condition is an equality of two values, each of one variable, that have one type.

    Numbers of different types are equal by mathematical value, and no NaN equals another.
    """
    if not isinstance(join, ir.Compare) or join.op != "=":
        return False
    sides = join.left, join.right
    if isinstance(join.left, ir.NodeId) or isinstance(join.right, ir.NodeId):
        return False
    if any(len(variables_of(side)) != 1 for side in sides):
        return False
    left, right = map(type_of, sides)
    return left.arrow_type() == right.arrow_type() and not left.is_float


def same_node(join: ir.Condition) -> TypeGuard[ir.Compare]:
    """Whether a condition asks that two variables are one node."""
    return (
        isinstance(join, ir.Compare)
        and join.op == "="
        and isinstance(join.left, ir.NodeId)
        and isinstance(join.right, ir.NodeId)
    )


def value_link(
    join: ir.Compare, spaces: Mapping[str, Space], params: Mapping[str, Any], judge: Judge
) -> ValueLink:
    """The link of an equality that joins by value, or by being one node."""
    (left,), (right,) = variables_of(join.left), variables_of(join.right)
    ends, text = LinkEnds(left, right), predicate_text(join)
    if same_node(join):
        every = np.arange(spaces[left].size, dtype=np.int32)
        return ValueLink(ends, every, every, len(every), text)
    one, two = (
        column_of(side, spaces[name], params, judge)
        for side, name in ((join.left, left), (join.right, right))
    )
    return ValueLink(ends, one.codes, _translated(one, two), len(one.dictionary), text)


class ValueLink:
    """Codes of two variables that have the same value; null has none.

    ``left`` and ``right`` are the numbers of the values by code, -1 for none, of which there are ``values``.
    """

    def __init__(
        self, ends: LinkEnds, left: Codes, right: Codes, values: int, text: str = ""
    ) -> None:
        self.ends = ends
        self.text = text
        self.values = max(1, values)
        self._keys = {ends.left: left, ends.right: right}
        self._members: dict[str, Csr] = {}

    def _members_of(self, name: str) -> Csr:
        """The codes of a variable by value. One more row, without codes, stands for null."""
        if name not in self._members:
            keys = self._keys[name]
            present = np.flatnonzero(keys >= 0).astype(np.int32)
            self._members[name] = csr_of(keys[present], present, (self.values + 1, len(keys)))
        return self._members[name]

    def _key(self, name: str, codes: np.ndarray) -> Codes:
        keys = self._keys[name][codes]
        return np.where(keys < 0, self.values, keys).astype(np.int32)

    def degrees(self, origin: str) -> Counts:
        """How many codes of the other variable have the value of each code."""
        members = self._members_of(self.ends.other(origin))
        return members.degrees[self._key(origin, np.arange(len(self._keys[origin])))]

    def fan_out(self, origin: str) -> float:
        """The mean number of codes with one value."""
        return len(self._keys[self.ends.other(origin)]) / self.values

    def expand(self, origin: str, codes: Codes, limit: int) -> Iterator[Expansion]:
        """All codes with the same value, in pieces of about `limit` pairs."""
        members = self._members_of(self.ends.other(origin))
        keys = self._key(origin, codes)
        for part in pieces(members.degrees[keys], limit):
            index, targets = frontier.expand(members, keys[part])
            yield Expansion(index + part.start, targets)

    def contains(self, left: Codes, right: Codes) -> Mask:
        """Which of these pairs have the same value."""
        keys = self._keys[self.ends.left][left]
        held: Mask = (keys >= 0) & (keys == self._keys[self.ends.right][right])
        return held

    def message(self, parent: str, at: Candidates, child: Candidates) -> Message:
        """The child summed by value, and the sums handed to the codes with that value."""
        by_value = self._by_value(child, self.ends.other(parent))
        keys = self._key(parent, at.listed())
        totals = {key: entry.at(keys) for key, entry in by_value.totals.items()}
        return Message(None, by_value.weights[keys], totals)

    def _by_value(self, child: Candidates, name: str) -> Message:
        listed = child.listed()
        keys = self._key(name, listed)
        known = keys < self.values
        index, targets = keys[known].astype(np.int64), listed[known]

        def sums(one: Candidates) -> Message:
            return summed(index, targets, self.values + 1, one, None)

        refuse_wrap(child, lambda part: sums(replace(child, weights=part)).weights)
        return sums(child)

    def reached(self, parent: str, at: Candidates, child: Candidates) -> Candidates:
        """The codes of the parent whose value a living code of the child has."""
        alive = np.zeros(self.values + 1, np.bool_)
        alive[self._key(self.ends.other(parent), child.alive().listed())] = True
        alive[self.values] = False
        return at.only_listed(alive[self._key(parent, at.listed())])


def _translated(left: Column, right: Column) -> Codes:
    """The values of the right column as codes of the left one; -1 where the left has no such value."""
    if left is right:
        return left.codes
    same = pc.index_in(right.dictionary, value_set=left.dictionary).fill_null(-1)
    # One place more, at the end: where a null (-1) looks its code up.
    codes = np.append(same.to_numpy(), -1).astype(np.int32)
    return codes[right.codes]
