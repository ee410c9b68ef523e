"""Integers of 128 bits against Python's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.values.numbers import narrowed, products, settled

EDGES = [0, 1, -1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63)]
signed = st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1)
unsigned = st.sampled_from([0, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
weights = st.sampled_from([0, 1, 2**32, 2**63 - 1]) | st.integers(0, 2**63 - 1)


def numbers(limbs: np.ndarray) -> list[int]:
    return [sum(int(limb) << (32 * at) for at, limb in enumerate(one)) for one in limbs.T]


@pytest.mark.parametrize(("values", "dtype"), [(signed, np.int64), (unsigned, np.uint64)])
@given(data=st.data())
def test_products_and_their_sums_are_exact(values, dtype, data):
    pairs = data.draw(st.lists(st.tuples(values, weights), min_size=1, max_size=8))
    limbs = products(np.array([v for v, _ in pairs], dtype), np.array([w for _, w in pairs]))
    expected = [value * weight for value, weight in pairs]
    assert numbers(limbs) == expected
    total = settled(limbs.sum(axis=1, keepdims=True))
    if abs(sum(expected)) < 2**127:
        assert numbers(total) == [sum(expected)]
    assert ((total[:3] >= 0) & (total[:3] < 2**32)).all()


@given(st.lists(signed, min_size=1, max_size=8))
def test_without_weights_each_counts_once(values):
    assert numbers(products(np.array(values), None)) == values


@given(st.lists(st.tuples(signed, weights), min_size=1, max_size=8))
def test_what_fits_64_bits_comes_back(pairs):
    limbs = products(np.array([v for v, _ in pairs]), np.array([w for _, w in pairs]))
    narrow, fits = narrowed(limbs)
    for at, (value, weight) in enumerate(pairs):
        is_narrow = -(2**63) <= value * weight < 2**63
        assert fits[at] == is_narrow
        assert not is_narrow or narrow[at] == value * weight
