"""The loops in NumPy and their twins in Numba give the same results."""

import numpy as np
import pytest

from omnigraph.algorithms.kernels import (
    components,
    components_numba,
    core_numbers,
    core_numbers_numba,
    moves,
    moves_numba,
    shortest,
    shortest_numba,
    sums,
    sums_numba,
    triangles,
    triangles_numba,
    votes,
    votes_numba,
)
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.kernels.twins import in_numpy

# Nodes and edges: none, a node with a loop, sparse, dense.
SIZES = [(0, 0), (1, 3), (50, 20), (60, 150), (300, 3_000), (2_000, 2_500)]
pytestmark = pytest.mark.parametrize("size", SIZES, ids=str)


def random_csr(size, seed=0):
    nodes, edges = size
    dice = np.random.default_rng(seed)
    ends = dice.integers(0, max(nodes, 1), (2, edges), np.int32)
    return csr_of(*ends, (nodes, nodes))


def random_neighbours(size):
    csr = random_csr(size)
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), csr.degrees)
    ends = np.concatenate([rows, csr.indices]), np.concatenate([csr.indices, rows])
    return csr_of(*ends, csr.shape).without_loops()


def test_weighted_sums(size):
    csr, dice = random_csr(size), np.random.default_rng(1)
    given = csr, dice.random(len(csr.indices)), dice.random(csr.shape[1])
    assert np.array_equal(in_numpy(sums.weighted_sums)(*given), sums_numba.weighted_sums(*given))


@pytest.mark.parametrize("name", ["weak", "strong"])
def test_components(size, name):
    csr = random_csr(size)
    one = in_numpy(getattr(components, name))(csr)
    assert np.array_equal(one, getattr(components_numba, name)(csr))


@pytest.mark.parametrize("is_directed", [False, True])
def test_triangles(size, is_directed):
    near, out = random_neighbours(size), random_csr(size)
    rows = np.repeat(np.arange(size[0], dtype=np.int32), out.degrees)
    into = csr_of(out.indices, rows, out.shape)
    forward = triangles.forward_of(near, out, into if is_directed else None)
    given = forward.csr, forward.worth
    assert np.array_equal(in_numpy(triangles.triangles)(*given), triangles_numba.triangles(*given))


def test_entries_that_lead_to_later_nodes(size):
    near = random_neighbours(size)
    rank = np.random.default_rng(2).permutation(size[0]).astype(np.int32)
    order = np.argsort(rank).astype(np.int32)
    one = in_numpy(triangles.entries_ahead)(near, order, rank)
    other = triangles_numba.entries_ahead(near, order, rank)
    assert all(np.array_equal(here, there) for here, there in zip(one, other, strict=True))
    assert len(one.columns) * 2 == len(near.indices)


@pytest.mark.parametrize("is_directed", [False, True])
def test_votes(size, is_directed):
    near, more = random_csr(size), random_csr(size, 1) if is_directed else None
    labels = np.arange(size[0], dtype=np.int32)
    for _ in range(4):
        one, other = in_numpy(votes.vote)(near, more, labels), votes_numba.vote(near, more, labels)
        assert np.array_equal(one, other)
        labels = one


def test_cores(size):
    near = random_neighbours(size)
    assert np.array_equal(in_numpy(core_numbers.cores)(near), core_numbers_numba.cores(near))


def random_level(size):
    near, dice = random_neighbours(size), np.random.default_rng(3)
    weights = dice.random(len(near.indices))
    rows = np.repeat(np.arange(size[0]), near.degrees)
    level = moves.Level(near.indptr, near.indices, weights, np.bincount(rows, weights, size[0]))
    return level, max(float(weights.sum()) / 2, 1.0)


def test_moves(size):
    level, whole = random_level(size)
    one, other = moves.new_communities(level), moves.new_communities(level)
    for _ in range(3):
        moved = in_numpy(moves.sweep)(level, one, whole, 1.0)
        assert moved == moves_numba.sweep(level, other, whole, 1.0)
        compared = [name for name in moves.Communities._fields if name != "touched"]
        assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in compared)


def test_nodes_that_are_passed_over_would_not_move(size):
    level, whole = random_level(size)
    one, other = moves.new_communities(level), moves.new_communities(level)
    moved, passed = 1, 0
    while moved:
        moved = moves_numba.sweep(level, one, whole, 1.0)
        passed += int((one.until > one.drift[0]).sum())
        other.until[:] = 0.0  # looks at every node
        assert moved == moves_numba.sweep(level, other, whole, 1.0)
        assert np.array_equal(one.of, other.of)
    assert passed or not len(level.indices)


def test_shortest_ways(size):
    csr = random_csr(size)
    sources = np.arange(min(size[0], 40), dtype=np.int32)
    one, other = np.zeros(size[0]), np.zeros(size[0])
    in_numpy(shortest.between)(csr, sources, one)
    shortest_numba.between(csr, sources, other)
    assert other == pytest.approx(one, abs=1e-9)
