"""Hop bounds against the search of the oracle."""

import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.lang.query import ir
from omnigraph.read.kernels import hops
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.kernels.twins import in_numpy
from tests.oracle.graph import Graph
from tests.oracle.searches import reached as searched
from tests.read.csr_helpers import adjacency, edges, only

FAR = 2**63 - 1
STEP = ir.Expand("x", "y", "Knows", ir.Direction.OUT, "Person", "Person")


@pytest.fixture(scope="module", params=["numpy", "numba"], autouse=True)
def world(request):
    with pytest.MonkeyPatch.context() as patch:
        only(request.param, patch)
        yield request.param


class Case:
    """A graph with hop bounds, and the pairs the oracle finds from either end."""

    def __init__(self, size, pairs, direction, inverse, least, most):
        self.size, self.least, self.most, self.inverse = size, least, most, inverse
        along = {ir.Direction.OUT: pairs, ir.Direction.IN: [(b, a) for a, b in pairs]}
        along[ir.Direction.BOTH] = along[ir.Direction.OUT] + along[ir.Direction.IN]
        self.csr = adjacency(along[direction], size, size)
        self.loops = np.array([(v, v) in pairs for v in range(size)], np.bool_)
        graph = Graph(
            {"Person": {str(v): {} for v in range(size)}},
            {"Knows": [(str(i), str(a), str(b), {}) for i, (a, b) in enumerate(pairs)]},
        )
        step = replace(
            STEP, direction=direction, min_hops=least, max_hops=min(most, 99), inverse=inverse
        )
        self.reached = [
            sorted(
                {
                    int(node.id)
                    for node, _ in searched(graph, step, str(v), lambda _: True, lambda _: True)
                }
            )
            for v in range(size)
        ]

    def bounds(self, loops):
        return {
            "least": self.least, "most": self.most, "loops": loops, "inverse": self.inverse
        }  # fmt: skip


@st.composite
def cases(draw):
    size, _, pairs = draw(edges(square=True, most=9, edges_at_most=25))
    least = draw(st.integers(1, 4) | st.just(50))
    most = draw(st.integers(least, least + 3) | st.just(FAR))
    return Case(size, pairs, draw(st.sampled_from(ir.Direction)), draw(st.booleans()), least, most)


def starts_of(case):
    if not case.size:
        return st.just(np.zeros(0, np.int32))
    return st.lists(st.integers(0, case.size - 1), max_size=12).map(
        lambda nodes: np.array(nodes, np.int32)
    )


def gathered(chunks):
    return sorted((i, y) for index, targets in chunks for i, y in zip(index, targets, strict=True))


@given(cases(), st.data(), st.booleans(), st.sampled_from([1, 20, hops.CHUNK]))
@settings(deadline=None)
def test_hops_reach_what_the_oracle_reaches(case, data, told_loops, chunk):
    starts = data.draw(starts_of(case))
    bounds = case.bounds(case.loops if told_loops else None)
    reached = [case.reached[x] for x in starts]
    chunks = list(hops.reach(case.csr, starts, **bounds, chunk=chunk))
    assert gathered(chunks) == [(i, y) for i, found in enumerate(reached) for y in found]
    assert all(len(targets) < chunk + max(case.size, 1) for _, targets in chunks)
    assert all(
        (index.dtype, targets.dtype) == (np.int64, np.int32) and np.all(np.diff(index) >= 0)
        for index, targets in chunks
    )
    counts = hops.reach_count(case.csr, starts, **bounds)
    assert counts.tolist() == [len(found) for found in reached]
    weights = np.arange(case.size) ** 3 - 50
    expected = [int(weights[found].sum()) for found in reached]
    assert hops.reach_count(case.csr, starts, weights=weights, **bounds).tolist() == expected
    most = min(case.most, case.size)
    if case.least <= most:
        counted = partial(
            in_numpy(hops.counted), case.csr, starts, case.least, most, case.loops, case.inverse
        )
        assert counted(weights, marks=chunk).tolist() == expected
        assert counted(None, marks=chunk).tolist() == counts.tolist()
        found, nodes = in_numpy(hops.emitted)(
            case.csr, starts, case.least, most, case.loops, case.inverse, hops.CHUNK, targets=2
        )
        assert found.tolist() == counts.tolist()
        assert nodes.tolist() == [y for some in reached for y in some]
        found, nodes = in_numpy(hops.emitted)(
            case.csr, starts, case.least, most, case.loops, case.inverse, hops.CHUNK, listed=20
        )
        assert len(found) > 0 or not len(starts)
        assert found.tolist() == counts.tolist()[: len(found)]
        assert nodes.tolist() == [y for some in reached[: len(found)] for y in some]


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 3), (2, 2), (3, 5), (2, 1_000_000)])
@pytest.mark.parametrize("in_waves", [False, True])
def test_many_starts_count_what_each_counts_alone(inverse, least, most, in_waves, monkeypatch):
    compiled = pytest.importorskip("omnigraph.read.kernels.hops_numba")
    monkeypatch.setattr(compiled, "_waves_pay", lambda *_: in_waves)
    rng = np.random.default_rng(11)
    size = 300
    # Sparse enough that distances differ; node 299 has no edge.
    ends = rng.integers(0, size - 1, (700, 2)).tolist()
    csr = adjacency([*map(tuple, ends), *((v, v) for v in range(0, 290, 7))], size, size)
    loops = np.array([v in csr.row(v) for v in range(size)])
    starts = rng.integers(0, size, 900).astype(np.int32)
    for weights in (None, rng.choice([0, 1, 1, -5, 2**40], size), loops.astype(np.int64)):
        bounds = (least, most, loops, inverse, weights)
        expected = in_numpy(hops.counted)(csr, starts, *bounds)
        assert expected.any()
        np.testing.assert_array_equal(compiled.counted(csr, starts, *bounds), expected)


@pytest.mark.parametrize(("back", "dear"), [(False, False), (True, True)])
def test_one_hub_among_the_starts_does_not_make_all_searches_dear(back, dear, monkeypatch):
    """A hub that leads everywhere, first of all, beside a ring; or one that everybody leads to."""
    compiled = pytest.importorskip("omnigraph.read.kernels.hops_numba")
    told = []
    monkeypatch.setattr(compiled, "_waves_pay", lambda *given: told.append(given[-1]))
    size = 2000
    star = [(0, v) for v in range(1, size)]
    ring = [(v, v % (size - 1) + 1) for v in range(1, size)]
    csr = adjacency([*star, *(((v, 0) for v in range(1, size)) if back else ring)], size, size)
    everyone = np.arange(size, dtype=np.int32)
    bounds = (1, 2, np.zeros(size, np.bool_), False, None)
    counts = compiled.counted(csr, everyone, *bounds)
    # Two steps lead a leaf of the star everywhere, a node of the ring to two others.
    assert counts.tolist() == [size - 1] + [size - 1 if back else 2] * (size - 1)
    assert (told[0] > size / 2) == dear


def test_waves_span_blocks_of_targets(monkeypatch):
    compiled = pytest.importorskip("omnigraph.read.kernels.hops_numba")
    monkeypatch.setattr(compiled, "_waves_pay", lambda *_: True)
    size = 3 << compiled.BLOCK
    ring = [(v, (v + (1 << compiled.BLOCK)) % size) for v in range(0, size, 64)]
    a, b = np.array(ring).T
    indptr = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(a, minlength=size), out=indptr[1:])
    csr = replace(
        adjacency([], 0, 0), indptr=indptr, indices=b.astype(np.int32), shape=(size, size)
    )
    starts = np.arange(0, size, 16, dtype=np.int32)
    counts = compiled.counted(csr, starts, 1, 9, np.zeros(size, np.bool_), False, None)
    # Three blocks make a ring of three nodes; only every fourth start is on one.
    assert counts.tolist() == [2, 0, 0, 0] * (len(starts) // 4)


@given(cases())
def test_the_inverse_of_hops_has_the_same_pairs(case):
    # The transpose of what is reached from every node, and the search from the other end.
    if case.inverse:
        return
    pairs = {(x, y) for x in range(case.size) for y in case.reached[x]}
    turned = adjacency(
        [(b, a) for a in range(case.size) for b in case.csr.row(a)], case.size, case.size
    )
    everyone = np.arange(case.size, dtype=np.int32)
    bounds = case.bounds(case.loops) | {"inverse": True}
    assert {(x, y) for y, x in gathered(hops.reach(turned, everyone, **bounds))} == pairs


def reached(pairs, size, starts, least, most, inverse=False):
    csr = adjacency(pairs, size, size)
    chunks = hops.reach(csr, np.array(starts, np.int32), least, most, inverse=inverse)
    return sorted({y for _, y in gathered(chunks)})


def test_a_shortcut_hides_the_longer_way():
    assert reached([(0, 1), (1, 2), (0, 2)], 3, [0], 2, 3) == []


def test_a_cycle_does_not_emit_its_start():
    assert reached([(0, 1), (1, 0)], 2, [0], 1, 5) == [1]


def test_a_self_loop_emits_its_node_one_hop_late():
    assert reached([(0, 1), (1, 1)], 2, [0], 2, 2) == [1]
    assert reached([(0, 1), (1, 1)], 2, [0], 3, 3) == []
    assert reached([(0, 0)], 1, [0], 1, 1) == [0]


def test_a_start_is_reached_from_another_start_but_not_by_its_own_cycle():
    cycle = [(0, 1), (1, 2), (2, 0)]
    assert reached(cycle, 3, [0], 1, 9) == [1, 2]
    assert reached(cycle, 3, [0, 2], 1, 1) == [0, 1]
    assert reached(cycle, 3, [0, 1], 1, 2) == [0, 1, 2]


def test_hubs_are_expected_to_cost_much():
    """From a leaf of a star one hop leads to the hub, and the next one everywhere."""
    size = 1000
    hub, leaves = np.zeros(size - 1, np.int32), np.arange(1, size, dtype=np.int32)
    star = csr_of(np.concatenate([hub, leaves]), np.concatenate([leaves, hub]), (size, size))
    assert hops._followed(star, 1) < 3
    assert hops._followed(star, 2) > size / 4


def test_searches_look_at_some_neighbours_at_a_time():
    size = 250
    rows, columns = (part.ravel().astype(np.int32) for part in np.indices((size, size)))
    csr = csr_of(rows, columns, (size, size))
    loops = np.ones(size, np.bool_)
    tracemalloc.start()
    try:
        counts = in_numpy(hops.counted)(
            csr, np.arange(size, dtype=np.int32), 1, 3, loops, False, None
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A node with a loop emits itself.
    assert counts.tolist() == [size] * size
    # All neighbours of the second step at once would be 15.6 million, of 28 bytes each.
    assert peak < 100 << 20


def test_the_few_nodes_of_each_of_many_searches_are_listed():
    # Trees of comments: 1,000 posts, and 99,000 comments each on one of what came before it.
    rng = np.random.default_rng(1)
    size, posts = 100_000, 1_000
    on = np.concatenate(
        [np.full(posts, -1), rng.integers(0, np.arange(posts, size), dtype=np.int64)]
    )
    csr = csr_of(np.arange(posts, size, dtype=np.int32), on[posts:].astype(np.int32), (size, size))
    starts = rng.integers(0, size, 300).astype(np.int32)
    expected = []
    for at, start in enumerate(starts.tolist()):
        node = start
        while node >= 0:
            expected.append((at, node))
            node = int(on[node])
    loops = np.zeros(size, np.bool_)
    counts, nodes = in_numpy(hops.emitted)(csr, starts, 0, size, loops, False, hops.CHUNK)
    # With a mark for each node of each search, ten of them would be searched from at a time.
    assert len(counts) == len(starts)
    found = zip(np.repeat(np.arange(len(starts)), counts).tolist(), nodes.tolist(), strict=True)
    assert list(found) == sorted(expected)
