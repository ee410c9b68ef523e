"""The oracle: the read IR executed the slow and obvious way, by nested loops over plain rows.

Every other executor is judged against this one, so it takes nothing from them: no Lance, no numpy,
no indexes, no shortcuts. Where the specification leaves the order open, rows come out by id.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.types import TEXT, PropType, Scalar, to_json
from tests.oracle import functions
from tests.oracle.analysis import (
    analyse,
    bm25_scores,
    mock_embedding,
    round_f32,
    shares_term_or_phrase,
    within_edits,
)
from tests.oracle.bound import Bound, Entity, Path, Place, Record, Row
from tests.oracle.graph import Embed, Graph
from tests.oracle.searches import RefusedError, apart, reached, refuse_weights, weighed_steps

__all__ = ["Entity", "RefusedError", "run", "to_json_rows"]

BOOL = PropType(Scalar.BOOL)
I64 = PropType(Scalar.I64)

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "member": lambda items, item: any(each == item for each in items),
    "substring": operator.contains,
    "prefix": bytes.startswith,
    "suffix": bytes.endswith,
}

Key = Callable[[Any], Any]


def run(
    plan: ir.ReadPlan,
    graph: Graph,
    params: Mapping[str, Any],
    now_ms: int,
    embed: Embed = mock_embedding,
    as_of: int | str | None = None,
) -> list[dict[str, Any]]:
    """The answer of a read plan: one dict of stored values per row, keyed by column name.

    ``as_of`` is the moment nobody names: milliseconds, or "ever"; now by default.
    """
    clock = {ir.NOW_PARAM: now_ms, ir.AS_OF_PARAM: now_ms if as_of is None else as_of}
    return Run(plan, graph, {**params, **clock}, embed).answer()


def to_json_rows(plan: ir.ReadPlan, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `run` as JSON values."""
    return [{c.name: _json(c.type, row[c.name]) for c in plan.columns} for row in rows]


def _json(kind: ir.ValueType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, ir.ObjectType):
        return {name: _json(inner, value[name]) for name, inner in kind.fields}
    if isinstance(kind, ir.ObjectList):
        return [_json(kind.item, item) for item in value]
    return to_json(kind, value)


class Run:
    """One run of a plan."""

    def __init__(
        self, plan: ir.ReadPlan, graph: Graph, params: Mapping[str, Any], embed: Embed
    ) -> None:
        self.plan, self.graph, self.params, self.embed = plan, graph, params, embed
        self.scores: dict[str, float] = {}

    def answer(self) -> list[dict[str, Any]]:
        """All of it: match, output, order, limit."""
        for step in weighed_steps(self.plan):
            anytime = replace(step, edge_filter=at_any_moment(step.edge_filter))
            refuse_weights(self.graph, anytime, partial(self.passes, anytime, {}))
        rows = self.match(self.plan.steps, [{}])
        assert self.plan.ranking is None or not self.plan.is_aggregate
        if self.plan.is_aggregate or self.plan.distinct:
            answer = self.grouped(rows)
        else:
            answer = self.ordered(rows)
        first = self.count(self.plan.offset) or 0
        limit = self.count(self.plan.limit)
        return answer[first:] if limit is None else answer[first : first + limit]

    def count(self, given: ir.Count | None) -> int | None:
        """What `limit` or `offset` says."""
        if not isinstance(given, ir.ParamRef):
            return given
        value: int = self.params[given.name]
        if value < 0:
            raise RefusedError(f"{given.name} is negative")
        return value

    # -- the match

    def match(self, steps: Iterable[ir.Step], rows: list[Row]) -> list[Row]:
        """The rows that the steps make of rows."""
        for step in steps:
            rows = [found for row in rows for found in self.step(step, row)]
        return rows

    def step(self, step: ir.Step, row: Row) -> Iterator[Row]:
        """The rows that one step makes of a row."""
        match step:
            case ir.NodeScan():
                for node, values in self.graph.nodes[step.type_name].items():
                    new = Entity(node, values, step.type_name)
                    yield from self.bound(row, {step.var: new}, step.filters)
            case ir.Expand():
                yield from self.expanded(step, row)
            case ir.Rows():
                args = [self.value(arg, Place(row)) for arg in step.args]
                names = [param.name for param in step.plan.params]
                given = dict.fromkeys(names) | dict(zip(names, args, strict=False))
                clock = (ir.NOW_PARAM, ir.AS_OF_PARAM)
                params = {**given, **{name: self.params[name] for name in clock}}
                answer = Run(step.plan, self.graph, params, self.embed).answer()
                yield from self.each(row, step.var, answer)
            case ir.Elements():
                items = self.params[step.param.name] or []
                is_plain = isinstance(step.param, ir.ParamRef)
                yield from self.each(
                    row, step.var, [{ir.ELEMENT: item} if is_plain else item for item in items]
                )
            case ir.Unroll():
                items = self.value(step.list, Place(row)) or []
                yield from self.each(row, step.var, [{ir.ELEMENT: item} for item in items])
            case ir.Filter():
                if self.satisfied(step.predicate, Place(row)):
                    yield row
            case ir.SemiJoin():
                if self.match(step.inner, [row]):
                    yield row
            case ir.AntiJoin():
                if not self.match(step.inner, [row]):
                    yield row
            case ir.LeftJoin():
                matches = self.match(step.inner, [row])
                yield from matches or [{**row, **dict.fromkeys(step.introduced)}]

    def each(self, row: Row, var: str, records: list[dict[str, Any]]) -> Iterator[Row]:
        """The row once for every record."""
        for position, values in enumerate(records):
            yield from self.bound(row, {var: Record(position, values)}, ())

    def expanded(self, step: ir.Expand, row: Row) -> Iterator[Row]:
        """The row once for everything that is reached."""
        start = row[step.src]
        if start is None:
            return
        assert isinstance(start, Entity)

        passes, through = partial(self.passes, step, row), partial(self.leads_on, step, row)
        for node, by in reached(self.graph, step, start.id, passes, through):
            new: dict[str, Bound] = {step.dst: node}
            if step.edge_var is not None:
                new[step.edge_var] = by
            if step.path_var is not None:
                new[step.path_var] = by
            yield from self.bound(row, new, step.dst_filters)

    def passes(self, step: ir.Expand, row: Row, edge: Entity) -> bool:
        """Whether an edge satisfies the condition of an expansion."""
        here = Place({**row, ir.EDGE: edge})
        return step.edge_filter is None or self.satisfied(step.edge_filter, here)

    def leads_on(self, step: ir.Expand, row: Row, node: Entity) -> bool:
        """Whether a way may lead through a node."""
        here = Place({**row, ir.BETWEEN: node})
        return step.between is None or self.satisfied(step.between, here)

    def bound(
        self, row: Row, new: Mapping[str, Bound], filters: Iterable[ir.Condition]
    ) -> Iterator[Row]:
        """The row with more variables, if the filters let it pass."""
        assert not row.keys() & new.keys(), f"{list(new)} is bound twice"
        extended = {**row, **new}
        if all(self.satisfied(condition, Place(extended)) for condition in filters):
            yield extended

    # -- expressions

    def value(self, expr: ir.Output, at: Place) -> Any:
        """The value of an expression, None where it has none."""
        match expr:
            case ir.Const():
                return expr.value
            case ir.ParamRef():
                return self.params[expr.name]
            case ir.ColumnValue():
                return at.columns[expr.column]
            case ir.Truth():
                return self.satisfied(expr.condition, at)
            case ir.Apply():
                types = [type_of(arg) for arg in expr.args]
                return functions.applied(
                    expr.function, types, [self.value(arg, at) for arg in expr.args]
                )
            case ir.Aggregate():
                return self.aggregate(expr, at.group)
            case ir.Score():
                assert self.plan.ranking is not None
                ranked = at.row[_ranked_variable(self.plan.ranking)]
                assert isinstance(ranked, Entity)
                return self.scores[ranked.id]
            case ir.PropertyOf():
                return _field(at.row[expr.var], expr.property)
            case ir.RowNode():
                return _field(at.row[expr.var], expr.column)
            case _:
                return None if at.row[expr.var] is None else _of_variable(expr, at.row[expr.var])

    def satisfied(self, condition: ir.Condition, at: Place) -> bool:
        """Whether a condition holds: yes or no, there is no third."""
        match condition:
            case ir.And():
                return all(self.satisfied(part, at) for part in condition.parts)
            case ir.Or():
                return any(self.satisfied(part, at) for part in condition.parts)
            case ir.Not():
                return not self.satisfied(condition.part, at)
            case ir.Exists():
                return bool(self.match(condition.inner, [at.row]))
            case ir.IsNull():
                return self.value(condition.operand, at) is None
            case ir.IsTrue():
                return self.value(condition.operand, at) is True
            case ir.TextMatch():
                return self.text_matches(condition, at)
            case ir.Compare():
                return self.compared(condition, at)
            case ir.Holds():
                return self.holds(condition, at)

    def holds(self, condition: ir.Holds, at: Place) -> bool:
        """Whether a node or an edge holds at the moment, or at some moment of the window."""
        entity = at.row[condition.var]
        assert isinstance(entity, Entity)
        of_type = [one for one in condition.periods if one.type_name == entity.type_name]
        if not condition.by_type:
            of_type = list(condition.periods)
        moments = [self.moment(one, at) for one in ir.moments_of(condition.when)]
        if not of_type or moments == ["ever"]:
            return True
        if None in moments:
            return False
        since, until = (self.moment(one, at) for one in (of_type[0].since, of_type[0].until))
        begin = -math.inf if since is None else since
        end = math.inf if until is None else until
        if len(moments) == 1:
            return begin <= moments[0] < end
        # Two half-open intervals share a moment when the later beginning comes before the earlier end.
        return max(begin, moments[0]) < min(end, moments[1])

    def moment(self, expr: ir.Expr, at: Place) -> Any:
        """The milliseconds of a Date or a DateTime."""
        found, kind = self.value(expr, at), type_of(expr)
        is_date = isinstance(kind, PropType) and kind.scalar is Scalar.DATE
        return found * 86_400_000 if is_date and found is not None else found

    def compared(self, compare: ir.Compare, at: Place) -> bool:
        """Whether two values stand so to each other; null stands to nothing."""
        left, right = self.value(compare.left, at), self.value(compare.right, at)
        if left is None or right is None:
            return False
        left = _as_compared(compare.left, left, compare.right)
        right = _as_compared(compare.right, right, compare.left)
        return bool(COMPARE[compare.op](left, right))

    def text_matches(self, predicate: ir.TextMatch, at: Place) -> bool:
        """Whether a text shares a term or a phrase with the question."""
        text, query = self.value(predicate.field, at), self.value(predicate.query, at)
        edits = 2 if predicate.function == "fuzzy" else 0
        if predicate.max_edits is not None:
            edits = self.value(predicate.max_edits, at)
        if text is None or query is None or edits is None:
            return False
        if predicate.function != "fuzzy":
            return shares_term_or_phrase(text, query)
        terms, wanted = analyse(text), analyse(query)
        return any(within_edits(want, term, edits) for want in wanted for term in terms)

    # -- rankings

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
        """By the metric, as float32; a vector without a direction has no distance under cosine."""
        query = self.value(ranking.query, Place({}))
        if isinstance(query, str):
            query = self.embed(query, ranking.field.type.dim or 0)
        found = {}
        for row in rows if query is not None else []:
            vector = self.value(ranking.field, Place(row))
            if vector is not None and (ranking.metric != "cosine" or any(vector)):
                away = apart(ranking.metric, vector, [round_f32(one) for one in query])
                found[_id(row[ranking.field.var])] = round_f32(away)
        return found

    def relevances(self, ranking: ir.Bm25, rows: list[Row]) -> dict[str, float]:
        """Relevance within the whole table, for the entities of the match."""
        query = self.value(ranking.query, Place({}))
        var, name = ranking.field.var, ranking.field.property
        type_name = next(v.type_name for v in self.plan.variables if v.name == var)
        nodes = self.graph.nodes[type_name].items()
        texts = {node: values[name] for node, values in nodes if values[name] is not None}
        scores = {} if query is None else bm25_scores(texts, query)
        matched = {_id(row[var]) for row in rows}
        return {
            node: score
            for node, score in scores.items()
            if node in matched and shares_term_or_phrase(texts[node], query)
        }

    def fuse(self, ranking: ir.Rrf, rows: list[Row]) -> dict[str, Any]:
        """Reciprocal ranks summed over the arms, each as deep as the rows that are asked for."""
        k = self.value(ranking.k, Place({}))
        if k is None or k <= 0:
            raise RefusedError(f"rrf needs a positive k, got {k}")
        limit = self.count(self.plan.limit)
        depth = None if limit is None else limit + (self.count(self.plan.offset) or 0)
        arms = []
        for arm in ranking.arms:
            order = self.rank(arm, rows)
            best = sorted(order, key=lambda node: (order[node], _sortable(node)))
            arms.append({node: place for place, node in enumerate(best[:depth], 1)})
        nodes = {node for arm in arms for node in arm}
        # Sums of the same places are equal, whichever arms they are in.
        parts = {n: sorted(1 / (k + arm[n]) for arm in arms if n in arm) for n in nodes}
        self.scores = {n: sum(parts[n]) for n in nodes}
        return {n: (-self.scores[n], *(arm.get(n, math.inf) for arm in arms)) for n in nodes}

    # -- the output

    def ordered(self, rows: list[Row]) -> list[dict[str, Any]]:
        """One output row per row of the match, in the order asked for."""
        ranking = self.plan.ranking
        ranks = {} if ranking is None else self.rank(ranking, rows)
        var = None if ranking is None else _ranked_variable(ranking)
        keys = [(self.sort_key(key), key.descending) for key in self.plan.order]
        named = [v.name for v in sorted(self.plan.variables, key=lambda v: v.name)]
        keys += [
            (lambda row, name=name: _tie(row[name]), False)
            for name in ([var, *named] if var else named)
        ]
        if var is not None:
            rows = [row for row in rows if row[var] is not None and _id(row[var]) in ranks]
        rows = [row for row in rows if self.is_had(self.shown(row))]
        rows = _sorted(rows, keys)
        if var is not None:
            # Tied entities follow their best row, and the rows of one entity stay together.
            firsts: dict[str, int] = {}
            for at, row in enumerate(rows):
                firsts.setdefault(_id(row[var]), at)
            rows = sorted(rows, key=lambda row: (ranks[_id(row[var])], firsts[_id(row[var])]))
        return [self.named(self.shown(row)) for row in rows]

    def shown(self, row: Row) -> tuple[Any, ...]:
        """The values of all columns for a row."""
        return tuple(self.value(column.expr, Place(row)) for column in self.plan.columns)

    def named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """The values of all columns by name."""
        return {c.name: value for c, value in zip(self.plan.columns, values, strict=True)}

    def is_had(self, values: tuple[Any, ...]) -> bool:
        """Whether an output row satisfies all of `having`."""
        at = Place({}, columns=values)
        return all(self.satisfied(condition, at) for condition in self.plan.having)

    def sort_key(self, key: ir.SortKey) -> Key:
        """What a row is sorted by."""
        expr = _column(self.plan, key).expr if key.expr is None else key.expr
        return lambda row: self.value(expr, Place(row))

    def grouped(self, rows: list[Row]) -> list[dict[str, Any]]:
        """One output row per group; `distinct` groups by everything."""
        columns = self.plan.columns
        keys = [at for at, c in enumerate(columns) if not ir.has_aggregate(c.expr)]
        groups: dict[Any, list[Row]] = {} if keys else {(): []}
        for row in rows:
            key = tuple(_sortable(self.identity(columns[at].expr, row)) for at in keys)
            groups.setdefault(key, []).append(row)
        answer = []
        for key, group in groups.items():
            first = group[0] if group else {}
            known: list[Any] = [
                self.value(c.expr, Place(first)) if at in keys else None
                for at, c in enumerate(columns)
            ]
            whole = Place({}, tuple(group), tuple(known))
            values = tuple(
                known[at] if at in keys else self.value(c.expr, whole)
                for at, c in enumerate(columns)
            )
            if self.is_had(values):
                answer.append((dict(zip(keys, key, strict=True)), values))
        order = [(_at(self.plan, key), key.descending) for key in self.plan.order]
        order += [(at, False) for at in keys]

        def sortable(at: int) -> Key:
            return lambda entry: entry[0].get(at, entry[1][at])

        answer = _sorted(answer, [(sortable(at), descending) for at, descending in order])
        return [self.named(values) for _, values in answer]

    def identity(self, expr: ir.Output, row: Row) -> Any:
        """What rows are grouped by: a shape by its entity, anything else by its value."""
        if isinstance(expr, ir.Shape):
            bound = row[expr.var]
            if isinstance(bound, Record):
                return bound.position
            return None if bound is None else _id(bound)
        return self.value(expr, Place(row))

    def aggregate(self, expr: ir.Aggregate, group: tuple[Row, ...]) -> Any:
        """An aggregate over the rows of a group."""
        if expr.arg is None:
            return len(group)
        arg = expr.arg
        pairs = [(self.identity(arg, row), self.value(arg, Place(row))) for row in group]
        pairs = [pair for pair in pairs if pair[1] is not None]
        if expr.distinct:
            pairs = list({_sortable(identity): (identity, v) for identity, v in pairs}.values())
        present = [value for _, value in pairs]
        match expr.function:
            case "count":
                return len(present)
            case "collect":
                return [v for _, v in sorted(pairs, key=lambda pair: _sortable(pair[0]))]
            case "sum" if isinstance(expr.type, PropType) and expr.type.is_integer:
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


# ------------------------------------------------------------------ variables


def _id(bound: Bound) -> str:
    assert isinstance(bound, Entity)
    return bound.id


def _field(bound: Bound, name: str) -> Any:
    if bound is None:
        return None
    assert isinstance(bound, Entity | Record)
    return bound.values[name]


def _of_variable(expr: ir.Output, bound: Bound) -> Any:
    """What is asked of a variable that stands for something."""
    if isinstance(bound, Path):
        assert isinstance(expr, ir.PathValue)
        return _of_path(expr, bound)
    if isinstance(bound, Record):
        if isinstance(expr, ir.Shape):
            return bound.values[expr.column]
        assert isinstance(expr, ir.RowNumber)
        return bound.position
    assert isinstance(bound, Entity)
    if isinstance(expr, ir.TypeName):
        return bound.type_name
    if isinstance(expr, ir.Shape):
        assert isinstance(expr.type, ir.ObjectType)
        return {name: bound.values[name] for name, _ in expr.type.fields}
    assert isinstance(expr, ir.NodeId | ir.EdgeId)
    return bound.id


def _of_path(expr: ir.PathValue, path: Path) -> Any:
    if expr.what == "length":
        return len(path.edges)
    if expr.what == "cost":
        return path.cost
    if expr.what == "nodes":
        name = expr.property
        return [node.id if name is None else node.values[name] for node in path.nodes]
    if expr.what == "edges" and expr.property is not None:
        return [step.edge.values[expr.property] for step in path.edges]
    if expr.what == "edges":
        assert isinstance(expr.type, ir.ObjectList)
        return _edges(expr.type, path)
    assert isinstance(expr.type, ir.ObjectType)
    fields = dict(expr.type.fields)
    edges = fields["edges"]
    assert isinstance(edges, ir.ObjectList)
    whole = {"nodes": [node.id for node in path.nodes], "edges": _edges(edges, path)}
    whole |= {"length": len(path.edges), "cost": path.cost}
    return {name: whole[name] for name in fields}


def _edges(kind: ir.ObjectList, path: Path) -> list[dict[str, Any]]:
    told = []
    for step in path.edges:
        ends = {"type": step.edge.type_name, "from": step.src, "to": step.dst}
        told.append(
            {**ends, **{n: step.edge.values[n] for n, _ in kind.item.fields if n not in ends}}
        )
    return told


def _tie(bound: Bound) -> Any:
    """What a variable breaks ties by; a path breaks none."""
    if isinstance(bound, Entity):
        return bound.id
    return bound.position if isinstance(bound, Record) else None


def type_of(expr: ir.Expr | ir.Shape) -> PropType:
    """The type of an expression; for a path's nodes and edges only that it is a list matters."""
    match expr:
        case ir.Truth():
            return BOOL
        case ir.RowNumber():
            return I64
        case ir.NodeId() | ir.EdgeId() | ir.TypeName() | ir.RowNode():
            return TEXT
        case _:
            return expr.type if isinstance(expr.type, PropType) else TEXT


def at_any_moment(condition: ir.Condition | None) -> ir.Condition | None:
    """The condition on edges without those about moments of a row."""
    if isinstance(condition, ir.And):
        parts = (at_any_moment(part) for part in condition.parts)
        return ir.And(tuple(part for part in parts if part is not None))
    is_per_row = isinstance(condition, ir.Holds) and ir.is_per_row(condition.when)
    return None if is_per_row else condition


def _as_compared(operand: ir.Expr, value: Any, other: ir.Expr) -> Any:
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


def _at(plan: ir.ReadPlan, key: ir.SortKey) -> int:
    assert key.column is not None, "a sort key of a grouped answer is a column"
    return key.column


def _column(plan: ir.ReadPlan, key: ir.SortKey) -> ir.Column:
    assert key.column is not None, "a sort key has neither an expression nor a column"
    return plan.columns[key.column]


def _ranked_variable(ranking: ir.Ranking) -> str:
    first = ranking.arms[0] if isinstance(ranking, ir.Rrf) else ranking
    return first.field.var
