"""The oracle: the read IR executed the slow and obvious way, by nested loops over plain rows.

Every other executor is judged against this one, so it takes nothing from them: no Lance, no numpy,
no indexes, no shortcuts. Where the specification leaves the order open, rows come out by id.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.query.ir import Direction
from omnigraph.types import Scalar, to_json
from tests.oracle.analysis import analyse, bm25_scores, mock_embedding, round_f32, within_edits
from tests.oracle.graph import Embed, Graph, Values

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "member": operator.contains,
    "substring": operator.contains,
    "prefix": bytes.startswith,
}


class RefusedError(Exception):
    """The plan is sound but a parameter or a stored value makes it impossible to answer."""


@dataclass(frozen=True)
class Entity:
    """A node or edge that a variable stands for."""

    id: str
    values: Values


Row = Mapping[str, Entity]
Key = Callable[[Any], Any]


def run(
    plan: ir.ReadPlan,
    graph: Graph,
    params: Mapping[str, Any],
    now_ms: int,
    embed: Embed = mock_embedding,
) -> list[dict[str, Any]]:
    """The answer of a read plan: one dict of stored values per row, keyed by column name."""
    return _Run(plan, graph, {**params, ir.NOW_PARAM: now_ms}, embed).answer()


def to_json_rows(plan: ir.ReadPlan, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `run` as JSON values."""
    return [{c.name: to_json(c.type, row[c.name]) for c in plan.columns} for row in rows]


class _Run:
    def __init__(
        self, plan: ir.ReadPlan, graph: Graph, params: Mapping[str, Any], embed: Embed
    ) -> None:
        self.plan, self.graph, self.params, self.embed = plan, graph, params, embed
        self.scores: dict[str, float] = {}

    def answer(self) -> list[dict[str, Any]]:
        rows = self.match(self.plan.steps, [{}])
        assert self.plan.ranking is None or not self.plan.is_aggregate
        answer = self.grouped(rows) if self.plan.is_aggregate else self.ordered(rows)
        return answer if self.plan.limit is None else answer[: self.plan.limit]

    def match(self, steps: Iterable[ir.Step], rows: list[Row]) -> list[Row]:
        for step in steps:
            rows = [found for row in rows for found in self.step(step, row)]
        return rows

    def step(self, step: ir.Step, row: Row) -> Iterator[Row]:
        match step:
            case ir.NodeScan():
                for node, values in self.graph.nodes[step.type_name].items():
                    yield from self.bound(row, {step.var: Entity(node, values)}, step.filters)
            case ir.Expand():
                nodes = self.graph.nodes[step.dst_type]
                for node, edge in self.reached(step, row[step.src].id):
                    new = {step.dst: Entity(node, nodes[node])}
                    if step.edge_var is not None and edge is not None:
                        new[step.edge_var] = edge
                    yield from self.bound(row, new, step.dst_filters)
            case ir.Filter():
                if self.satisfied(step.predicate, row):
                    yield row
            case ir.AntiJoin():
                if not self.match(step.inner, [row]):
                    yield row

    def bound(
        self, row: Row, new: dict[str, Entity], filters: Iterable[ir.Predicate]
    ) -> Iterator[Row]:
        assert not row.keys() & new.keys(), f"{list(new)} is bound twice"
        extended = {**row, **new}
        if all(self.satisfied(predicate, extended) for predicate in filters):
            yield extended

    def reached(self, step: ir.Expand, start: str) -> list[tuple[str, Entity | None]]:
        if step.edge_var is not None:
            return list(self.neighbours(step, start))
        if step.inverse:
            flipped = {Direction.IN: Direction.OUT, Direction.OUT: Direction.IN}
            forth = replace(
                step, inverse=False, direction=flipped.get(step.direction, step.direction)
            )
            nodes = self.graph.nodes[step.dst_type]
            return [(node, None) for node in nodes if (start, None) in self.reached(forth, node)]
        if step.src_type == step.dst_type:
            return [(node, None) for node in self.breadth_first(step, start)]
        near = dict.fromkeys(node for node, _ in self.neighbours(step, start))
        return [(node, None) for node in near] if step.min_hops == 1 else []

    def neighbours(self, step: ir.Expand, node: str) -> Iterator[tuple[str, Entity]]:
        """Every stored edge at a node with the node at its other end, a self-loop once."""
        for edge, src, dst, values in self.graph.edges[step.edge_type]:
            along = step.direction is not Direction.IN and src == node
            against = step.direction is not Direction.OUT and dst == node
            if along or against:
                yield (dst if along else src), Entity(edge, values)

    def breadth_first(self, step: ir.Expand, start: str) -> list[str]:
        visited, frontier = {start}, [start]
        emitted: list[str] = []
        for hop in range(1, step.max_hops + 1):
            following: list[str] = []
            for node in frontier:
                for near, _ in self.neighbours(step, node):
                    is_new, is_loop = near not in visited, near == node
                    if is_new:
                        visited.add(near)
                        following.append(near)
                    if (is_new or is_loop) and hop >= step.min_hops and near not in emitted:
                        emitted.append(near)
            frontier = following
        return emitted

    def value(self, operand: ir.Operand, row: Row) -> Any:
        match operand:
            case ir.Const():
                return operand.value
            case ir.ParamRef():
                return self.params[operand.name]
            case ir.PropertyOf():
                return row[operand.var].values[operand.property]
            case ir.NodeId():
                return row[operand.var].id

    def satisfied(self, predicate: ir.Predicate, row: Row) -> bool:
        if isinstance(predicate, ir.TextMatch):
            return self.text_matches(predicate, row)
        left, right = self.value(predicate.left, row), self.value(predicate.right, row)
        if left is None or right is None:
            return False
        left = _as_compared(predicate.left, left, predicate.right)
        right = _as_compared(predicate.right, right, predicate.left)
        return bool(COMPARE[predicate.op](left, right))

    def text_matches(self, predicate: ir.TextMatch, row: Row) -> bool:
        text, query = self.value(predicate.field, row), self.value(predicate.query, row)
        edits = 2 if predicate.function == "fuzzy" else 0
        if predicate.max_edits is not None:
            edits = self.value(predicate.max_edits, row)
        if text is None or query is None or edits is None:
            return False
        terms, wanted = analyse(text), analyse(query)
        return any(within_edits(want, term, edits) for want in wanted for term in terms)

    def rank(self, ranking: ir.Ranking, rows: list[Row]) -> dict[str, Any]:
        """A sort key, best first, for every ranked entity. Leaves the scores behind."""
        match ranking:
            case ir.Nearest():
                self.scores = self.distances(ranking, rows)
                return dict(self.scores)
            case ir.Bm25():
                self.scores = self.relevances(ranking, rows)
                return {node: -score for node, score in self.scores.items()}
            case ir.Rrf():
                return self.fuse(ranking, rows)

    def distances(self, ranking: ir.Nearest, rows: list[Row]) -> dict[str, float]:
        """Squared L2 as float32, which is what Lance calls the distance."""
        query = self.value(ranking.query, {})
        if isinstance(query, str):
            query = self.embed(query, ranking.field.type.dim or 0)
        found = {}
        for row in rows if query is not None else []:
            vector = self.value(ranking.field, row)
            if vector is not None:
                pairs = zip(vector, map(round_f32, query), strict=True)
                square = sum((a - b) ** 2 for a, b in pairs)
                found[row[ranking.field.var].id] = round_f32(square)
        return found

    def relevances(self, ranking: ir.Bm25, rows: list[Row]) -> dict[str, float]:
        """Relevance within the whole table, for the entities of the match."""
        query = self.value(ranking.query, {})
        var, name = ranking.field.var, ranking.field.property
        type_name = next(v.type_name for v in self.plan.variables if v.name == var)
        nodes = self.graph.nodes[type_name].items()
        texts = {node: values[name] for node, values in nodes if values[name] is not None}
        scores = {} if query is None else bm25_scores(texts, query)
        matched = {row[var].id for row in rows}
        return {node: score for node, score in scores.items() if node in matched}

    def fuse(self, ranking: ir.Rrf, rows: list[Row]) -> dict[str, Any]:
        k = self.value(ranking.k, {})
        if k is None or k <= 0:
            raise RefusedError(f"rrf needs a positive k, got {k}")
        arms = []
        for arm in (ranking.first, ranking.second):
            order = self.rank(arm, rows)
            best = sorted(order, key=lambda node: (order[node], _sortable(node)))
            arms.append({node: place for place, node in enumerate(best[: self.plan.limit], 1)})
        nodes = {node for arm in arms for node in arm}
        self.scores = {n: sum(1 / (k + arm[n]) for arm in arms if n in arm) for n in nodes}
        return {n: (-self.scores[n], *(arm.get(n, math.inf) for arm in arms)) for n in nodes}

    def output(self, expr: ir.Output, row: Row) -> Any:
        if isinstance(expr, ir.Score):
            assert self.plan.ranking is not None
            return self.scores[row[_ranked_variable(self.plan.ranking)].id]
        assert not isinstance(expr, ir.Aggregate)
        return self.value(expr, row)

    def ordered(self, rows: list[Row]) -> list[dict[str, Any]]:
        ranking = self.plan.ranking
        ranks = {} if ranking is None else self.rank(ranking, rows)
        var = None if ranking is None else _ranked_variable(ranking)
        keys = [(self.sort_key(key), key.descending) for key in self.plan.order]
        named = sorted(variable.name for variable in self.plan.variables)
        keys += [
            (lambda row, name=name: row[name].id, False)
            for name in ([var, *named] if var else named)
        ]
        if var is not None:
            rows = [row for row in rows if row[var].id in ranks]
        rows = _sorted(rows, keys)
        if var is not None:
            # Tied entities follow their best row, and the rows of one entity stay together.
            firsts: dict[str, int] = {}
            for at, row in enumerate(rows):
                firsts.setdefault(row[var].id, at)
            rows = sorted(rows, key=lambda row: (ranks[row[var].id], firsts[row[var].id]))
        return [{c.name: self.output(c.expr, row) for c in self.plan.columns} for row in rows]

    def sort_key(self, key: ir.SortKey) -> Key:
        expr = _column(self.plan, key).expr if key.expr is None else key.expr
        return lambda row: self.output(expr, row)

    def grouped(self, rows: list[Row]) -> list[dict[str, Any]]:
        columns = self.plan.columns
        keys = [c for c in columns if not isinstance(c.expr, ir.Aggregate)]
        groups: dict[Any, list[Row]] = {} if keys else {(): []}
        for row in rows:
            key = tuple(_sortable(self.output(c.expr, row)) for c in keys)
            groups.setdefault(key, []).append(row)
        answer = [
            {
                c.name: self.aggregate(c.expr, group)
                if isinstance(c.expr, ir.Aggregate)
                else self.output(c.expr, group[0])
                for c in columns
            }
            for group in groups.values()
        ]
        order = [(_column(self.plan, key).name, key.descending) for key in self.plan.order]
        order += [(c.name, False) for c in keys]
        return _sorted(answer, [(operator.itemgetter(name), desc) for name, desc in order])

    def aggregate(self, expr: ir.Aggregate, group: list[Row]) -> Any:
        present = [v for row in group if (v := self.value(expr.arg, row)) is not None]
        match expr.function:
            case "count":
                return len(present)
            case "sum" if expr.type.is_integer:
                total = sum(present) if present else None
                if total is not None and not -(2**63) <= total < 2**63:
                    raise RefusedError(f"overflow: a sum is {total}")
                return total
            case "sum" | "avg":
                total = sum(map(float, present))
                part = len(present) if expr.function == "avg" else 1
                return total / part if present else None
            case _:
                best = min if expr.function == "min" else max
                return best(present, key=_sortable, default=None)


def _as_compared(operand: ir.Operand, value: Any, other: ir.Operand) -> Any:
    """Text as its UTF-8 bytes; a float literal or parameter against an F32 column as a float32."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [_as_compared(operand, item, other) for item in value if item is not None]
    is_given = isinstance(operand, ir.Const | ir.ParamRef) and operand.type.scalar.is_float
    is_f32 = isinstance(other, ir.PropertyOf) and other.type.scalar is Scalar.F32
    return round_f32(value) if is_given and is_f32 else value


def _sortable(value: Any) -> Any:
    """A value under the total order of the language: null first, text by UTF-8 bytes."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, list):
        return (1, tuple(_sortable(item) for item in value))
    return (1, value)


def _sorted(rows: list[Any], keys: Iterable[tuple[Key, bool]]) -> list[Any]:
    """Rows by several keys, the first one leading; each may be descending."""
    for key, descending in reversed(list(keys)):
        rows = sorted(rows, key=lambda row: _sortable(key(row)), reverse=descending)
    return rows


def _column(plan: ir.ReadPlan, key: ir.SortKey) -> ir.Column:
    assert key.column is not None, "a sort key has neither an expression nor a column"
    return plan.columns[key.column]


def _ranked_variable(ranking: ir.Ranking) -> str:
    first = ranking.first if isinstance(ranking, ir.Rrf) else ranking
    return first.field.var
