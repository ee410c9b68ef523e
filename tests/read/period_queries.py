"""Random graphs whose types have periods, and random queries that say when things must hold.

The queries are those of ``extended_queries`` with `as of`, `during` and `ever` after their matches, bindings and
traversals, also with moments that come from the row.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any

from omnigraph.lang.query import ir
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.query.syntax.printer import render
from omnigraph.types import PropType, Scalar, to_json
from tests.oracle.graph import Graph
from tests.read import extended_queries

DAY = 86_400_000
DATETIME = PropType(Scalar.DATETIME)
PERIODS = {
    "Person": ("begun", "ended", Scalar.DATE),
    "City": ("opened", "closed", Scalar.DATETIME),
    "Knows": ("kb", "ke", Scalar.DATE),
    "Follows": ("fb", "fe", Scalar.DATETIME),
    "LivesIn": ("lb", "le", Scalar.DATETIME),
}
"""Both bounds of each type that may have a period, and their kind."""
MOMENTS = [
    day * DAY + more for day in (-2, -1, 0, 1, 10_000, 11_016) for more in (0, 0, 1_000, 43_200_000)
]
"""Around the dates that ``extended_queries`` uses; most of them are midnights, so that bounds touch."""


def schema(rng: random.Random) -> str:
    """The schema of ``extended_queries`` with all bounds, of which some are periods."""
    text = extended_queries.SCHEMA
    for name, (since, until, kind) in PERIODS.items():
        bounds = f"{since}: {kind.value}?  {until}: {kind.value}?"
        valid = f"  @valid({since}, {until})" if rng.random() < 0.6 else ""
        kind_of = "node" if name in ("Person", "City") else "edge"
        head, _, rest = text.partition(f"{kind_of} {name}")
        before, brace, after = rest.partition("{")
        text = f"{head}{kind_of} {name}{before}{brace} {bounds}{valid} {after}"
    return text


def plain_graph(rng: random.Random, **sizes: int) -> Graph:
    """A graph of ``extended_queries`` with periods: open ones, empty ones, and some that touch."""
    graph = extended_queries.plain_graph(rng, **sizes)
    for name in ("Person", "City"):
        graph.nodes[name] = {
            node: {**values, **_period(rng, name)} for node, values in graph.nodes[name].items()
        }
    for name in ("Knows", "Follows", "LivesIn"):
        graph.edges[name] = [
            (edge, src, dst, {**values, **_period(rng, name)})
            for edge, src, dst, values in graph.edges[name]
        ]
    return graph


def _period(rng: random.Random, type_name: str) -> dict[str, int | None]:
    since, until, kind = PERIODS[type_name]
    bounds = sorted(rng.choice(MOMENTS) for _ in range(2))
    if kind is Scalar.DATE:
        bounds = [one // DAY for one in bounds]
    begun, ended = (None if rng.random() < 0.45 else bound for bound in bounds)
    if rng.random() < 0.1:
        ended = begun
    return {since: begun, until: ended}


def made(rng: random.Random, forms: Counter[str]) -> tuple[str, dict[str, object]]:
    """The text of one query and values for its parameters."""
    text, given = extended_queries.made(rng, forms, patterns=True)
    file = parse(text)
    queries = []
    for query in file.queries:
        told = _Told(rng, forms)
        body = query.body
        assert isinstance(body, ast.ReadBody)
        clauses = told.block(body.match, [])
        when = told.when([], 0.3)
        forms["when of a match"] += when is not None
        queries.append(replace(query, body=replace(body, match=clauses, when=when)))
    last = queries[-1]
    if rng.random() < 0.3:
        moment = rng.choice([None, rng.choice(MOMENTS)])
        body = replace(last.body, when=ast.AsOf(ast.Var("moment")))
        param = ast.Param("moment", PropType(Scalar.DATETIME, nullable=True))
        queries[-1] = replace(last, body=body, params=(*last.params, param))
        given = {**given, "moment": None if moment is None else to_json(DATETIME, moment)}
        forms["moment of a parameter"] += 1
    return render(ast.QueryFile(tuple(queries))), given


class _Told:
    """Says when the clauses of a query must hold."""

    def __init__(self, rng: random.Random, forms: Counter[str]) -> None:
        self.rng = rng
        self.forms = forms

    def block(self, clauses: tuple[ast.Clause, ...], people: list[str]) -> tuple[Any, ...]:
        """The clauses of a block; ``people`` are the variables whose dates can be moments."""
        return tuple(self.clause(clause, people) for clause in clauses)

    def clause(self, clause: ast.Clause, people: list[str]) -> ast.Clause:
        """A clause that may say when."""
        match clause:
            case ast.Binding():
                told = replace(clause, when=self.when(people, 0.2))
                self.forms["when of a binding"] += told.when is not None
                if clause.type_name == "Person":
                    people.append(clause.var)
                return told
            case ast.Traversal():
                told = replace(clause, when=self.when(people, 0.35))
                self.forms["when of a traversal"] += told.when is not None
                return told
            case ast.Not() | ast.Exists() | ast.Optional():
                return replace(clause, clauses=self.block(clause.clauses, list(people)))
            case _:
                return clause

    def when(self, people: list[str], share: float) -> ast.When | None:
        """A moment, a window or `ever`; nothing most of the time."""
        if self.rng.random() > share:
            return None
        kind = self.rng.random()
        if kind < 0.25:
            self.forms["ever"] += 1
            return ast.Ever()
        if kind < 0.7:
            self.forms["as of"] += 1
            return ast.AsOf(self.moment(people))
        self.forms["during"] += 1
        return ast.During(self.moment(people), self.moment(people))

    def moment(self, people: list[str]) -> ast.Expr:
        """A literal, or a date of the row."""
        kind = self.rng.random()
        if people and kind < 0.45:
            self.forms["moment of the row"] += 1
            return ast.PropRef(self.rng.choice(people), self.rng.choice(["seen", "born"]))
        if kind < 0.5:
            return ast.Now()
        moment = self.rng.choice(MOMENTS)
        if self.rng.random() < 0.5:
            return ast.Literal("date", to_json(PropType(Scalar.DATE), moment // DAY))
        return ast.Literal("datetime", to_json(DATETIME, moment))


def writes(rng: random.Random, schema: str) -> list[str]:
    """One to three statements that change when things hold, or what there is."""
    return [_write(rng, schema) for _ in range(rng.randint(1, 3))]


def _write(rng: random.Random, schema: str) -> str:
    name = rng.choice(["Person", "Knows", "Follows", "LivesIn"])
    since, until, kind = PERIODS[name]
    first, last = sorted(rng.choice(MOMENTS) // DAY for _ in range(2))
    bounds = [f'{kind.value.lower()}("{_spelled(kind, day)}")' for day in (first, last)]
    one = rng.choice([f"{since} < {bounds[0]}", f"{until} is null", f"{since} is null"])
    other = f"{since} is null or {since} <= {bounds[1]}"
    match rng.choice(["end", "end", "until", "since", "delete", "insert"]):
        case "end" if f"@valid({since}, {until})" in schema:
            return f"end {name} where {one} at {bounds[1]}"
        case "since":
            return f"update {name} set {{ {since}: null }} where {one}"
        case "delete" if name != "Person":
            return f"delete {name} where {until} < {bounds[0]}"
        case "insert" if name in ("Knows", "Follows"):
            ends = f"from: $a, to: $b, {since}: {bounds[0]}, {until}: {bounds[1]}"
            return f"match {{ $a: Person  $b: Person }} ever insert {name} {{ {ends} }} "
        case _:
            return f"update {name} set {{ {until}: {bounds[1]} }} where {other}"


def _spelled(kind: Scalar, day: int) -> object:
    stored = day if kind is Scalar.DATE else day * DAY
    return to_json(PropType(kind), stored)


# ------------------------------------------------------------------ written out


class CannotBeWritten(Exception):
    """The language has no condition that says the same."""


def written_out(tree: Any, as_of: int | str) -> Any:
    """A plan in which every period is a condition on its bounds, over all that is stored."""
    if isinstance(tree, ir.Holds):
        return _condition(tree, as_of)
    if isinstance(tree, ir.Expand):
        is_edge_named = tree.edge_var is not None
        if tree.between is not None or (
            not is_edge_named and tree.edge_filter is not None and _is_per_row(tree.edge_filter)
        ):
            raise CannotBeWritten
    if isinstance(tree, tuple):
        return tuple(written_out(part, as_of) for part in tree)
    if is_dataclass(tree) and not isinstance(tree, type) and type(tree).__module__ == ir.__name__:
        changed = {one.name: written_out(getattr(tree, one.name), as_of) for one in fields(tree)}
        return replace(tree, **changed)
    return tree


def _is_per_row(condition: ir.Condition) -> bool:
    parts = condition.parts if isinstance(condition, ir.And) else (condition,)
    return any(isinstance(part, ir.Holds) and ir.is_per_row(part.when) for part in parts)


def _condition(holds: ir.Holds, as_of: int | str) -> ir.Condition:
    if holds.by_type:
        raise CannotBeWritten
    if holds.when == ir.AT_THE_MOMENT:
        if as_of == ir.EVER:
            return ir.And(())
        start: ir.Expr = ir.Const(as_of, DATETIME)
        end = None
    else:
        start, *others = map(_instant, ir.moments_of(holds.when))
        end = others[0] if others else None
    [period] = holds.periods
    since, until = _instant(period.since), _instant(period.until)
    begun: ir.Condition = ir.Compare(since, "<=", start)
    lasting: tuple[ir.Condition, ...] = ()
    if end is not None:
        begun = ir.Compare(since, "<", end)
        lasting = (
            ir.Compare(start, "<", end),
            ir.Not(ir.Compare(since, ">=", until)),
        )
    return ir.And(
        (
            ir.Not(ir.IsNull(start)),
            ir.Or((ir.IsNull(since), begun)),
            ir.Or((ir.IsNull(until), ir.Compare(until, ">", start))),
            *lasting,
        )
    )


def _instant(expr: ir.Expr) -> ir.Expr:
    kind = getattr(expr, "type", DATETIME)
    if isinstance(kind, PropType) and kind.scalar is Scalar.DATE:
        return ir.Apply("datetime", (expr,), DATETIME.as_nullable())
    return expr
