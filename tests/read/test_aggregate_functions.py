"""Aggregate functions of the engine against plain Python, from measures to results."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.lang.query.aggregates import AGGREGATES
from omnigraph.read.match.measures import COUNT, WHOLE_SUM
from omnigraph.read.match.wanted import Totals
from omnigraph.read.output.aggregate_functions import FUNCTIONS, Measured, measures_of, only_counts
from omnigraph.read.values.column import Column
from omnigraph.types import PropType, Scalar

I64, F64 = PropType(Scalar.I64, True), PropType(Scalar.F64, True)
NUMBERS = st.integers(-(2**20), 2**20)
BY_HAND = {
    "count": len,
    "sum": lambda values: sum(values) if values else None,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
}
each_function = pytest.mark.parametrize("name", BY_HAND)


def aggregate_of(name, arg):
    return ir.Aggregate(name, arg, AGGREGATES[name].result(I64))


def measured(groups, expr):
    """The measures of an I64 property with these values, group by group."""
    flat = [value for group in groups for value in group]
    column = Column(I64, pa.array(flat, pa.int64()))
    totals = Totals.of_codes(column, measures_of(expr), slice(None))
    ends = np.cumsum([0, *map(len, groups)])
    parts = [totals.at(slice(a, b)).summed() for a, b in itertools.pairwise(ends)]
    measures = {
        one: np.concatenate([one.of_carried(part.measures[one]) for part in parts])
        for one in totals.measures
    }

    def values_of(integers, absent):
        return column.dictionary.take(pa.array(np.where(absent, 0, integers), mask=absent))

    return Measured(measures[COUNT], measures, values_of)


def test_the_engine_has_every_function_of_the_language():
    # Lists are made of all values of a group, not measured (`output/listings.py`).
    assert [*FUNCTIONS, "collect"] == list(AGGREGATES)
    assert list(FUNCTIONS) == list(BY_HAND)


@each_function
@given(groups=st.lists(st.lists(st.none() | NUMBERS, max_size=5), min_size=1, max_size=6))
def test_results_are_those_worked_out_by_hand(name, groups):
    expr = aggregate_of(name, ir.PropertyOf("x", "i", I64))
    result = FUNCTIONS[name].finish(expr, measured(groups, expr))
    known = [[value for value in group if value is not None] for group in groups]
    expected = [BY_HAND[name](values) for values in known]
    kind = expr.type.arrow_type()
    every = np.arange(len(groups))
    found = result.at(every, kind)
    assert found.type == kind
    assert found.to_pylist() == expected
    assert result.at(every[::-2], kind).to_pylist() == expected[::-2]
    in_order = np.lexsort([every, *reversed(result.sort_keys())])
    by_hand = sorted(every, key=lambda at: (expected[at] is not None, expected[at] or 0, at))
    assert in_order.tolist() == [int(at) for at in by_hand]


@each_function
@given(
    value=st.none() | st.integers(-9, 9),
    counts=st.lists(st.integers(0, 2**40), min_size=1, max_size=4),
)
def test_a_constant_counts_as_often_as_there_are_rows(name, value, counts):
    expr = aggregate_of(name, ir.ParamRef("p", I64))
    rows = np.array(counts if value is not None else [0] * len(counts), np.int64)
    result = FUNCTIONS[name].of_value(expr, value, rows)
    by_rows = {"count": lambda n: n, "sum": lambda n: n * value if n else None}
    by_hand = by_rows.get(name, lambda n: value if n else None)
    found = result.at(np.arange(len(rows)), expr.type.arrow_type()).to_pylist()
    assert found == [by_hand(int(n)) for n in rows]
    for key in result.sort_keys():
        assert len(key) == len(rows)


def test_averages_of_a_constant_tie_however_they_are_rounded():
    """0.1 three times comes to 0.30000000000000004, a third of which is not 0.1."""
    expr = ir.Aggregate("avg", ir.ParamRef("p", F64), F64)
    result = FUNCTIONS["avg"].of_value(expr, 0.1, np.array([3, 1, 0], np.int64))
    assert [key.tolist() for key in result.sort_keys()] == [[1, 1, 0]]


def test_a_sum_of_a_constant_beyond_64_bits_is_refused():
    expr = aggregate_of("sum", ir.ParamRef("p", I64))
    fine = FUNCTIONS["sum"].of_value(expr, 2**62, np.array([1, 0], np.int64))
    assert fine.at(np.arange(2), pa.int64()).to_pylist() == [2**62, None]
    with pytest.raises(BadRequest, match=r"overflow: sum\(\$p\) is outside"):
        FUNCTIONS["sum"].of_value(expr, 2**62, np.array([2], np.int64))


def test_only_sums_of_integers_are_added_as_integers():
    whole = aggregate_of("sum", ir.PropertyOf("x", "i", I64))
    assert measures_of(whole) == (WHOLE_SUM,)
    for name, kind in (("sum", F64), ("avg", F64)):
        expr = ir.Aggregate(name, ir.PropertyOf("x", "i", I64), kind)
        assert WHOLE_SUM not in measures_of(expr)


@each_function
def test_rows_can_be_taken_off_only_where_they_are_counted(name):
    """A minimum cannot lose a row again, and floats would not cancel out."""
    expr = aggregate_of(name, ir.PropertyOf("x", "i", I64))
    count = aggregate_of("count", ir.NodeId("x"))
    columns = tuple(ir.Column(str(at), one, one.type) for at, one in enumerate((count, expr)))
    assert only_counts(ir.ReadPlan("q", (), (), columns, ())) == (name == "count")
