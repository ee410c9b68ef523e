"""Grouped output, judged by the oracle on the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import BadRequest, ResourceLimit
from omnigraph.lang.query import ir
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.match.measures import COUNT, FLOAT_SUM, GREATEST, LEAST, WHOLE_SUM
from omnigraph.read.match.wanted import Totals
from omnigraph.read.output.aggregate import Aggregator
from omnigraph.read.output.aggregate_functions import UnsureError
from omnigraph.read.thresholds import DEFAULTS, OutputThresholds
from omnigraph.types import PropType, Scalar, from_arrow
from tests.oracle.bound import Entity
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError, Run
from tests.read.space_helpers import ArrowSpace, codes_of
from tests.sampling import examples

TEXT, LIST = PropType(Scalar.STRING, True), PropType(Scalar.I32, True, is_list=True)
I64, U64 = PropType(Scalar.I64, True), PropType(Scalar.U64, True)
F32, F64 = PropType(Scalar.F32, True), PropType(Scalar.F64, True)
DATE, DATETIME = PropType(Scalar.DATE, True), PropType(Scalar.DATETIME, True)
TYPES = {"t": TEXT, "i": I64, "u": U64, "f": F32, "l": LIST, "d": DATE, "z": DATETIME}
VALUES = {
    "t": st.sampled_from(["", "a", "é", "🙂", "b"]),
    "i": st.sampled_from([0, 1, 7, -(2**63), 2**63 - 1]),
    "u": st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    "f": st.sampled_from([0.0, 1.5, -2.0, math.inf]),
    "l": st.lists(st.none() | st.integers(0, 2), max_size=2),
    "d": st.sampled_from([-719_162, -1, 0, 20_000]),
    "z": st.sampled_from([-1, 0, 1, 1_700_000_000_123]),
}


@st.composite
def spaces(draw: st.DrawFn) -> ArrowSpace:
    size = draw(st.integers(1, 5))
    ids = draw(st.permutations(["b", "a", "é", "Z", "🙂"]))[:size]
    return ArrowSpace(
        ids,
        {
            name: (kind, draw(st.lists(st.none() | VALUES[name], min_size=size, max_size=size)))
            for name, kind in TYPES.items()
        },
    )


def prop(var: str, name: str) -> ir.PropertyOf:
    return ir.PropertyOf(var, name, TYPES[name])


@st.composite
def aggregates(draw: st.DrawFn) -> ir.Aggregate:
    function = draw(st.sampled_from(["count", "sum", "avg", "min", "max"]))
    if function == "count":
        anything = [ir.NodeId("x"), ir.ParamRef("p", I64), *(prop("y", name) for name in TYPES)]
        return ir.Aggregate("count", draw(st.sampled_from(anything)), PropType(Scalar.I64))
    names = "iuftdz" if function in {"min", "max"} else "iuf"
    arg = draw(
        st.sampled_from(
            [prop(var, name) for var in "xy" for name in names] + [ir.ParamRef("p", I64)]
        )
    )
    if function == "sum":
        return ir.Aggregate("sum", arg, I64 if arg.type.is_integer else F64)
    return ir.Aggregate(function, arg, F64 if function == "avg" else arg.type)


@st.composite
def plans(draw: st.DrawFn) -> ir.ReadPlan:
    keys = st.sampled_from([ir.NodeId("x"), *(prop(var, name) for var in "xy" for name in TYPES)])
    exprs = [
        *draw(st.lists(keys, max_size=3)),
        *draw(st.lists(aggregates(), min_size=1, max_size=3)),
    ]
    columns = tuple(
        ir.Column(f"c{at}", expr, TEXT if isinstance(expr, ir.NodeId) else expr.type)
        for at, expr in enumerate(draw(st.permutations(exprs)))
    )
    sortable = [at for at, column in enumerate(columns) if not column.type.is_list]
    order = draw(
        st.lists(
            st.builds(ir.SortKey, st.none(), st.sampled_from(sortable), descending=st.booleans()),
            max_size=2,
        )
    )
    limit = draw(st.none() | st.integers(0, 4))
    return ir.ReadPlan("q", (), (), columns, (), None, tuple(order), limit)


def table_of(
    plan: ir.ReadPlan,
    spaces: dict[str, ArrowSpace],
    params: Any,
    batches: Any,
    thresholds: OutputThresholds = DEFAULTS.output,
) -> Any:
    for wide in (False, True):
        aggregator = Aggregator(plan, spaces, params, wide=wide, thresholds=thresholds)
        for batch in batches:
            aggregator.add(batch)
        try:
            return aggregator.finish()
        except UnsureError:
            assert not wide
    return None


def stored(plan: ir.ReadPlan, table: Any) -> list[list[Any]]:
    assert table.schema.types == [column.type.arrow_type() for column in plan.columns]
    assert table.column_names == [column.name for column in plan.columns]
    columns = [from_arrow(column.type, table.column(at)) for at, column in enumerate(plan.columns)]
    return [list(row) for row in zip(*columns, strict=True)]


def entities(space: ArrowSpace) -> list[Entity]:
    values = {name: from_arrow(TYPES[name], c.array) for name, c in space.columns.items()}
    return [
        Entity(name_of, {name: column[at] for name, column in values.items()})
        for at, name_of in enumerate(space.names)
    ]


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


@settings(deadline=None, max_examples=examples(150))
@given(st.data(), plans(), spaces(), spaces(), st.none() | st.integers(-3, 3))
def test_groups_are_those_of_the_oracle(
    data: st.DataObject, plan: ir.ReadPlan, x: ArrowSpace, y: ArrowSpace, param: int | None
):
    pairs = st.tuples(st.integers(0, x.size - 1), st.integers(0, y.size - 1), st.integers(0, 3))
    batches = data.draw(st.lists(st.lists(pairs, max_size=5), max_size=3))
    weighted = data.draw(st.booleans())
    ends = entities(x), entities(y)
    rows = [
        {"x": ends[0][a], "y": ends[1][b]}
        for batch in batches
        for a, b, weight in batch
        for _ in range(weight if weighted else 1)
    ]
    params = {"p": param}
    bindings = [
        Bindings(
            len(batch),
            {"x": codes_of(*(a for a, _, _ in batch)), "y": codes_of(*(b for _, b, _ in batch))},
            np.array([w for *_, w in batch], np.int64) if weighted else None,
        )
        for batch in batches
    ]
    thresholds = OutputThresholds(grouped_rows=data.draw(st.sampled_from([1, 4, 100])))
    try:
        oracle = Run(plan, Graph({}, {}), params, None).grouped(rows)[: plan.limit]
    except RefusedError:
        with pytest.raises(BadRequest, match=r"runtime error: overflow: sum\("):
            table_of(plan, {"x": x, "y": y}, params, bindings, thresholds)
        return
    table = table_of(plan, {"x": x, "y": y}, params, bindings, thresholds)
    expected = [list(row.values()) for row in oracle]
    actual = stored(plan, table)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert all(map(close, one, other)), (actual, expected)


def counting(*keys: ir.Operand, limit: int | None = None) -> ir.ReadPlan:
    columns = [*keys, ir.Aggregate("count", ir.NodeId("x"), PropType(Scalar.I64))]
    return ir.ReadPlan(
        "q",
        (),
        (),
        tuple(
            ir.Column(str(at), e, TEXT if isinstance(e, ir.NodeId) else e.type)
            for at, e in enumerate(columns)
        ),
        (),
        limit=limit,
    )


def weighted(codes: Sequence[int], weights: Sequence[int]) -> Bindings:
    return Bindings(len(codes), {"x": codes_of(*codes)}, np.array(weights, np.int64))


def test_large_counts_are_exact_up_to_the_last_one():
    plan, space = counting(), ArrowSpace(["a", "b"], {})
    big = 2**62 + 2**53 + 1
    batches = [weighted([0], [big]), weighted([1, 1], [2**63 - 1 - big - 1, 1])]
    assert stored(plan, table_of(plan, {"x": space}, {}, batches)) == [[2**63 - 1]]
    with pytest.raises(ResourceLimit, match="narrow the match"):
        table_of(plan, {"x": space}, {}, [*batches, weighted([0], [1])])


def test_large_counts_of_groups_are_exact():
    plan, space = counting(ir.NodeId("x")), ArrowSpace(["a", "b"], {})
    batches = [weighted([0, 1, 0], [2**53, 5, 1]), weighted([0, 1], [2**62, 2])]
    expected = [["a", 2**62 + 2**53 + 1], ["b", 7]]
    assert stored(plan, table_of(plan, {"x": space}, {}, batches)) == expected
    with pytest.raises(ResourceLimit):
        table_of(plan, {"x": space}, {}, [*batches, weighted([0], [2**62])])


def test_no_rows_are_one_group_without_keys_and_none_with_keys():
    space = ArrowSpace([], {"t": (TEXT, [])})
    assert stored(counting(), table_of(counting(), {"x": space}, {}, [])) == [[0]]
    keyed = counting(prop("x", "t"), ir.NodeId("x"))
    assert stored(keyed, table_of(keyed, {"x": space}, {}, [])) == []
    empty = Bindings(0, {"x": codes_of()})
    assert stored(keyed, table_of(keyed, {"x": space}, {}, [empty])) == []


def test_many_key_columns_do_not_run_out_of_integers():
    size = 2**16
    names = [f"{n:05}" for n in range(size)]
    space = ArrowSpace(names, {})
    keys = [ir.NodeId(var) for var in "abcde"]
    plan = counting(*keys, limit=2)
    codes = np.arange(size, dtype=np.int32)
    batch = Bindings(size, {**dict.fromkeys("abcde", codes), "x": codes})
    table = table_of(plan, dict.fromkeys("abcdex", space), {}, [batch, batch])
    assert stored(plan, table) == [[*[names[n]] * 5, 2] for n in (0, 1)]


def test_what_a_summed_away_variable_leaves_behind_is_used():
    names = ArrowSpace(["a", "b"], {})
    words = ArrowSpace(["x", "y"], {"t": (TEXT, ["low", "high"])}).columns["t"]
    count = ir.Aggregate("count", prop("gone", "t"), PropType(Scalar.I64))
    lowest = ir.Aggregate("min", prop("gone", "t"), TEXT)
    highest = ir.Aggregate("max", prop("gone", "t"), TEXT)
    mean = ir.Aggregate("avg", prop("gone", "i"), F64)
    exprs = (ir.NodeId("x"), count, lowest, highest, mean)
    columns = tuple(
        ir.Column(str(at), e, TEXT if isinstance(e, ir.NodeId) else e.type)
        for at, e in enumerate(exprs)
    )
    plan = ir.ReadPlan("q", (), (), columns, (), order=(ir.SortKey(None, 1, True),))
    best = np.array([0, 1, -1], np.int32)
    counts = np.array([2, 3, 0], np.int64)
    sums = np.array([4.0, 6.0, 0.0])
    carried = {
        0: Totals(words, {COUNT: counts}),
        1: Totals(words, {COUNT: counts, LEAST: best}),
        2: Totals(words, {COUNT: counts, GREATEST: best}),
        3: Totals(words, {COUNT: counts, FLOAT_SUM: sums}),
    }
    weights = np.array([2, 4, 0], np.int64)
    batch = Bindings(3, {"x": codes_of(1, 1, 0)}, weights, carried)
    assert stored(plan, table_of(plan, {"x": names, "gone": names}, {}, [batch])) == [
        ["b", 5, "high", "low", 2.0]
    ]
    weights = np.array([2, 4, 1], np.int64)
    batches = [Bindings(3, {"x": codes_of(1, 1, 0)}, weights, carried)] * 2
    assert stored(plan, table_of(plan, {"x": names, "gone": names}, {}, batches)) == [
        ["b", 10, "high", "low", 2.0],
        ["a", 0, None, None, None],
    ]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1e308, 1e308, -1.0], math.inf),
        ([math.inf, -math.inf, 1.0], math.nan),
        ([2.0**53 - 3, 1.0, 1.0], 2.0**53 - 1),
    ],
)
@pytest.mark.parametrize("keys", [(), (prop("x", "t"),)])
def test_sums_follow_the_rules_of_floats(values: list[float], total: float, keys: Any):
    space = ArrowSpace("abc", {"f": (F64, values), "t": (TEXT, ["k"] * 3)})
    sums = [ir.Aggregate(name, ir.PropertyOf("x", "f", F64), F64) for name in ("sum", "avg")]
    columns = tuple(ir.Column(str(at), e, e.type) for at, e in enumerate([*keys, *sums]))
    plan = ir.ReadPlan("q", (), (), columns, (), order=(ir.SortKey(None, len(keys)),))
    for weights, times in ((None, 1), (np.array([2, 2, 2], np.int64), 2)):
        batch = Bindings(3, {"x": codes_of(0, 1, 2)}, weights)
        [row] = stored(plan, table_of(plan, {"x": space}, {}, [batch]))
        assert close(row[-2], total * times)
        assert close(row[-1], total / 3)


@pytest.mark.parametrize("keys", [(), (ir.NodeId("x"),)])
def test_rows_are_taken_off_exactly(keys: Any):
    """Floats would lose the difference of such numbers."""
    batches = [weighted([0, 1], [2**60, 7]), weighted([0, 1], [5 - 2**60, -7])]
    plan = counting(*keys)
    rows = stored(plan, table_of(plan, {"x": ArrowSpace("ab", {})}, {}, batches))
    assert rows == ([["a", 5]] if keys else [[5]])


AT_ONCE = OutputThresholds(grouped_rows=1)


def test_rows_may_be_taken_off_before_they_come():
    """Neither a group that is at zero for now nor its counts are forgotten."""
    count = ir.Aggregate("count", prop("x", "t"), PropType(Scalar.I64))
    columns = (ir.Column("k", prop("x", "i"), I64), ir.Column("n", count, count.type))
    plan = ir.ReadPlan("q", (), (), columns, ())
    space = ArrowSpace("ab", {"i": (I64, [1, 1]), "t": (TEXT, ["z", None])})
    steps = ([0], [1]), ([1], [-1]), ([0, 1], [4, 1])
    batches = [weighted(codes, weights) for codes, weights in steps]
    assert stored(plan, table_of(plan, {"x": space}, {}, batches, AT_ONCE)) == [[1, 5]]


def test_only_shown_groups_are_named():
    size = 1000
    space = ArrowSpace([str(n) for n in range(size)], {})
    plan = counting(ir.NodeId("x"), limit=3)
    batch = Bindings(size, {"x": np.arange(size, dtype=np.int32)})
    table_of(plan, {"x": space}, {}, [batch])
    assert space.read == ["3 ids"]


def test_a_sum_that_can_only_grow_is_refused_while_rows_come():
    """Values of one sign: what is too large stays so, and no more rows need be found."""
    total = ir.Aggregate("sum", prop("x", "i"), I64)
    plan = ir.ReadPlan("q", (), (), (ir.Column("s", total, I64),), ())
    batch = weighted([0, 1], [1, 1])
    growing = ArrowSpace("ab", {"i": (I64, [2**62, 2**61])})
    aggregator = Aggregator(plan, {"x": growing}, {}, wide=True, thresholds=AT_ONCE)
    aggregator.add(batch)
    aggregator.add(batch)
    with pytest.raises(BadRequest, match="overflow"):
        aggregator.add(batch)
    # With both signs, rows to come may bring it back.
    swaying = ArrowSpace("ab", {"i": (I64, [2**63 - 1, -(2**62)])})
    aggregator = Aggregator(plan, {"x": swaying}, {}, wide=True, thresholds=AT_ONCE)
    for codes in ([0], [0], [1, 1], [1, 1]):
        aggregator.add(weighted(codes, [1] * len(codes)))
    assert stored(plan, aggregator.finish()) == [[-2]]


def test_sums_that_were_carried_wrap_only_where_rows_are_asked_for_again():
    numbers = ArrowSpace("ab", {"i": (I64, [2**62, -(2**62)])}).columns["i"]
    total = ir.Aggregate("sum", prop("gone", "i"), I64)
    plan = ir.ReadPlan("q", (), (), (ir.Column("s", total, I64),), ())
    counts, sums = np.array([1, 0], np.int64), np.array([2**62, 0], np.int64)
    totals = Totals(numbers, {COUNT: counts, WHOLE_SUM: sums})
    fine = Bindings(2, {"x": codes_of(0, 1)}, None, {0: totals})
    space = {"x": ArrowSpace("ab", {})}
    assert stored(plan, table_of(plan, space, {}, [fine])) == [[2**62]]
    aggregator = Aggregator(plan, space, {})
    for _ in range(2):
        aggregator.add(fine)
    with pytest.raises(UnsureError):
        aggregator.finish()
