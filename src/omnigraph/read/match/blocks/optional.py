"""Optional blocks: rows of a match extended by what a block finds beside them, or by nothing.

    $a: Person   optional { $a owns $t }   return $a, $t     ada owns 0 and 1, bob nothing
    rows (ada, 0), (ada, 1), (bob, nothing)

Nothing has a code of its own (``values.other_spaces.OptionalSpace``). A block about one variable that nobody looks into only
counts: each code of that variable stands for as many rows as the block has matches, and for one where it has none
(``prepare`` multiplies). The other blocks are solved once per batch of rows: the distinct codes of their outer variables
are the seed, as for negated blocks.

Where an outer variable is nothing itself, the block is solved without it: what it would traverse has no match, and
its properties are null (``without``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from omnigraph.cancel import look
from omnigraph.read.kernels.arrays import Codes, Counts, Index
from omnigraph.read.match.bindings import Bindings, joined
from omnigraph.read.match.blocks.negations import SEED, Solve, by_missing, distinct_combinations
from omnigraph.read.match.links.link import pieces
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.measures import COUNT
from omnigraph.read.match.pattern import OptionalBlock, Pattern, without
from omnigraph.read.match.wanted import Wanted
from omnigraph.read.values.expressions import variables_of


def left_joined(
    data: MatchData,
    pattern: Pattern,
    wanted: Wanted,
    seed: Mapping[str, Codes],
    solve: Solve,
    passing: Callable[[Pattern, Bindings], Bindings],
) -> Iterator[Bindings]:
    """The rows of a match with optional blocks, in batches; ``passing`` keeps those that satisfy its late conditions."""
    core, inner, stages = split(pattern, wanted)
    for batch in solve(data, core, inner, seed):
        for rows in _extended(data, pattern, batch, stages, solve):
            found = passing(pattern, rows) if pattern.late else rows
            if found.count:
                yield found.only(wanted.kept)


Stage = tuple[OptionalBlock, frozenset[str]]
"""A block that is joined row by row, and the variables that are needed of it."""


def split(pattern: Pattern, wanted: Wanted) -> tuple[Pattern, Wanted, list[Stage]]:
    """The pattern without what is joined row by row, what is asked of its rows then, and those blocks."""
    needed = set(wanted.kept) | _late_names(pattern)
    stages: list[Stage] = []
    multiplied: list[OptionalBlock] = []
    for block in reversed(pattern.optionals):
        shown = frozenset(needed & block.introduced)
        if not shown and len(block.outer) == 1 and block.outer <= pattern.nodes.keys():
            multiplied.append(block)
            continue
        stages.insert(0, (block, shown))
        needed |= block.outer
    core = replace(
        pattern, optionals=(), late=(), multiplied=pattern.multiplied + tuple(multiplied)
    )
    own = core.nodes.keys() | core.edges.keys() | {SEED}
    return core, replace(wanted, kept=frozenset(needed & own)), stages


def _late_names(pattern: Pattern) -> set[str]:
    return {name for one in pattern.late for name in variables_of(one)}


def _extended(
    data: MatchData,
    pattern: Pattern,
    rows: Bindings,
    stages: list[Stage],
    solve: Solve,
) -> Iterator[Bindings]:
    """The rows with all blocks joined, one after the other."""
    if not stages:
        yield rows
        return
    (block, shown), *rest = stages
    optional = block.outer & pattern.optional_names
    nothing = {name: data.nothing(pattern, name) for name in sorted(optional)}
    for missing, index in by_missing(rows.codes, nothing, rows.count):
        inner = without(block.pattern, missing)
        names = sorted(block.outer - missing)
        part = rows if len(index) == rows.count else rows.at(index)
        for grown in _joined(data, replace(block, pattern=inner), part, names, shown, solve):
            yield from _extended(data, pattern, grown, rest, solve)


def _joined(
    data: MatchData,
    joining: OptionalBlock,
    rows: Bindings,
    names: list[str],
    shown: frozenset[str],
    solve: Solve,
) -> Iterator[Bindings]:
    """Rows beside the matches of a block: once for each, and once with nothing where there is none and none is required."""
    block, least = joining.pattern, 0 if joining.required else 1
    seeds: dict[str, Codes] = {}
    which: Index = np.zeros(rows.count, np.int64)
    count = 1
    if names:
        codes = {name: rows.codes[name] for name in names}
        seeds, found = distinct_combinations(data, block, codes, rows.count)
        count = rows.count if found is None else int(found.max(initial=-1)) + 1
        which = np.arange(rows.count) if found is None else found
    kept = shown | ({SEED} if names else frozenset())
    batches = list(solve(data, block, Wanted(kept), seeds))
    matches = joined(batches) if batches else Bindings(0, dict.fromkeys(kept, _NO_CODES))
    seed_of = matches.codes[SEED] if names else np.zeros(matches.count, np.int32)
    if not shown:
        weights = matches.weights
        ones = np.ones(matches.count, np.int64) if weights is None else weights
        found_of = COUNT.scattered(ones, seed_of.astype(np.int64), count)
        times = np.maximum(found_of.take(which), least)
        there = times > 0
        yield rows.at(there).join(times[there], {})
        return
    order = np.argsort(seed_of, kind="stable")
    sizes = np.bincount(seed_of, minlength=count)
    starts = np.cumsum(sizes) - sizes
    nothing = {name: np.int32(data.optional_space(block, name).nothing) for name in shown}
    of_rows = sizes.take(which)
    if joining.required:
        there = of_rows > 0
        rows, which, of_rows = rows.at(there), which[there], of_rows[there]
    for part in pieces(np.maximum(of_rows, 1), data.thresholds.batch_rows):
        look()
        yield _beside(rows.at(part), which[part], of_rows[part], starts, order, matches, nothing)


_NO_CODES = np.zeros(0, np.int32)


def _beside(
    rows: Bindings,
    which: Index,
    sizes: Counts,
    starts: Counts,
    order: Index,
    matches: Bindings,
    nothing: Mapping[str, np.int32],
) -> Bindings:
    """Each row once for every match of its seed, or once with nothing."""
    times = np.maximum(sizes, 1)
    index = np.repeat(np.arange(rows.count), times)
    within = np.arange(len(index)) - np.repeat(np.cumsum(times) - times, times)
    there = sizes.take(index) > 0
    places = order.take((starts.take(which).take(index) + within)[there])
    grown = rows.at(index)
    for name, none in nothing.items():
        codes = np.full(len(index), none, np.int32)
        codes[there] = matches.codes[name].take(places)
        grown = grown.binding(name, codes)
    if matches.weights is None:
        return grown
    weights = np.ones(len(index), np.int64)
    weights[there] = matches.weights.take(places)
    return grown.join(weights, {})


def multiplicity(data: MatchData, block: OptionalBlock, name: str, solve: Solve) -> Counts:
    """For every code of the block's only outer variable how many rows it stands for: its matches, or one."""
    alone = replace(block.pattern, given=frozenset())
    counts = np.zeros(data.space_of(block.pattern, name).size, np.int64)
    for batch in solve(data, alone, Wanted(frozenset({name})), {}):
        weights = np.ones(batch.count, np.int64) if batch.weights is None else batch.weights
        counts += COUNT.scattered(weights, batch.codes[name].astype(np.int64), len(counts))
    return np.maximum(counts, 1)
