"""Candidates against plain dicts: code to weight, and code to totals."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import OmniGraphError, ResourceLimit
from omnigraph.read.kernels import frontier
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.match.candidates import Candidates, positions, refuse_wrap
from omnigraph.read.match.measures import COUNT, GREATEST, LEAST, WHOLE_SUM, times
from omnigraph.read.match.wanted import Totals
from omnigraph.read.values.column import Column
from omnigraph.types import PropType, Scalar

COLUMN = Column(PropType(Scalar.I64), pa.array([1, 2, 3], pa.int64()))
SIZES = st.integers(0, 40)


def totals_of(draw, count, key):
    """Totals of one aggregate for some codes: sums, or the best value of a min or max."""
    counts = np.array(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), np.int64)
    if key % 2:
        sums = draw(st.lists(st.integers(-99, 99), min_size=count, max_size=count))
        return Totals(COLUMN, {COUNT: counts, WHOLE_SUM: np.array(sums, np.int64)})
    best = np.array(draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count)), np.int32)
    return Totals(COLUMN, {COUNT: counts, draw(st.sampled_from([LEAST, GREATEST])): best})


@st.composite
def candidates(draw, size=None):
    """Every shape there is: all codes or some, with and without weights, marks, bounds and totals."""
    size = draw(SIZES) if size is None else size
    listed = None
    if draw(st.booleans()):
        listed = np.array(sorted(draw(codes_below(size))), np.int32)
    count = size if listed is None else len(listed)
    weights = at_most = members = None
    if draw(st.booleans()):
        numbers = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
        weights = np.array(numbers, np.int64)
        at_most = draw(st.sampled_from([None, 5]))
    if listed is not None and draw(st.booleans()):
        members = np.zeros(size, np.bool_)
        members[listed] = True
    totals = {key: totals_of(draw, count, key) for key in draw(st.sets(st.integers(0, 3)))}
    return Candidates(size, listed, weights, totals, members, at_most)


def codes_below(size):
    return st.sets(st.integers(0, size - 1)) if size else st.just(set())


def plain(one):
    """By code: the weight, and the entries of all totals."""
    weights = one.multiplicities().tolist()
    entries = [
        {
            key: {measure: int(entries[at]) for measure, entries in entry.measures.items()}
            for key, entry in one.totals.items()
        }
        for at in range(one.count)
    ]
    return {
        code: (weight, entry)
        for code, weight, entry in zip(one.listed().tolist(), weights, entries, strict=True)
    }


def check_bound(one):
    """A bound that is known is never below a weight, and marks are exactly the listed codes."""
    if one.weights is not None and one.at_most is not None:
        assert all(weight <= one.at_most for weight in one.weights.tolist())
    if one.members is not None:
        assert np.flatnonzero(one.members).tolist() == one.listed().tolist()


@given(st.data())
def test_codes_are_selected_with_what_belongs_to_them(data):
    one = data.draw(candidates())
    chosen = data.draw(codes_below(one.size))
    codes = np.array(sorted(chosen), np.int32)
    mask = np.zeros(one.size, np.bool_)
    mask[codes] = True
    kept = {code: entry for code, entry in plain(one).items() if code in chosen}
    others = {code: entry for code, entry in plain(one).items() if code not in chosen}
    ways = [(one.only(mask), kept), (one.among(codes), kept), (one.without(codes), others)]
    ways.append((one.only_listed(mask[one.listed()]), kept))
    for found, expected in ways:
        assert plain(found) == expected
        assert found.size == one.size
        check_bound(found)


@pytest.mark.parametrize("few", [3, 60, 3000])
@pytest.mark.parametrize("weighed", [False, True])
def test_codes_are_selected_among_few_and_among_many(few, weighed):
    """Searches, marks and sorted merges: the way depends on how many codes there are."""
    size, rng = 20_000, random.Random(few)
    lists = [sorted(rng.sample(range(size), count)) for count in (few, 5000)]
    for listed, wanted in (lists, lists[::-1]):
        weights = np.array([code % 7 for code in listed], np.int64) if weighed else None
        one = Candidates(size, np.array(listed, np.int32), weights)
        expected = {code: (code % 7 if weighed else 1, {}) for code in set(listed) & set(wanted)}
        assert plain(one.among(np.array(wanted, np.int32))) == expected


@given(st.data())
def test_a_neighbour_multiplies_what_every_code_stands_for(data):
    one = data.draw(candidates())
    factors = np.array(
        data.draw(st.lists(st.integers(0, 4), min_size=one.count, max_size=one.count)), np.int64
    )
    keys = data.draw(st.sets(st.integers(4, 7)))
    message = {key: totals_of(data.draw, one.count, key) for key in keys}
    at_most = data.draw(st.sampled_from([None, 4]))
    joined = one.join(factors, message, at_most)
    sent = plain(Candidates(one.size, one.codes, factors, message))

    def times(entry, factor):
        return {
            measure: value * factor if measure in (COUNT, WHOLE_SUM) else value
            for measure, value in entry.items()
        }

    expected = {}
    for code, (weight, entries) in plain(one).items():
        factor, others = sent[code]
        both = {key: times(entry, factor) for key, entry in entries.items()}
        both |= {key: times(entry, weight) for key, entry in others.items()}
        expected[code] = weight * factor, both
    assert plain(joined) == expected
    check_bound(joined)


@given(candidates())
def test_dead_codes_are_those_of_weight_zero(one):
    alive = {code: entry for code, entry in plain(one).items() if entry[0]}
    assert plain(one.alive()) == alive
    assert np.flatnonzero(one.mask()).tolist() == sorted(alive)
    assert one.total() == sum(weight for weight, _ in plain(one).values())
    spread = one.spread_out(one.multiplicities())
    assert {code: weight for code, weight in enumerate(spread.tolist()) if weight} == {
        code: weight for code, (weight, _) in alive.items()
    }


@given(candidates())
def test_all_codes_as_one_add_up(one):
    weights, totals = one.summed()
    assert weights.tolist() == [one.total()]
    assert totals.keys() == one.totals.keys()
    for key, entry in totals.items():
        parts = [entries[key] for _, entries in plain(one).values()]
        for measure, found in entry.measures.items():
            values = [part[measure] for part in parts]
            if measure in (COUNT, WHOLE_SUM):
                assert found.tolist() == [sum(values)]
            else:
                known = [value for value in values if value >= 0]
                chosen = (min if measure is LEAST else max)(known, default=-1)
                assert found.tolist() == [chosen]


@given(st.sets(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_positions_are_places_in_the_list(within, codes):
    listed = sorted(within)
    expected = [listed.index(code) if code in within else -1 for code in codes]
    found = positions(np.array(listed, np.int32), np.array(codes, np.int32))
    assert found.tolist() == expected


def test_weights_that_pass_64_bits_are_refused():
    huge = Candidates(2, None, np.array([2**62, 2**62], np.int64))
    with pytest.raises(OmniGraphError):
        huge.total()
    with pytest.raises(OmniGraphError):
        huge.join(np.array([1, 2], np.int64), {})
    with pytest.raises(OmniGraphError):
        refuse_wrap(huge, lambda part: part.sum(keepdims=True))
    refuse_wrap(huge, lambda part: part)
    assert huge.join(np.array([1, 1], np.int64), {}).weights.tolist() == [2**62, 2**62]


@pytest.mark.parametrize("beyond", [-1, 0, 76, 900])
def test_counts_close_to_the_bound_are_exact(beyond):
    """Sums and products that floats cannot tell from the largest count."""
    rng = np.random.default_rng(3)
    for count in (3, 17, 130, 1000):
        for _ in range(40):
            weights = rng.integers(2**62 // count, 2**63 // count, count)
            weights[0] += 2**63 + beyond - sum(map(int, weights))
            assert sum(map(int, weights)) == 2**63 + beyond
            given = Candidates(count, None, weights)
            everything = csr_of(*np.array([[0] * count, range(count)], np.int32), (1, count))
            if beyond < 0:
                assert given.total() == 2**63 - 1
                refuse_wrap(given, partial(frontier.pull, everything))
                continue
            with pytest.raises(ResourceLimit):
                given.total()
            with pytest.raises(ResourceLimit):
                refuse_wrap(given, partial(frontier.pull, everything))


@pytest.mark.parametrize("factor", [2, 3, 5, 7, 11, 1000, 2**31 + 11, 2**53 + 1])
def test_products_close_to_the_bound_are_exact(factor):
    largest = (2**63 - 1) // factor
    right = np.array([factor])
    assert times(np.array([largest]), right).tolist() == [largest * factor]
    for more in (1, 100):
        with pytest.raises(ResourceLimit):
            times(np.array([largest + more]), right)
