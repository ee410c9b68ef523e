"""Negated blocks, in two ways: which rows they drop, and how many matches they leave.

To find out which rows have a match of `not { … }`, a block is solved once for all of them: the distinct codes of its
outer variables are the seed, and every row of the answer names the seed it extends.

    $a: [0, 1, 0]   not { $a knows $b }   seed {"a": [0, 1]}   only 0 knows someone   -> [T, F, T]

Solving a block is solving a match, so ``solve`` hands itself in, and ``mask_in_match`` for a block about one
variable.

`not { $a knows $c }` asks for pairs that are not joined, and `$a.name != $c.name` for pairs of different nodes, so
their rows would have to be enumerated. A count needs no rows (``signed``): it is the number of matches without the
clause, less that of matches with its opposite, and summing away counts both.

    3 people, 2 of the 9 pairs know each other:   count($a, $c: not { $a knows $c })  =  9 - 2

Every row has a sign. A group whose signed rows add up to zero is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from omnigraph.lang.query import ir
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.read.kernels.arrays import Codes, Index, Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.candidates import Candidates
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.moments import by_moment, has_row_moments
from omnigraph.read.match.operand_rows import operand_rows
from omnigraph.read.match.pattern import (
    Negation,
    Pattern,
    block_of,
    merged,
    without,
)
from omnigraph.read.match.trees import has_block
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.values.operands import Judge, OperandRows
from omnigraph.read.values.other_spaces import OptionalSpace

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

    def judge(self, pattern: Pattern) -> Judge:
        """Says for rows of a pattern which satisfy a text predicate, or have a match of a block, in a condition."""

        def judged(condition: ir.TextMatch | ir.Exists, rows: OperandRows) -> Mask:
            if isinstance(condition, ir.TextMatch):
                name = condition.field.var
                types = {**pattern.optional_nodes, **pattern.nodes}
                found = self._data.texts_matching(types[name], condition)
                if name not in pattern.nodes:
                    # Behind the last node stands nothing, which has no text.
                    found = np.append(found, False)
                codes = rows.codes[name]
                return found if codes is None else found[codes]
            return self._beside(block_of(condition, pattern), rows)

        return judged

    def _beside(self, block: Negation, rows: OperandRows) -> Mask:
        """For which rows a block has a match."""
        if not block.outer:
            return np.full(rows.length, self.any_match(block), np.bool_)
        first = min(block.outer)
        is_alone = len(block.outer) == 1 and not has_row_moments(block.pattern)
        if is_alone and first in block.pattern.nodes and rows.codes[first] is None:
            return self.matching(block, first, Candidates(rows.length))
        codes = {name: rows.codes_of(name) for name in block.outer}
        spaces = {name: rows.spaces[name] for name in block.outer}
        nothing = {n: of.nothing for n, of in spaces.items() if isinstance(of, OptionalSpace)}
        if not nothing:
            return self.matches(block, codes, rows.length)
        found = np.zeros(rows.length, np.bool_)
        for missing, index in by_missing(codes, nothing, rows.length):
            inner = Negation(block.outer - missing, without(block.pattern, missing))
            if inner.outer:
                some = {name: codes[name].take(index) for name in inner.outer}
                found[index] = self.matches(inner, some, len(index))
            else:
                found[index] = self.any_match(inner)
        return found

    def any_match(self, negation: Negation) -> bool:
        """Whether a block that names no variable of the row has a match."""
        found = self._solve(self._data, negation.pattern, Wanted(frozenset()), {})
        return any(batch.count for batch in found)

    def matching(self, negation: Negation, name: str, candidates: Candidates) -> Mask:
        """For which candidates of its only outer variable the block has a match."""
        if has_row_moments(negation.pattern):
            return self.matches(negation, {name: candidates.listed()}, candidates.count)
        alone = replace(negation.pattern, given=frozenset())
        found = self._present(self._data, alone, name, candidates.codes)
        return found if candidates.codes is None else found[candidates.codes]

    def matches(self, negation: Negation, codes: Mapping[str, Codes], rows: int) -> Mask:
        """For which rows of the outer variables the block has a match."""
        outer = {name: codes[name] for name in negation.outer}
        seeds, which = distinct_combinations(self._data, negation.pattern, outer, rows)
        found = np.zeros(rows if which is None else int(which.max(initial=-1)) + 1, dtype=np.bool_)
        wanted = Wanted(frozenset({SEED}))
        for places, pattern, some in self._by_moment(negation.pattern, seeds, len(found)):
            for batch in self._solve(self._data, pattern, wanted, some):
                found[places[batch.codes[SEED]]] = True
        return found if which is None else found[which]

    def _by_moment(
        self, pattern: Pattern, seeds: Mapping[str, Codes], rows: int
    ) -> Iterator[tuple[Index, Pattern, Mapping[str, Codes]]]:
        """The seeds apart by the moments at which edges of the block must hold, and the block at these."""
        if not has_row_moments(pattern):
            yield np.arange(rows), pattern, seeds
            return
        at = operand_rows(self._data, pattern, Bindings(rows, dict(seeds)), seeds, None)
        for places, traversals in by_moment(pattern.traversals, at):
            some = {name: codes.take(places) for name, codes in seeds.items()}
            yield places, replace(pattern, traversals=tuple(traversals)), some


def by_missing(
    codes: Mapping[str, Codes], nothing: Mapping[str, int], rows: int
) -> Iterator[tuple[frozenset[str], Index]]:
    """Rows apart by which of their optional variables are nothing."""
    which = np.zeros(rows, np.int64)
    for at, (name, none) in enumerate(nothing.items()):
        which |= (codes[name] == none).astype(np.int64) << at
    for bits in np.unique(which).tolist():
        missing = frozenset(name for at, name in enumerate(nothing) if bits >> at & 1)
        yield missing, np.flatnonzero(which == bits)


def distinct_combinations(
    data: MatchData, block: Pattern, codes: Mapping[str, Codes], rows: int
) -> tuple[dict[str, Codes], Index | None]:
    """The distinct combinations of the codes of given variables of a block, and which of them each row has."""
    names = sorted(codes)
    key = np.zeros(rows, dtype=np.int64)
    combinations = 1
    for name in names:
        size = max(1, data.space_of(block, name).size)
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
        size = max(1, data.space_of(block, name).size)
        seeds[name] = (keys % size).astype(np.int32)
        keys = keys // size
    return seeds, which


def signed(
    pattern: Pattern, wanted: Wanted, catalog: Catalog, most_blocks: int
) -> list[tuple[int, Pattern]]:
    """Patterns whose counts, added with these signs, give that of the pattern.

    Up to ``most_blocks`` negated blocks are taken apart.
    """
    blocks = [one for one in pattern.negations if _is_joined(one) and not one.outer <= wanted.kept]
    blocks = blocks[:most_blocks]
    others = tuple(one for one in pattern.negations if one not in blocks)
    terms: list[tuple[int, Pattern]] = []
    for sign, one in _without_blocks(replace(pattern, negations=others), blocks, 1):
        for term in _without_inequality(one, wanted, catalog, sign):
            _add(terms, *term)
    return terms


def _add(terms: list[tuple[int, Pattern]], sign: int, pattern: Pattern) -> None:
    """Add a term, unless there is the same one with the other sign: then both are left out.

    `not { $r has $s }` rules out `$s = $t` where `$r has $t`, so the inequality adds nothing.
    """
    once = set(pattern.traversals)
    if len(once) < len(pattern.traversals) and all(one.edge_var is None for one in once):
        pattern = replace(pattern, traversals=tuple(sorted(once, key=repr)))
    for at, (other, known) in enumerate(terms):
        if other == -sign and _is_same(known, pattern):
            del terms[at]
            return
    terms.append((sign, pattern))


def _is_same(one: Pattern, two: Pattern) -> bool:
    ordered = replace(two, traversals=one.traversals)
    return set(one.traversals) == set(two.traversals) and one == ordered


def _without_blocks(
    pattern: Pattern, blocks: list[Negation], sign: int
) -> Iterator[tuple[int, Pattern]]:
    if not blocks:
        yield sign, pattern
        return
    first, *rest = blocks
    yield from _without_blocks(pattern, rest, sign)
    joined = replace(pattern, traversals=pattern.traversals + first.pattern.traversals)
    yield from _without_blocks(joined, rest, -sign)


def _without_inequality(
    pattern: Pattern, wanted: Wanted, catalog: Catalog, sign: int
) -> Iterator[tuple[int, Pattern]]:
    """Pairs of different nodes are all pairs, less those that have one node twice."""
    asked = wanted.kept | {one.var for one in wanted.totals.values()}
    for join in pattern.joins:
        pair = () if _has_blocks(pattern) else _nodes_differ(join, pattern, catalog)
        free = [name for name in pair if name not in asked and name not in pattern.given]
        if free:
            old = free[0]
            new = pair[1] if old == pair[0] else pair[0]
            rest = replace(pattern, joins=tuple(one for one in pattern.joins if one is not join))
            yield sign, rest
            yield -sign, merged(rest, old, new)
            return
    yield sign, pattern


def _has_blocks(pattern: Pattern) -> bool:
    """Whether a block stands in a condition somewhere: the variables in it are not renamed."""
    tests = [test for tests in pattern.tests.values() for test in tests]
    conditions = (*tests, *pattern.joins, *pattern.conditions, *pattern.late)
    inner = [one.pattern for one in pattern.negations]
    inner += [one.pattern for one in (*pattern.optionals, *pattern.multiplied)]
    return any(map(has_block, conditions)) or any(map(_has_blocks, inner))


def _nodes_differ(join: ir.Condition, pattern: Pattern, catalog: Catalog) -> tuple[str, ...]:
    """The variables that an inequality compares, by themselves or by their whole keys, if it does."""
    if not isinstance(join, ir.Compare) or join.op != "!=":
        return ()
    left, right = join.left, join.right
    if isinstance(left, ir.NodeId) and isinstance(right, ir.NodeId):
        both = pattern.nodes.get(left.var), pattern.nodes.get(right.var)
        return (left.var, right.var) if both[0] == both[1] is not None else ()
    if not isinstance(left, ir.PropertyOf) or not isinstance(right, ir.PropertyOf):
        return ()
    if left.var not in pattern.nodes or right.var not in pattern.nodes:
        return ()
    kind = pattern.nodes[left.var]
    whole = catalog.nodes[kind].key == (left.property,)
    if not whole or left.property != right.property or pattern.nodes[right.var] != kind:
        return ()
    return left.var, right.var


def _is_joined(negation: Negation) -> bool:
    """Whether the block is nothing but one traversal between two variables of the row."""
    inner = negation.pattern
    if len(inner.traversals) != 1 or inner.tests or inner.joins or inner.conditions:
        return False
    if inner.optionals:
        return False
    (traversal,) = inner.traversals
    return (
        not inner.negations
        and traversal.is_single_hop
        and traversal.edge_var is None
        and traversal.ends == inner.given == negation.outer
        and len(traversal.ends) == 2
    )


def negative(batch: Bindings) -> Bindings:
    """The same rows, to be subtracted; their totals are counts."""
    weights = np.ones(batch.count, np.int64) if batch.weights is None else batch.weights
    totals = {at: entry.each(lambda _, counts: -counts) for at, entry in batch.totals.items()}
    return Bindings(batch.count, batch.codes, -weights, totals)
