"""Small adjacencies for tests, built the slow and obvious way."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from omnigraph.read.kernels import twins
from tests.sampling import examples

few = settings(deadline=None, max_examples=examples(40))
int64 = st.integers(-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Adjacent:
    """Targets by row, as `topology.Csr` has them; `positions` as `topology.MultiCsr`."""

    indptr: np.ndarray
    indices: np.ndarray
    shape: tuple[int, int]
    positions: np.ndarray

    def row(self, v):
        return self.indices[self.indptr[v] : self.indptr[v + 1]].tolist()


def adjacency(pairs, rows, columns, *, distinct=True):
    numbered = sorted((a, b, place) for place, (a, b) in enumerate(pairs))
    if distinct:
        numbered = sorted({(a, b): place for a, b, place in numbered}.items())
        numbered = [(a, b, place) for (a, b), place in numbered]
    lengths = Counter(a for a, _, _ in numbered)
    return Adjacent(
        np.cumsum([0, *(lengths[v] for v in range(rows))]).astype(np.int64),
        np.array([b for _, b, _ in numbered], np.int32),
        (rows, columns),
        np.array([place for _, _, place in numbered], np.int32),
    )


@st.composite
def edges(draw, *, square=False, most=12, edges_at_most=40):
    """Row count, column count and pairs, parallel ones and self-loops among them."""
    rows = draw(st.integers(0, most))
    columns = rows if square else draw(st.integers(0, most))
    if not rows or not columns:
        return rows, columns, []
    pair = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    return rows, columns, draw(st.lists(pair, max_size=edges_at_most))


def codes(size, *, most=20):
    if not size:
        return st.just(np.zeros(0, np.int32))
    return st.lists(st.integers(0, size - 1), max_size=most).map(lambda c: np.array(c, np.int32))


def only(world, patch):
    """Have every loop run in NumPy, or compiled."""
    if world == "numba":
        pytest.importorskip("numba")
    prices = twins.Prices(*[0 if world == "numba" else float("inf")] * 5)
    patch.setattr(twins, "account", twins.Account(prices, twins.KeptPrices(None)))


def wrapped(number):
    return (number + 2**63) % 2**64 - 2**63


def values(data, size, elements, dtype):
    return np.array(data.draw(st.lists(elements, min_size=size, max_size=size)), dtype)


def same(actual, expected, dtype):
    assert actual.dtype == dtype
    assert actual.tolist() == expected
