"""Groups by expressions, aggregates of expressions, lists, distinct values and `having`, judged by the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.thresholds import OutputThresholds
from omnigraph.types import PropType, Scalar
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError, Run, to_json_rows
from tests.read.space_helpers import ArrowSpace, codes_of
from tests.read.test_aggregate import (
    DATETIME,
    F64,
    I64,
    LIST,
    TEXT,
    close,
    entities,
    prop,
    spaces,
    table_of,
)
from tests.sampling import examples

BOOL, COUNT = PropType(Scalar.BOOL), PropType(Scalar.I64)
SHAPE = ir.ObjectType((("t", TEXT), ("i", I64), ("l", LIST)))
SHAPES = [ir.Shape(var, "node", SHAPE) for var in "xy"]


def joined(*args: ir.Expr) -> ir.Apply:
    return ir.Apply("concat", args, TEXT)


OF_ONE: list[ir.Expr] = [
    prop("x", "t"),
    prop("y", "i"),
    prop("y", "z"),
    ir.Apply("%", (prop("x", "i"), ir.Const(2, I64)), I64),
    ir.Apply("upper", (prop("y", "t"),), TEXT),
    ir.Truth(ir.Compare(prop("x", "i"), ">", ir.Const(0, I64))),
    ir.Apply("coalesce", (prop("x", "t"), ir.Const("none", TEXT)), TEXT),
]
OF_BOTH: list[ir.Expr] = [
    joined(prop("x", "t"), prop("y", "t")),
    ir.Apply("+", (prop("x", "i"), prop("y", "i")), I64),
    ir.Apply("coalesce", (prop("x", "z"), prop("y", "z")), DATETIME),
    ir.Apply("*", (prop("x", "f"), prop("y", "f")), F64),
    ir.Truth(ir.Compare(ir.NodeId("x"), "=", ir.NodeId("y"))),
]
IDS: list[ir.Expr] = [ir.NodeId("x"), ir.NodeId("y")]


def type_of(expr: ir.Output) -> ir.ValueType:
    match expr:
        case ir.NodeId():
            return TEXT
        case ir.Truth():
            return BOOL
    assert not isinstance(expr, ir.Score)
    return expr.type


def listed(kind: ir.ValueType) -> ir.ValueType:
    if isinstance(kind, ir.ObjectType):
        return ir.ObjectList(kind)
    assert isinstance(kind, PropType)
    return replace(kind.as_nullable(False), is_list=True)


@st.composite
def aggregates(draw: st.DrawFn) -> ir.Aggregate:
    function = draw(
        st.sampled_from(["*", "count", "collect", "collect", "sum", "avg", "min", "max"])
    )
    if function == "*":
        return ir.Aggregate("count", None, COUNT)
    if function in {"count", "collect"}:
        constants: list[ir.Expr] = [ir.ParamRef("p", I64), ir.Const(7, I64)]
        arg = draw(st.sampled_from([*OF_ONE, *OF_BOTH, *IDS, *constants, *SHAPES]))
        result = COUNT if function == "count" else listed(type_of(arg))
        return ir.Aggregate(function, arg, result, distinct=draw(st.booleans()))
    scalars = [one for one in (*OF_ONE, *OF_BOTH) if not isinstance(one, ir.Truth)]
    fits = [
        one
        for one in scalars
        if (kind := type_of(one)).is_numeric or (function in {"min", "max"} and kind.nullable)
    ]
    arg = draw(st.sampled_from(fits))
    kind = type_of(arg)
    assert isinstance(kind, PropType)
    if function == "sum":
        return ir.Aggregate("sum", arg, I64 if kind.is_integer else F64)
    return ir.Aggregate(function, arg, F64 if function == "avg" else kind)


@st.composite
def plans(draw: st.DrawFn) -> ir.ReadPlan:
    keys = draw(st.lists(st.sampled_from([*OF_ONE, *OF_BOTH, *IDS, *SHAPES]), max_size=3))
    distinct = draw(st.booleans())
    exprs: list[ir.Output] = list(keys)
    if distinct:
        exprs += draw(st.lists(st.just(ir.Const(1, I64)), min_size=not keys, max_size=1))
    else:
        exprs += draw(st.lists(aggregates(), min_size=1, max_size=2))
        numbers = [at for at, expr in enumerate(exprs) if type_of(expr) == I64]
        count = ir.Aggregate("count", None, COUNT)
        if numbers and isinstance(exprs[numbers[0]], ir.Apply | ir.PropertyOf):
            exprs.append(ir.Apply("-", (count, ir.ColumnValue(numbers[0], I64)), I64))
    columns = tuple(ir.Column(f"c{at}", one, type_of(one)) for at, one in enumerate(exprs))
    scalar = [
        at
        for at, column in enumerate(columns)
        if isinstance(column.type, PropType) and not column.type.is_list
    ]
    order, having = (), []
    if scalar:
        sort = st.builds(ir.SortKey, st.none(), st.sampled_from(scalar), descending=st.booleans())
        order = tuple(draw(st.lists(sort, max_size=2)))
        for at in draw(st.lists(st.sampled_from(scalar), max_size=1)):
            value = ir.ColumnValue(at, columns[at].type)
            having.append(draw(conditions(value)))
    limit, offset = draw(st.none() | st.integers(0, 4)), draw(st.none() | st.integers(0, 3))
    return ir.ReadPlan(
        "q", (), (), columns, (), None, order, limit, offset, distinct, tuple(having)
    )


def conditions(value: ir.ColumnValue) -> st.SearchStrategy[ir.Condition]:
    kind = value.type
    assert isinstance(kind, PropType)
    found: list[ir.Condition] = [ir.IsNull(value), ir.Not(ir.IsNull(value))]
    if kind.is_numeric:
        found.append(ir.Compare(value, ">", ir.Const(1, I64)))
    if kind.is_text:
        found.append(ir.Compare(value, "!=", ir.Const("a", TEXT)))
    return st.sampled_from(found)


@settings(deadline=None, max_examples=examples(150))
@given(st.data(), plans(), spaces(), spaces(), st.none() | st.integers(-3, 3))
def test_groups_are_those_of_the_oracle(
    data: st.DataObject, plan: ir.ReadPlan, x: ArrowSpace, y: ArrowSpace, param: int | None
):
    pairs = st.tuples(st.integers(0, x.size - 1), st.integers(0, y.size - 1), st.integers(0, 3))
    batches = data.draw(st.lists(st.lists(pairs, max_size=5), max_size=4))
    weighted = data.draw(st.booleans())
    ends = entities(x), entities(y)
    rows = [
        {"x": ends[0][a], "y": ends[1][b]}
        for batch in batches
        for a, b, weight in batch
        for _ in range(weight if weighted else 1)
    ]
    bindings = [
        Bindings(
            len(batch),
            {"x": codes_of(*(a for a, _, _ in batch)), "y": codes_of(*(b for _, b, _ in batch))},
            np.array([w for *_, w in batch], np.int64) if weighted else None,
        )
        for batch in batches
    ]
    params = {"p": param}
    thresholds = OutputThresholds(grouped_rows=data.draw(st.sampled_from([1, 4, 100])))
    run = Run(plan, Graph({}, {}), params, None)
    try:
        oracle = run.grouped(rows)
    except RefusedError:
        with pytest.raises(BadRequest, match=r"runtime error: overflow: sum\("):
            table_of(plan, {"x": x, "y": y}, params, bindings, thresholds)
        return
    first = plan.offset or 0
    oracle = oracle[first:] if plan.limit is None else oracle[first : first + plan.limit]
    table = table_of(plan, {"x": x, "y": y}, params, bindings, thresholds)
    assert table.schema.types == [column.type.arrow_type() for column in plan.columns]
    shown = [as_json(plan, table, at) for at in range(len(plan.columns))]
    actual = [list(row) for row in zip(*shown, strict=True)]
    expected = [list(row.values()) for row in to_json_rows(plan, oracle)]
    assert len(actual) == len(expected), (actual, expected)
    for one, other in zip(actual, expected, strict=True):
        assert all(map(same, one, other)), (actual, expected)


def as_json(plan: ir.ReadPlan, table: Any, at: int) -> list[Any]:
    from omnigraph.types import column_to_json

    return column_to_json(plan.columns[at].type, table.column(at))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return close(a, b)


CLUB = """
node Person { name: String @key  age: I32?  active: Bool }
edge Knows: Person -> Person
"""


@pytest.mark.parametrize(
    ("items", "rows"),
    [
        # Ann is 40, Ben 20 and Cat of no known age; Ann and Ben are active; Ann knows the other two.
        (
            "($p.age > 30) as old, if($p.age > 30, 0, count(*)) as n",
            [(False, 2), (True, 0)],
        ),
        (
            "exists { $p knows $_ } as has, (not exists { $p knows $_ } and count(*) > 1) as many",
            [(False, True), (True, False)],
        ),
        ("$p.active, if(not $p.active, count(*)) as n", [(False, 1), (True, None)]),
        (
            "$q, if($q is null, 0, count(*)) as n, text(count(*)) + id($q) as t",
            [(None, 0, None), ("ben", 1, "1ben"), ("cat", 1, "1cat")],
        ),
    ],
)
def test_a_key_beside_an_aggregate_may_be_asked_as_a_condition(tmp_path, items, rows):
    people = [("ann", 40, True), ("ben", 20, True), ("cat", None, False)]
    with og.init(tmp_path / "graph", CLUB) as graph:
        graph.load(
            [
                {"type": "Person", "data": {"name": name, "age": age, "active": active}}
                for name, age, active in people
            ]
            + [{"edge": "Knows", "from": "ann", "to": name} for name in ("ben", "cat")]
        )
        found = graph.query(
            f"match {{ $p: Person  optional {{ $p knows $q }} }} return {{ {items} }}"
        )
        assert [tuple(row.values()) for row in found.rows] == rows
