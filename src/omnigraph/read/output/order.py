"""Listed output: the rows of a match in their total order, projected.

    order { $a.age } limit 2   rows a [0, 1, 2], ages [40, 20, 30]   ->   the rows of 1 and 2

Rows stay codes until the end. The keys look at a property of all entities when the rows are many, and of
just those rows when they are few. The columns of the answer are fetched for the rows that are shown. With a
limit, only rows that could still be shown are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import ResourceLimit
from omnigraph.lang.query import ir
from omnigraph.read.kernels.arrays import Codes, Counts, Floats
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.read.match.bindings import Bindings, joined
from omnigraph.read.output.projection import project
from omnigraph.read.output.selection import Integers, Key, best, in_order, nulls_first
from omnigraph.read.search.ranking import Ranked
from omnigraph.read.thresholds import DEFAULTS, OutputThresholds
from omnigraph.read.values.column import Column, Space
from omnigraph.read.values.numbers import sortable
from omnigraph.read.values.predicates import is_worth_all

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
    ) -> None:
        self._plan, self._spaces, self._params = plan, spaces, params
        self._limits, self._limit = limits, limits.shown(plan.limit)
        self._thresholds, self._slack = thresholds, thresholds.slack_rows
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
        return self._found if self._plan.limit is None else min(self._found, self._plan.limit)

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
        if batch.count:
            self._batches.append(batch)
            self._rows += batch.count
        if limit is None:
            return True
        if not self._is_ordered:
            self._shown += _stands_for(batch, limit)
            return self._shown < limit
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
        codes = rows.codes if at is every else {var: by[at] for var, by in rows.codes.items()}
        scores = None
        if self._places is not None:
            scores = self._places.scores(codes[self._places.var])
        return Ordered(codes, len(at), scores)

    def fetched(self, rows: Ordered) -> pa.Table:
        """The columns of these rows."""
        return project(
            self._plan,
            self._spaces,
            self._params,
            rows.codes,
            rows.length,
            scores=rows.scores,
            thresholds=self._thresholds,
            limits=self._limits,
        )

    # -------------------------------------------------------------- keeping rows

    def _possible(self, batch: Bindings) -> Bindings:
        """Drop rows that stand for none, and those of entities that the ranking leaves out."""
        kept = None
        if batch.weights is not None and not batch.weights.all():
            kept = batch.weights != 0
        if self._places is not None:
            is_ranked = self._places.found(batch.codes[self._places.var]) >= 0
            kept = is_ranked if kept is None else kept & is_ranked
        return batch if kept is None or kept.all() else batch.at(np.flatnonzero(kept))

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
            return self._places.key
        return self._keys[0] if self._keys and self._keys[0].is_lasting else None

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
        ranks = places.key(rows)(slice(None))
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
        ranks = self._places.key(rows)(ordered)
        return ordered[np.lexsort((firsts[inverse], ranks))]

    def _bound(self, rows: Bindings) -> list[Key]:
        """The keys of these rows: those the plan asks for, then the ids of all variables."""
        names = sorted(variable.name for variable in self._plan.variables)
        if self._places is not None:
            names.insert(0, self._places.var)
        ids = [_IdKey(self._spaces[name], name) for name in names if name in rows.codes]
        return [key(rows) for key in [*self._keys, *ids]]

    def _sort_keys(self, sort: ir.SortKey) -> Iterator[_RowKey]:
        expr = sort.expr
        if sort.column is not None:
            expr = cast("Any", self._plan.columns[sort.column].expr)
        match expr:
            case ir.PropertyOf():
                space = self._spaces[expr.var]
                yield _PropertyKey(space, expr, sort.descending)
                if expr.type.scalar.fills_64_bits:
                    yield _PropertyKey(space, expr, sort.descending, second=True)
            case ir.NodeId():
                yield _IdKey(self._spaces[expr.var], expr.var, sort.descending)
            case _:
                # A constant orders nothing, and tied entities have equal scores.
                return


class _RowKey:
    """A key of any batch: calling it with one gives the key of its rows."""

    is_lasting = False

    def __init__(self, var: str, descending: bool) -> None:
        self.var, self.descending = var, descending

    def __call__(self, rows: Bindings) -> Key:
        codes = rows.codes[self.var]
        return lambda at: self._directed(self.of(codes[at]))

    def _directed(self, values: Integers) -> Integers:
        return ~values if self.descending else values

    def of(self, codes: Codes) -> Integers:
        raise NotImplementedError


class _IdKey(_RowKey):
    """The ids of a variable."""

    def __init__(self, space: Space, var: str, descending: bool = False) -> None:
        super().__init__(var, descending)
        self.space = space

    def of(self, codes: Codes) -> Integers:
        return self.space.ranks(codes)


class _PropertyKey(_RowKey):
    """A property, nulls smallest. 64-bit integers need a second key, see ``nulls_first``."""

    def __init__(
        self, space: Space, expr: ir.PropertyOf, descending: bool, second: bool = False
    ) -> None:
        super().__init__(expr.var, descending)
        self.space, self.expr, self.second = space, expr, second
        self.by_code: Integers | None = None

    @property
    def is_lasting(self) -> bool:  # type: ignore[override]
        return not self.expr.type.scalar.is_text or self.by_code is not None

    def of(self, codes: Codes) -> Integers:
        from omnigraph.read.values.column import Column

        if self.by_code is None and is_worth_all(len(codes), self.space.size):
            self.by_code = self._keys(self.space.column(self.expr.property))
        if self.by_code is not None:
            return self.by_code[codes]
        return self._keys(Column(self.expr.type, self.space.values(self.expr.property, codes)))

    def _keys(self, column: Column) -> Integers:
        if self.expr.type.scalar.is_text:
            return column.codes
        first, second = nulls_first(sortable(column.numbers), column.valid)
        return second if self.second else first


class _Places(_RowKey):
    """The place of each entity of the ranked variable, which is also a sort key."""

    is_lasting = True

    def __init__(self, plan: ir.ReadPlan, ranked: Ranked) -> None:
        assert plan.ranking is not None
        arm = plan.ranking.first if isinstance(plan.ranking, ir.Rrf) else plan.ranking
        super().__init__(arm.field.var, descending=False)
        self.ranked = ranked
        self._order = np.argsort(ranked.codes)
        self._codes = ranked.codes[self._order]

    @property
    def key(self) -> _RowKey:
        return self

    def found(self, codes: Codes) -> Counts:
        """The position of each entity in the ranking; -1 where it is not in it."""
        if not len(self._codes):
            return np.full(len(codes), -1)
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[at] == codes, self._order[at], -1)

    def of(self, codes: Codes) -> Integers:
        return self.ranked.places[self.found(codes)]

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
