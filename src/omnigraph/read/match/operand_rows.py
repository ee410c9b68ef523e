"""Rows of a match as operands of expressions: their entities, and the paths between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Mask
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.match_data import MatchData
from omnigraph.read.match.moments import by_moment
from omnigraph.read.match.paths import path_array
from omnigraph.read.match.pattern import Pattern, Traversal
from omnigraph.read.values.column import Column
from omnigraph.read.values.operands import Judge, OperandRows, Supply
from omnigraph.read.values.other_spaces import OptionalSpace


def operand_rows(
    data: MatchData, pattern: Pattern, rows: Bindings, names: Iterable[str], judge: Judge | None
) -> OperandRows:
    """What an expression over these variables is computed from."""
    spaces = {name: data.space_of(pattern, name) for name in names}
    codes = {name: rows.codes[name] for name in spaces}
    return OperandRows(spaces, codes, data.params, rows.count, judge, supply_of(data, pattern))


def supply_of(data: MatchData, pattern: Pattern) -> Supply:
    """Gives the values of a match that are not read off an entity or a row: those of paths."""

    def supply(expr: ir.Expr, at: OperandRows) -> Column:
        assert isinstance(expr, ir.PathValue), f"{type(expr).__name__} is no value of a match"
        return path_column(data, pattern, expr, at)

    return supply


def path_column(data: MatchData, pattern: Pattern, expr: ir.PathValue, rows: OperandRows) -> Column:
    """What is asked of the path between two variables, row by row; null where there is none."""
    traversal = _path_of(pattern, expr.var)
    if traversal.row_moments:
        return _paths_at_moments(data, traversal, expr, rows)
    return _paths(data, traversal, expr, rows)


def _paths_at_moments(
    data: MatchData, traversal: Traversal, expr: ir.PathValue, rows: OperandRows
) -> Column:
    """The same where the edges of a path hold at a moment of the row."""
    arrays, places = [], []
    for some, [at] in by_moment([traversal], rows):
        codes = {name: rows.codes_of(name).take(some) for name in rows.codes}
        arrays.append(_paths(data, at, expr, replace(rows, codes=codes, length=len(some))).array)
        places.append(some)
    if not arrays:
        return _paths(data, traversal.at_any_moment, expr, rows)
    order = np.argsort(np.concatenate(places))
    return Column(expr.type, pa.concat_arrays(arrays).take(pa.array(order)))  # type: ignore[arg-type]


def _paths(data: MatchData, traversal: Traversal, expr: ir.PathValue, rows: OperandRows) -> Column:
    topology = data.edges_of(traversal)
    search = data.path_search(traversal)
    left, right = rows.codes_of(traversal.left), rows.codes_of(traversal.right)
    bound = _bound(rows, traversal.left) & _bound(rows, traversal.right)
    if expr.guard is not None:
        bound &= _bound(rows, expr.guard)
    some = np.flatnonzero(bound)
    left, right = left.take(some), right.take(some)
    if expr.what == "length":
        lengths, there = search.lengths(left, right)
        array = pa.array(lengths, mask=~there)
    elif expr.what == "cost":
        costs, there = search.costs(left, right)
        array = pa.array(costs, mask=~there)
    else:
        array = path_array(expr, search.paths(left, right), search.nodes, topology)
    if len(some) < rows.length:
        places = np.cumsum(bound) - 1
        array = array.take(pa.array(places, mask=~bound))
    return Column(expr.type, array)  # type: ignore[arg-type] # objects are columns too


def _bound(rows: OperandRows, name: str) -> Mask:
    space = rows.spaces[name]
    codes = rows.codes_of(name)
    return (
        space.is_there(codes) if isinstance(space, OptionalSpace) else np.ones(len(codes), np.bool_)
    )


def _path_of(pattern: Pattern, name: str) -> Traversal:
    """The traversal whose path a variable stands for, in a pattern or an optional block of it."""
    if name in pattern.paths:
        return pattern.paths[name]
    found = (
        _path_of(one.pattern, name) for one in pattern.optionals if name in _paths_in(one.pattern)
    )
    return next(found)


def _paths_in(pattern: Pattern) -> set[str]:
    return set(pattern.paths).union(*(_paths_in(block.pattern) for block in pattern.optionals))
