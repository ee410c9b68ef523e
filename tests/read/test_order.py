"""Listed output: total order, limit, ranked order and projection, judged by the oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ResourceLimit
from omnigraph.lang.query import ir
from omnigraph.read.match.bindings import Bindings
from omnigraph.read.output.order import Collector
from omnigraph.read.thresholds import OutputThresholds
from omnigraph.types import PropType, Scalar, from_arrow
from tests.oracle.bound import Entity
from tests.oracle.graph import Graph
from tests.oracle.interpreter import Run
from tests.read.space_helpers import ArrowSpace, codes_of
from tests.sampling import examples

TEXT = PropType(Scalar.STRING, nullable=True)
TYPES = {
    "t": TEXT,
    "i": PropType(Scalar.I64, nullable=True),
    "u": PropType(Scalar.U64, nullable=True),
    "f": PropType(Scalar.F32, nullable=True),
    "b": PropType(Scalar.BOOL, nullable=True),
    "d": PropType(Scalar.DATE, nullable=True),
    "m": PropType(Scalar.DATETIME, nullable=True),
    "l": PropType(Scalar.STRING, nullable=True, is_list=True),
    "v": PropType(Scalar.F32, nullable=True, dim=2),
}
VALUES = {
    "t": st.sampled_from(["", "a", "é", "🙂"]),
    "i": st.sampled_from([0, 1, -(2**63), 1 - 2**63, 2**63 - 1]),
    "u": st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    "f": st.sampled_from([0.0, 1.5, -2.0, math.inf, -math.inf]),
    "b": st.booleans(),
    "d": st.integers(-2, 2),
    "m": st.integers(-2, 2),
    "l": st.lists(st.none() | st.sampled_from("ab"), max_size=2),
    "v": st.lists(st.sampled_from([0.0, 0.5]), min_size=2, max_size=2),
}
IDS = ["b", "a", "é", "Z", "🙂"]
PARAMS = {"p": [1, 2], ir.NOW_PARAM: 5, "n": None}
GIVEN = [
    ir.ParamRef("p", PropType(Scalar.I64, is_list=True)),
    ir.ParamRef(ir.NOW_PARAM, PropType(Scalar.DATETIME)),
    ir.ParamRef("n", TEXT),
    ir.Const(2**64 - 1, PropType(Scalar.U64)),
    ir.Const("x", PropType(Scalar.STRING)),
    ir.Const([0.5, 1.0], PropType(Scalar.F32, dim=2)),
]


def prop(var: str, name: str) -> ir.PropertyOf:
    return ir.PropertyOf(var, name, TYPES[name])


def column(at: int, expr: ir.Output) -> ir.Column:
    kind = TEXT if isinstance(expr, ir.NodeId) else getattr(expr, "type", PropType(Scalar.F64))
    return ir.Column(f"c{at}", expr, kind)


@st.composite
def spaces(draw: st.DrawFn) -> ArrowSpace:
    size = draw(st.integers(1, 5))
    return ArrowSpace(
        draw(st.permutations(IDS))[:size],
        {
            name: (kind, draw(st.lists(st.none() | VALUES[name], min_size=size, max_size=size)))
            for name, kind in TYPES.items()
        },
    )


def sort_keys(columns: list[ir.Column]) -> st.SearchStrategy[ir.SortKey]:
    outputs = [at for at, c in enumerate(columns) if not c.type.is_list and not c.type.is_vector]
    by_property = st.builds(
        ir.SortKey,
        st.builds(prop, st.sampled_from("xy"), st.sampled_from("tiufbdm")),
        st.none(),
        st.booleans(),
    )
    if not outputs:
        return by_property
    by_output = st.builds(ir.SortKey, st.none(), st.sampled_from(outputs), st.booleans())
    return st.one_of(by_property, by_output)


VARIABLES = (ir.Variable("y", "edge", "Y"), ir.Variable("x", "node", "X"))


@st.composite
def plans(draw: st.DrawFn, ranking: ir.Ranking | None = None) -> ir.ReadPlan:
    anything = [ir.NodeId("x"), *GIVEN, *(prop(var, name) for var in "xy" for name in TYPES)]
    if ranking is not None:
        anything.append(ir.Score())
    exprs = draw(st.lists(st.sampled_from(anything), min_size=1, max_size=4))
    columns = [column(at, expr) for at, expr in enumerate(exprs)]
    least = 0 if ranking is not None else 1
    keys = draw(st.lists(sort_keys(columns), min_size=least, max_size=2))
    limit = draw(st.none() | st.integers(0, 4))
    return ir.ReadPlan("q", (), (), tuple(columns), VARIABLES, ranking, tuple(keys), limit)


@st.composite
def matches(
    draw: st.DrawFn,
) -> tuple[ArrowSpace, ArrowSpace, list[list[tuple[int, int, int]]], bool]:
    x, y = draw(spaces()), draw(spaces())
    pairs = st.tuples(st.integers(0, x.size - 1), st.integers(0, y.size - 1), st.integers(0, 3))
    return x, y, draw(st.lists(st.lists(pairs, max_size=6), max_size=4)), draw(st.booleans())


def rows_of(x: ArrowSpace, y: ArrowSpace, batches: Any, weighted: bool) -> list[dict[str, Entity]]:
    ends = entities(x), entities(y)
    return [
        {"x": ends[0][a], "y": ends[1][b]}
        for batch in batches
        for a, b, weight in batch
        for _ in range(weight if weighted else 1)
    ]


def bindings_of(batch: Any, weighted: bool) -> Bindings:
    return Bindings(
        len(batch),
        {"x": codes_of(*(a for a, _, _ in batch)), "y": codes_of(*(b for _, b, _ in batch))},
        np.array([weight for *_, weight in batch], np.int64) if weighted else None,
    )


def entities(space: ArrowSpace) -> list[Entity]:
    values = {name: from_arrow(TYPES[name], c.array) for name, c in space.columns.items()}
    return [
        Entity(known, {name: column[at] for name, column in values.items()})
        for at, known in enumerate(space.names)
    ]


def stored(plan: ir.ReadPlan, table: Any) -> list[list[Any]]:
    assert table.schema.types == [column.type.arrow_type() for column in plan.columns]
    assert table.column_names == [column.name for column in plan.columns]
    table.validate(full=True)
    columns = [from_arrow(c.type, table.column(at)) for at, c in enumerate(plan.columns)]
    return [list(row) for row in zip(*columns, strict=True)]


def collected(plan: Any, match: Any, slack: int, ranked: Any = None) -> Any:
    x, y, batches, weighted = match
    thresholds = OutputThresholds(slack_rows=slack)
    collector = Collector(plan, {"x": x, "y": y}, PARAMS, ranked, thresholds)
    for batch in batches:
        if not collector.add(bindings_of(batch, weighted)):
            break
    return collector.finish()


@settings(deadline=None, max_examples=examples(100))
@given(plans(), matches(), st.sampled_from([0, 3, 100]))
def test_rows_come_in_the_order_of_the_oracle(plan: ir.ReadPlan, match: Any, slack: int):
    oracle = Run(plan, Graph({}, {}), PARAMS, None).ordered(rows_of(*match))[: plan.limit]
    table = collected(plan, match, slack)
    assert stored(plan, table) == [list(row.values()) for row in oracle]


@dataclass(frozen=True)
class Ranked:
    codes: Any
    scores: Any
    places: Any


class RankedRun(Run):
    """The oracle with a ranking made up beforehand: place and score by id."""

    ranking: dict[str, tuple[int, float]]

    def rank(self, ranking: ir.Ranking, rows: list[Any]) -> dict[str, Any]:
        self.scores = {known: score for known, (_, score) in self.ranking.items()}
        return {known: place for known, (place, _) in self.ranking.items()}


BM25 = ir.Bm25(prop("x", "t"), ir.Const("x", PropType(Scalar.STRING)))


@settings(deadline=None, max_examples=examples(100))
@given(st.data(), plans(BM25), matches(), st.sampled_from([0, 3, 100]))
def test_ranked_rows_come_in_the_order_of_the_oracle(
    data: st.DataObject, plan: ir.ReadPlan, match: Any, slack: int
):
    x, *_ = match
    places = data.draw(st.lists(st.none() | st.integers(0, 2), min_size=x.size, max_size=x.size))
    run = RankedRun(plan, Graph({}, {}), PARAMS, None)
    run.ranking = {
        known: (place, -float(place))
        for known, place in zip(x.names, places, strict=True)
        if place is not None
    }
    oracle = run.ordered(rows_of(*match))[: plan.limit]
    kept = [code for code in range(x.size) if places[code] is not None]
    kept.sort(key=lambda code: (places[code], x.names[code].encode()))
    order_of = np.array([places[code] for code in kept], np.int64)
    ranked = Ranked(codes_of(*kept), -order_of.astype(np.float64), order_of)
    table = collected(plan, match, slack, ranked)
    assert stored(plan, table) == [list(row.values()) for row in oracle]


def listing(*exprs: ir.Output, limit: int | None = None, by: str | None = None) -> ir.ReadPlan:
    columns = tuple(column(at, expr) for at, expr in enumerate(exprs))
    keys = () if by is None else (ir.SortKey(prop("x", by), None),)
    return ir.ReadPlan("q", (), (), columns, VARIABLES[1:], None, keys, limit)


def numbered(size: int) -> ArrowSpace:
    return ArrowSpace(
        [f"{n:04}" for n in range(size)],
        {"i": (TYPES["i"], range(size)), "t": (TEXT, [f"t{n % 7}" for n in range(size)])},
    )


def batch(*codes: int, weights: list[int] | None = None) -> Bindings:
    counts = None if weights is None else np.array(weights, np.int64)
    return Bindings(len(codes), {"x": codes_of(*codes)}, counts)


def test_without_order_the_first_rows_are_enough():
    collector = Collector(listing(ir.NodeId("x"), limit=3), {"x": numbered(9)}, {})
    assert collector.add(batch(5, 4))
    assert not collector.add(batch(3, 2))
    assert collector.finish().column(0).to_pylist() == ["0005", "0004", "0003"]


def test_weights_are_rows_when_the_limit_is_counted():
    collector = Collector(listing(ir.NodeId("x"), limit=3), {"x": numbered(9)}, {})
    assert collector.add(batch(5, 4, weights=[0, 2]))
    assert not collector.add(batch(3, weights=[2**62]))
    assert collector.finish().column(0).to_pylist() == ["0004", "0004", "0003"]


def test_a_limit_of_zero_wants_nothing():
    plan = listing(ir.NodeId("x"), prop("x", "i"), ir.Const(1, TYPES["i"]), limit=0, by="i")
    collector = Collector(plan, {"x": numbered(3)}, {})
    assert not collector.add(batch(1))
    assert stored(plan, collector.finish()) == []


def test_a_limit_bounds_what_is_kept():
    plan = listing(prop("x", "i"), limit=2, by="i")
    thresholds = OutputThresholds(slack_rows=10)
    collector = Collector(plan, {"x": numbered(1000)}, {}, thresholds=thresholds)
    for start in range(900, -1, -100):
        assert collector.add(batch(*range(start, start + 100)))
        assert sum(kept.count for kept in collector._batches) <= 14
    assert collector.finish().column(0).to_pylist() == [0, 1]


def test_many_tied_rows_of_one_ranked_entity_are_not_all_kept():
    exprs = (ir.NodeId("x"), prop("y", "i"))
    columns = tuple(column(at, expr) for at, expr in enumerate(exprs))
    plan = ir.ReadPlan("q", (), (), columns, VARIABLES, BM25, (), 2)
    ranked = Ranked(codes_of(1, 0), np.array([2.0, 2.0]), np.array([0, 0]))
    spaces = {"x": numbered(2), "y": numbered(1000)}
    collector = Collector(plan, spaces, {}, ranked, OutputThresholds(slack_rows=10))
    ys = np.arange(999, -1, -1, dtype=np.int32)
    for start in range(0, 1000, 100):
        part = ys[start : start + 100]
        collector.add(Bindings(100, {"x": part % 2, "y": part}))
        assert sum(kept.count for kept in collector._batches) <= 100
    assert stored(plan, collector.finish()) == [["0000", 0], ["0000", 2]]


def test_all_entities_in_order_are_not_copied():
    space = numbered(1000)
    collector = Collector(listing(prop("x", "i"), prop("x", "t")), {"x": space}, {})
    collector.add(Bindings(1000, {"x": np.arange(1000, dtype=np.int32)}))
    table = collector.finish()
    for at, name in enumerate("it"):
        mine, theirs = table.column(at).chunk(0), space.columns[name].array
        assert [b and b.address for b in mine.buffers()] == [
            b and b.address for b in theirs.buffers()
        ]


@pytest.mark.parametrize(("size", "read"), [(8, "all of l"), (9, "1 of l")])
def test_many_lists_are_read_as_a_column_and_few_are_fetched(size: int, read: str):
    names = "abcdefghi"[:size]
    space = ArrowSpace(names, {"l": (TYPES["l"], [[name] for name in names])})
    plan = listing(prop("x", "l"))
    collector = Collector(plan, {"x": space}, {})
    collector.add(batch(4))
    assert stored(plan, collector.finish()) == [[["e"]]]
    assert space.read == [read]


def test_only_shown_rows_are_fetched():
    space = numbered(1000)
    plan = listing(ir.NodeId("x"), prop("x", "t"), limit=2, by="i")
    collector = Collector(plan, {"x": space}, {})
    collector.add(Bindings(1000, {"x": np.arange(999, -1, -1, dtype=np.int32)}))
    assert stored(plan, collector.finish()) == [["0000", "t0"], ["0001", "t1"]]
    assert "all of t" not in space.read
    assert {"2 ids", "2 of t"} <= set(space.read)


def test_an_answer_too_large_for_memory_is_refused():
    collector = Collector(listing(ir.NodeId("x")), {"x": numbered(3)}, {})
    collector.add(batch(0, weights=[2**50]))
    with pytest.raises(ResourceLimit, match="set a limit"):
        collector.finish()


def test_no_rows_keep_the_types_of_the_columns():
    plan = listing(ir.NodeId("x"), prop("x", "i"), *GIVEN)
    collector = Collector(plan, {"x": numbered(3)}, PARAMS)
    assert stored(plan, collector.finish()) == []
    assert collector.add(batch())
    assert stored(plan, collector.finish()) == []
