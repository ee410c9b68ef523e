"""Listed output: the rows of a match in their total order, projected.

    order { $a.age } limit 2   rows a [0, 1, 2], ages [40, 20, 30]   ->   the rows of 1 and 2

Rows stay codes until the end. The keys look at a property of all entities when the rows are many, and of
just those rows when they are few. The columns of the answer are fetched for the rows that are shown. With a
limit, only rows that could still be shown are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Counts, Floats
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.match.bindings import Bindings, joined
from omnigraph.read.output.projection import project
from omnigraph.read.output.row_values import RowSource, RowValue, RowValues
from omnigraph.read.output.selection import At, Integers, Key, best, column_keys, in_order
from omnigraph.read.output.window import Window
from omnigraph.read.search.ranking import Ranked
from omnigraph.read.thresholds import DEFAULTS, OutputThresholds
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.expressions import evaluate, holds, variables_of
from omnigraph.read.values.operands import Judge, OperandRows, Supply
from omnigraph.types import PropType, Scalar

SCORE = PropType(Scalar.F64)
"""The type of scores and distances."""

MAX_ROWS = 2**32
"""An answer of more rows is refused."""


class Ordered(NamedTuple):
    """Rows in the order in which they are shown."""

    codes: Mapping[str, Codes]
    length: int
    scores: Floats | None


class Collector:
    """Takes the rows of a plan without aggregates and gives its answer."""

    def __init__(
        self,
        plan: ir.ReadPlan,
        spaces: Mapping[str, Space],
        params: Mapping[str, Any],
        ranked: Ranked | None = None,
        thresholds: OutputThresholds = DEFAULTS.output,
        limits: ReadLimits = NO_LIMITS,
        *,
        judge: Judge | None = None,
        supply: Supply | None = None,
    ) -> None:
        self._plan, self._spaces = plan, spaces
        nullable = frozenset(one.name for one in plan.variables if one.nullable)
        self._source = RowSource(spaces, params, nullable, judge, supply)
        self._limits, self._window = limits, Window.of(plan, params)
        self._limit = self._window.needed(limits)
        self._thresholds, self._slack = thresholds, thresholds.slack_rows
        self._values = RowValues(self._source)
        self._places = None if ranked is None else _Places(plan, ranked)
        self._is_ordered = bool(plan.order) or ranked is not None
        self._keys = [key for sort in plan.order for key in self._sort_keys(sort)]
        self._batches: list[Bindings] = []
        self._rows = self._shown = 0
        self._is_pruned = False
        self._prune_at = 0 if self._limit is None else 2 * self._limit + self._slack
        self._found = 0

    @property
    def found(self) -> int:
        """How many rows the answer has so far, shown or not; only if the limits ask for it."""
        return self._window.rows_of(self._found)

    @property
    def kept(self) -> int:
        """How many rows there are so far that could be shown, up to as many as are needed."""
        if not self._batches:
            return 0
        return sum(_stands_for(batch, MAX_ROWS) for batch in self._batches)

    def add(self, batch: Bindings) -> bool:
        """Take a batch of rows; False when no more are wanted."""
        limit = self._limit
        if limit == 0:
            return False
        batch = self._possible(batch)
        if self._limits.counts_rows:
            self._found += batch.total()
            self._limits.check_rows(self.found)
        batch = self._promising(batch)
        if batch.count and not (limit is not None and self._shown >= limit):
            self._batches.append(batch)
            self._rows += batch.count
        if limit is None:
            return True
        if not self._is_ordered:
            self._shown += _stands_for(batch, limit)
            # Rows that `having` keeps are known one by one: the others are counted here, too.
            return self._shown < limit or (bool(self._plan.having) and self._limits.counts_rows)
        if self._rows > self._prune_at:
            self._prune(limit)
        return True

    def finish(self) -> pa.Table:
        """The rows in order, as many as the plan wants."""
        return self.fetched(self.ordered())

    def ordered(self) -> Ordered:
        """The codes of the rows that are shown, in order."""
        if not self._batches:
            return Ordered({}, 0, None)
        rows = joined(self._batches)
        self._batches = [rows]
        every = np.arange(rows.count)
        at = _repeated(self._in_order(rows, every), rows.weights, self._limit, self._slack)
        at = at[self._window.offset :] if self._window.offset else at
        codes = rows.codes if at is every else {var: by[at] for var, by in rows.codes.items()}
        scores = None
        if self._places is not None:
            scores = self._places.scores(codes[self._places.var])
        return Ordered(codes, len(at), scores)

    def fetched(self, rows: Ordered) -> pa.Table:
        """The columns of these rows."""
        return project(
            self._plan,
            self._source,
            rows.codes,
            rows.length,
            scores=rows.scores,
            thresholds=self._thresholds,
            limits=self._limits,
        )

    # -------------------------------------------------------------- keeping rows

    def _possible(self, batch: Bindings) -> Bindings:
        """Drop rows that stand for none, those that `having` drops, and entities that are not ranked."""
        kept = None
        if batch.weights is not None and not batch.weights.all():
            kept = batch.weights != 0
        if self._places is not None:
            is_ranked = self._places.found(batch.codes[self._places.var]) >= 0
            kept = is_ranked if kept is None else kept & is_ranked
        batch = batch if kept is None or kept.all() else batch.at(np.flatnonzero(kept))
        if not self._plan.having or not batch.count:
            return batch
        rows = self._source.rows(batch.codes, batch.count)
        rows = replace(rows, supply=self._of_columns)
        held = np.logical_and.reduce([holds(one, rows) for one in self._plan.having])
        return batch if held.all() else batch.at(np.flatnonzero(held))

    def _of_columns(self, expr: ir.Expr, rows: OperandRows) -> Column:
        """The value of an output column, and what else is not read off an entity."""
        if not isinstance(expr, ir.ColumnValue):
            assert self._source.supply is not None, "only output columns are asked for here"
            return self._source.supply(expr, rows)
        shown = self._plan.columns[expr.column].expr
        if isinstance(shown, ir.Score):
            assert self._places is not None, "only a ranking has scores"
            codes = rows.codes[self._places.var]
            assert codes is not None, "rows of a match have codes"
            return Column(SCORE, pa.array(self._places.scores(codes)))
        assert not isinstance(shown, ir.Shape), "objects are no operands"
        return evaluate(shown, rows)

    def _promising(self, batch: Bindings) -> Bindings:
        """Drop rows that cannot make the limit, given the best rows kept so far."""
        key = self._leading_key()
        if not self._is_pruned or key is None:
            return batch
        worst = max(int(key(held)(slice(None)).max()) for held in self._batches)
        fits = key(batch)(slice(None)) <= worst
        return batch if fits.all() else batch.at(np.flatnonzero(fits))

    def _leading_key(self) -> _RowKey | None:
        """The first key, where its integers compare between batches."""
        if self._places is not None:
            return self._places
        return self._keys[0] if self._keys and self._keys[0].lasts() else None

    def _prune(self, limit: int) -> None:
        rows = joined(self._batches)
        chosen = (
            best(rows.count, self._bound(rows), limit)
            if self._places is None
            else self._best_ranked(self._places, rows, limit)
        )
        rows = rows.at(chosen)
        self._batches, self._rows, self._is_pruned = [rows], rows.count, True
        # Ties may keep more rows than the limit, so the next cut waits until as many more have come.
        self._prune_at = max(self._prune_at, 2 * self._rows)

    def _best_ranked(self, places: _Places, rows: Bindings, limit: int) -> Counts:
        """The rows of the best entities; of each no more than could be shown.

        A later row can move its entity ahead of others it is tied with, and brings with it the rows
        of that entity: so none of these may be dropped for rows of other entities.
        """
        ranks = places(rows)(slice(None))
        kept = np.flatnonzero(ranks <= np.partition(ranks, limit - 1)[limit - 1])
        if len(kept) <= 2 * limit + self._slack:
            return kept
        ordered = in_order(kept, self._bound(rows))
        entities = rows.codes[places.var][ordered]
        together = np.argsort(entities, kind="stable")
        entities = entities[together]
        starts = np.flatnonzero(np.concatenate([[True], entities[1:] != entities[:-1]]))
        lengths = np.diff(np.append(starts, len(entities)))
        nth = np.arange(len(entities)) - np.repeat(starts, lengths)
        return np.sort(ordered[together[nth < limit]])

    # -------------------------------------------------------------- order

    def _in_order(self, rows: Bindings, every: Counts) -> Counts:
        """The positions of the rows in order, or only of the first ones when those fill the limit."""
        limit = self._limit
        if not self._is_ordered:
            return every if limit is None or len(every) <= limit else every[:limit]
        keys = self._bound(rows)
        if self._places is None:
            shown = every if limit is None or len(every) <= limit else best(len(every), keys, limit)
            return in_order(shown, keys)
        ordered = in_order(every, keys)
        entities = rows.codes[self._places.var][ordered]
        # Tied entities follow their best row, and the rows of one entity stay together.
        _, firsts, inverse = np.unique(entities, return_index=True, return_inverse=True)
        ranks = self._places(rows)(ordered)
        return ordered[np.lexsort((firsts[inverse], ranks))]

    def _bound(self, rows: Bindings) -> list[Key]:
        """The keys of these rows: those the plan asks for, then the ids of all variables."""
        named = (one.name for one in self._plan.variables if one.kind != "path")
        names = sorted(named)
        if self._places is not None:
            names.insert(0, self._places.var)
        ids = [_IdKey(self._spaces[name], name) for name in names if name in rows.codes]
        return [key(rows) for key in [*self._keys, *ids]]

    def _sort_keys(self, sort: ir.SortKey) -> Iterator[_RowKey]:
        expr: ir.Output | None = sort.expr
        if sort.column is not None:
            expr = self._plan.columns[sort.column].expr
        assert expr is not None, "a key is an expression or a column"
        if isinstance(expr, ir.NodeId | ir.EdgeId):
            yield _IdKey(self._spaces[expr.var], expr.var, sort.descending)
        elif variables_of(expr):
            # A constant orders nothing, and tied entities have equal scores.
            assert not isinstance(expr, ir.Score | ir.Shape), "no shape is a sort key"
            value = self._values.of(expr)
            yield _ValueKey(value, sort.descending)
            if value.is_wide:
                yield _ValueKey(value, sort.descending, second=True)


class _RowKey(ABC):
    """A key of any batch: calling it with one gives the key of its rows."""

    def __init__(self, descending: bool) -> None:
        self.descending = descending

    @abstractmethod
    def lasts(self) -> bool:
        """Whether its integers compare between batches."""

    def __call__(self, rows: Bindings) -> Key:
        return lambda at: self._directed(self.of(rows, at))

    def _directed(self, values: Integers) -> Integers:
        return ~values if self.descending else values

    @abstractmethod
    def of(self, rows: Bindings, at: At) -> Integers:
        """The integers of the rows at these positions."""


class _IdKey(_RowKey):
    """The ids of a variable."""

    def __init__(self, space: Space, var: str, descending: bool = False) -> None:
        super().__init__(descending)
        self.space, self.var = space, var

    def lasts(self) -> bool:
        return False

    def of(self, rows: Bindings, at: At) -> Integers:
        return self.space.ranks(rows.codes[self.var][at])


class _ValueKey(_RowKey):
    """An expression, nulls smallest. 64-bit integers need a second key, see ``nulls_first``."""

    def __init__(self, value: RowValue, descending: bool, second: bool = False) -> None:
        super().__init__(descending)
        self.value, self.second = value, second
        self.by_code: tuple[Column, Integers] | None = None

    def lasts(self) -> bool:
        return not self.value.is_text or self.by_code is not None

    def of(self, rows: Bindings, at: At) -> Integers:
        part = {name: rows.codes[name][at] for name in self.value.variables}
        count = len(next(iter(part.values())))
        column, codes = self.value.read(Bindings(count, part), few=True)
        if codes is None:
            return self._keys(column)
        if self.by_code is None or self.by_code[0] is not column:
            self.by_code = column, self._keys(column)
        return self.by_code[1][codes]

    def _keys(self, column: Column) -> Integers:
        keys = column_keys(column)
        return keys[1] if self.second else keys[0]


class _Places(_RowKey):
    """The place of each entity of the ranked variable, which is also a sort key."""

    def __init__(self, plan: ir.ReadPlan, ranked: Ranked) -> None:
        assert plan.ranking is not None
        arm = plan.ranking.arms[0] if isinstance(plan.ranking, ir.Rrf) else plan.ranking
        super().__init__(descending=False)
        self.var = arm.field.var
        self.ranked = ranked
        self._order = np.argsort(ranked.codes)
        self._codes = ranked.codes[self._order]

    def lasts(self) -> bool:
        return True

    def found(self, codes: Codes) -> Counts:
        """The position of each entity in the ranking; -1 where it is not in it."""
        if not len(self._codes):
            return np.full(len(codes), -1)
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[at] == codes, self._order[at], -1)

    def of(self, rows: Bindings, at: At) -> Integers:
        return self.ranked.places[self.found(rows.codes[self.var][at])]

    def scores(self, codes: Codes) -> npt.NDArray[np.float64]:
        return self.ranked.scores[self.found(codes)]


def _stands_for(batch: Bindings, limit: int) -> int:
    """How many rows of the answer a batch stands for; counts beyond the limit do not matter."""
    return batch.count if batch.weights is None else int(np.minimum(batch.weights, limit).sum())


def _repeated(at: Counts, weights: Counts | None, limit: int | None, small: int) -> Counts:
    """Each position as often as its row counts, up to the limit; a ``small`` limit needs no cut first."""
    if weights is None:
        return at if limit is None or len(at) <= limit else at[:limit]
    times = weights[at]
    if limit is not None:
        at, times = at[:limit], np.minimum(times[:limit], limit)
        return np.repeat(at, times)[:limit] if limit <= small else _cut(at, times, limit)
    total = float(times.sum(dtype=np.float64))
    if total > MAX_ROWS:
        raise ResourceLimit(
            f"the answer has about {total:.3g} rows, more than the {MAX_ROWS} there may be; "
            "narrow the match, aggregate, or set a limit",
            resource="rows",
            limit=MAX_ROWS,
            actual=int(total),
        )
    return at if len(times) == total else np.repeat(at, times)


def _cut(at: Counts, times: Counts, limit: int) -> Counts:
    ends = np.cumsum(times)
    last = int(np.searchsorted(ends, limit))
    return np.repeat(at[: last + 1], times[: last + 1])[:limit]
