"""Least costs, in NumPy and compiled, judged by trying to improve every edge until none helps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cancel import Cancel, watching
from omnigraph.read.kernels import paths
from omnigraph.read.kernels.csr import MultiCsr
from omnigraph.read.kernels.twins import in_numpy
from tests.read.csr_helpers import few

INFINITE = float("inf")
WEIGHTS = [0.0, 0.1, 0.2, 0.3, 1.0, 7.5, 1e308, INFINITE]


def multi(edges, size):
    """The adjacency of stored edges, parallel ones included."""
    order = sorted(range(len(edges)), key=lambda at: edges[at][:2])
    sizes = [sum(edge[0] == node for edge in edges) for node in range(size)]
    targets = np.array([edges[at][1] for at in order], np.int32)
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return MultiCsr(indptr, targets, np.array(order, np.int32), (size, size))


def costs_of(edges, size, start):
    """The least costs, an edge at a time."""
    costs = [INFINITE] * size
    costs[start] = 0.0
    for _ in range(size):
        for source, target, weight in edges:
            costs[target] = min(costs[target], costs[source] + weight)
    return costs


@pytest.fixture(params=["numpy", "numba"], scope="module")
def least_costs(request):
    if request.param == "numpy":
        found = in_numpy(paths.least_costs)
    else:
        found = pytest.importorskip("omnigraph.read.kernels.paths_numba").least_costs
    # As around every query: a sum that is too large is infinite.
    return np.errstate(over="ignore")(found)


def node(size):
    return st.integers(0, size - 1)


EDGES = st.integers(1, 9).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.tuples(node(size), node(size), st.sampled_from(WEIGHTS)), max_size=25),
        node(size),
    )
)


@few
@given(made=EDGES)
def test_costs_are_the_least_there_are(least_costs, made):
    size, edges, start = made
    weights = np.array([weight for *_, weight in edges], np.float64)
    found = least_costs(multi(edges, size), weights, start)
    assert found.tolist() == costs_of(edges, size, start)


def test_a_long_chain_with_shortcuts(least_costs):
    """Every node is offered a dear way first, and a cheaper one later."""
    size = 400
    edges = [(at, at + 1, 1.0) for at in range(size - 1)] + [
        (0, at, 3.0 * at) for at in range(1, size)
    ]
    weights = np.array([weight for *_, weight in edges])
    assert least_costs(multi(edges, size), weights, 0).tolist() == list(map(float, range(size)))


class CountedLooks(Cancel):
    """A token that never fires, and counts how often work looked at it."""

    looks = 0

    def _look(self):
        self.looks += 1
        super()._look()


def test_a_search_looks_whether_it_shall_stop(least_costs):
    nothing, some = CountedLooks(), CountedLooks()
    with watching(nothing):
        pass
    with watching(some):
        least_costs(multi([(0, 1, 1.0)], 2), np.array([1.0]), 0)
    assert some.looks > nothing.looks
