"""Searches from both ends, judged by walking through all paths."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.kernels.meeting import distance, least_way
from tests.read.csr_helpers import adjacency, edges, few


def shortest(size, pairs, start, end, most):
    """The least of the shortest paths, by trying all ways of each length in turn; None where there is none."""
    ways = [[start]]
    for _ in range(min(most, size) + 1):
        found = sorted(way for way in ways if way[-1] == end)
        if found:
            return found[0]
        ways = [[*way, b] for way in ways for a, b in set(pairs) if a == way[-1] and b not in way]
        if not ways or len(ways[0]) > most + 1:
            return None
    return None


@few
@given(edges(square=True, most=7, edges_at_most=14), st.sampled_from([0, 1, 2, 3, 99]))
def test_every_pair_has_the_path_that_trying_all_ways_finds(made, most):
    size, _, pairs = made
    out = adjacency(pairs, size, size)
    back = adjacency([(b, a) for a, b in pairs], size, size)
    for start, end in product(range(size), repeat=2):
        way = shortest(size, pairs, start, end, most)
        assert least_way(out, back, start, end, most) == way
        assert distance(out, back, start, end, most) == (-1 if way is None else len(way) - 1)


@pytest.mark.parametrize("longest", [39, 40, 41])
def test_a_long_way_is_found_up_to_the_number_of_edges_asked_for(longest):
    size = 41
    chain = [(at, at + 1) for at in range(size - 1)]
    out = adjacency(chain, size, size)
    back = adjacency([(b, a) for a, b in chain], size, size)
    found = least_way(out, back, 0, 40, longest)
    assert found == (list(range(41)) if longest >= 40 else None)


def test_a_way_from_a_hub_is_found_from_its_other_end():
    size = 1000
    hub = [(0, at) for at in range(1, size - 2)] + [(3, size - 2), (size - 2, size - 1)]
    out = adjacency(hub, size, size)
    back = adjacency([(b, a) for a, b in hub], size, size)
    assert least_way(out, back, 0, size - 1, 99) == [0, 3, size - 2, size - 1]
