"""Measures against plain Python: however entries are split up and merged, the result is the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ResourceLimit
from omnigraph.read.match.measures import (
    COUNT,
    FLOAT_SUM,
    GREATEST,
    LEAST,
    WHOLE_SUM,
    WIDE_SUM,
    ArgumentRows,
)
from omnigraph.read.match.wanted import Totals, concatenated
from omnigraph.read.output.grouping import Lines, merged, reduced
from omnigraph.read.values.column import Column
from omnigraph.types import PropType, Scalar, to_arrow
from tests.read.csr_helpers import adjacency, edges

INT64 = st.integers(-(2**63), 2**63 - 1)
# Floats that add up exactly in any order.
EXACT = st.integers(-(2**20), 2**20).map(float)
CODES = st.integers(-1, 2**31 - 2)
CARRIED = {
    COUNT: (st.integers(0, 2**40), np.int64),
    WHOLE_SUM: (INT64, np.int64),
    FLOAT_SUM: (EXACT, np.float64),
    LEAST: (CODES, np.int32),
    GREATEST: (CODES, np.int32),
}
NAMES = {COUNT: "count", WHOLE_SUM: "whole", FLOAT_SUM: "float", LEAST: "least"}
each_carried = pytest.mark.parametrize("measure", CARRIED, ids=lambda one: NAMES.get(one, "most"))
lists = st.lists(st.integers(0, 3), max_size=8)


def wrapped(number):
    return (number + 2**63) % 2**64 - 2**63


def plain(measure, values):
    """All values merged into one, by the book."""
    if measure in (LEAST, GREATEST):
        known = [value for value in values if value >= 0]
        return (min if measure is LEAST else max)(known, default=-1)
    return sum(values) if measure is FLOAT_SUM else wrapped(sum(values))


def drawn(data, measure, size=None):
    values, kind = CARRIED[measure]
    bounds = {"max_size": 8} if size is None else {"min_size": size, "max_size": size}
    return np.array(data.draw(st.lists(values, **bounds)), kind)


@each_carried
@given(data=st.data(), size=st.integers(0, 8))
def test_merging_is_associative_and_commutative_and_has_a_neutral_entry(measure, data, size):
    a, b, c = (drawn(data, measure, size) for _ in range(3))
    both = measure.combined(a, b)
    assert both.dtype == a.dtype
    assert both.tolist() == [
        plain(measure, pair) for pair in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert measure.combined(b, a).tolist() == both.tolist()
    left, right = measure.combined(both, c), measure.combined(a, measure.combined(b, c))
    assert left.tolist() == right.tolist()
    none = np.full(size, measure.neutral, a.dtype)
    assert measure.combined(none, a).tolist() == a.tolist()


@each_carried
@given(data=st.data())
def test_a_whole_is_what_its_parts_come_to(measure, data):
    a, b = drawn(data, measure), drawn(data, measure)
    whole = measure.total(np.concatenate([a, b]))
    assert whole.tolist() == [plain(measure, [*a.tolist(), *b.tolist()])]
    assert whole.dtype == a.dtype
    assert measure.combined(measure.total(a), measure.total(b)).tolist() == whole.tolist()


@each_carried
@given(data=st.data(), places=lists)
def test_entries_are_merged_at_their_places(measure, data, places):
    entries = drawn(data, measure, len(places))
    found = measure.scattered(entries, np.array(places, np.int64), 5)
    at = [[x for x, p in zip(entries.tolist(), places, strict=True) if p == q] for q in range(5)]
    assert found.tolist() == [plain(measure, values) for values in at]
    assert found.dtype == entries.dtype


@each_carried
@given(graph=edges(), data=st.data())
def test_entries_are_merged_along_edges(measure, graph, data):
    rows, columns, pairs = graph
    csr = adjacency(pairs, rows, columns)
    entries = drawn(data, measure, columns)
    expected = [plain(measure, [entries[w].item() for w in csr.row(v)]) for v in range(rows)]
    assert measure.swept(csr, entries).tolist() == expected
    if measure.can_push:
        back = adjacency([(b, a) for a, b in pairs], columns, rows)
        reached = [value for v, value in enumerate(expected) if csr.row(v)]
        codes = np.arange(columns, dtype=np.int32)
        assert measure.pushed(back, codes, entries).tolist() == reached


@each_carried
@given(data=st.data(), weights=st.lists(st.integers(1, 5), max_size=8))
def test_a_weight_repeats_an_entry(measure, data, weights):
    entries = drawn(data, measure, len(weights))
    found = measure.repeated(entries, np.array(weights, np.int64))
    pairs = zip(entries.tolist(), weights, strict=True)
    assert found.tolist() == [plain(measure, [value] * weight) for value, weight in pairs]


def test_a_count_beyond_64_bits_is_refused_and_a_sum_wraps():
    big, twice = np.array([2**62], np.int64), np.array([2], np.int64)
    with pytest.raises(ResourceLimit, match="narrow the match"):
        COUNT.repeated(big, twice)
    assert WHOLE_SUM.repeated(big, twice).tolist() == [-(2**63)]


# ------------------------------------------------------------------ from values to groups

KINDS = {
    "I64": (PropType(Scalar.I64, True), INT64),
    "U64": (PropType(Scalar.U64, True), st.integers(0, 2**64 - 1)),
    "F64": (PropType(Scalar.F64, True), EXACT),
    "String": (PropType(Scalar.STRING, True), st.sampled_from(["", "a", "é", "🙂", "b"])),
}


def column_of(kind, values):
    return Column(kind, to_arrow(kind, values))


def limbs_to_int(limbs):
    return [sum(int(limb) << (32 * at) for at, limb in enumerate(one)) for one in limbs.T]


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_groups_of_batches_are_the_groups_of_all_rows(name, data):
    """Rows of one column, with nulls and weights, cut into two batches anywhere."""
    kind, values = KINDS[name]
    size = data.draw(st.integers(1, 5))
    stored = data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
    column = column_of(kind, stored)
    row = st.tuples(st.integers(0, size - 1), st.integers(-1, 2), st.integers(1, 3))
    rows = data.draw(st.lists(row, min_size=1, max_size=10))
    has_weights, by_code = data.draw(st.booleans()), data.draw(st.booleans())
    measures = [COUNT, LEAST, GREATEST]
    measures += [FLOAT_SUM] if name == "F64" else []
    measures += [WHOLE_SUM, WIDE_SUM] if name in {"I64", "U64"} else []

    def lines(part):
        codes = np.array([code for code, _, _ in part], np.int32)
        weights = np.array([w for *_, w in part], np.int64) if has_weights else None
        if by_code or name == "String":  # The ranks of texts must be the same in all batches.
            argument = ArgumentRows.of(column, codes, weights)
        else:
            by_row = column_of(kind, [stored[code] for code in codes])
            argument = ArgumentRows.of(by_row, None, weights)
        keys = [np.array([key for _, key, _ in part], np.int32)]
        entries = {(0, one): one.of_rows(argument) for one in measures}
        return Lines(len(part), keys, weights, entries)

    cut = data.draw(st.integers(0, len(rows)))
    whole = reduced(lines(rows))
    parts = merged([reduced(lines(part)) for part in (rows[:cut], rows[cut:]) if part])
    groups = sorted({key for _, key, _ in rows})
    for found in (whole, parts):
        assert [key.tolist() for key in found.keys] == [groups]
        for at, group in enumerate(groups):
            here = [
                stored[code]
                for code, key, weight in rows
                for _ in range(weight if has_weights else 1)
                if key == group and stored[code] is not None
            ]
            assert found.measures[0, COUNT][at] == len(here)
            if FLOAT_SUM in measures:
                assert found.measures[0, FLOAT_SUM][at] == sum(here)
            if WHOLE_SUM in measures:
                assert found.measures[0, WHOLE_SUM][at] == wrapped(sum(here))
                assert limbs_to_int(found.measures[0, WIDE_SUM])[at] == sum(here)
    # Extremes are integers that sort like the values.
    present = [at for at in range(len(groups)) if whole.measures[0, COUNT][at]]
    for one, pick in ((LEAST, min), (GREATEST, max)):
        assert whole.measures[0, one].tolist() == parts.measures[0, one].tolist()
        best = {
            at: pick(
                stored[code]
                for code, key, _ in rows
                if key == groups[at] and stored[code] is not None
            )
            for at in present
        }
        found = whole.measures[0, one]
        assert sorted(present, key=lambda at: (found[at], at)) == sorted(
            present, key=lambda at: (_order(best[at]), at)
        )


def _order(value):
    return value.encode() if isinstance(value, str) else value


@given(
    st.lists(st.none() | st.sampled_from(["b", "a", "é"]), min_size=1, max_size=6),
    st.data(),
)
def test_what_is_carried_groups_like_rows(values, data):
    """A variable that was summed away says the same as its rows."""
    column = column_of(KINDS["String"][0], values)
    codes = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6)), np.int32)
    totals = Totals.of_codes(column, (LEAST, GREATEST), codes)
    argument = ArgumentRows.of(column, codes, None)
    for measure in (LEAST, GREATEST):
        carried = measure.of_carried(totals.measures[measure])
        assert carried.tolist() == measure.of_rows(argument).tolist()
    present = totals.measures[COUNT].tolist()
    assert present == [int(values[code] is not None) for code in codes]
    cut = data.draw(st.integers(0, len(codes)))
    again = concatenated([totals.at(slice(0, cut)), totals.at(slice(cut, None))])
    for measure, entries in totals.measures.items():
        assert again.measures[measure].tolist() == entries.tolist()


def test_null_is_neutral():
    column = Column(PropType(Scalar.I64, True), pa.array([5, None, -3], pa.int64()))
    totals = Totals.of_codes(column, (WHOLE_SUM, FLOAT_SUM, LEAST, GREATEST), slice(None))
    for measure, entries in totals.measures.items():
        assert entries[1] == measure.neutral
    one = totals.summed()
    found = {measure: entries.tolist() for measure, entries in one.measures.items()}
    assert found == {COUNT: [2], WHOLE_SUM: [2], FLOAT_SUM: [2.0], LEAST: [0], GREATEST: [1]}
    assert column.dictionary.to_pylist() == [-3, 5]
