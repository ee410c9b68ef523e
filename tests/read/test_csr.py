"""Adjacency carried over to new numbers and more pairs is what those pairs alone would give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.kernels.csr import (
    csr_and_repeats,
    csr_by_parts,
    csr_of,
    multi_csr_by_parts,
    multi_csr_of,
    pair_keys,
)
from omnigraph.read.kernels.pairs import marked
from tests.read.csr_helpers import edges, only
from tests.read.view_helpers import check_same_adjacency


def of(pairs, shape):
    rows = np.array([row for row, _ in pairs], np.int32)
    columns = np.array([column for _, column in pairs], np.int32)
    return csr_of(rows, columns, shape)


@st.composite
def moves(draw, size, used):
    """New numbers, ascending; what is not used may have none. And how many numbers there are."""
    steps = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    numbers = np.cumsum([0, *steps])[1:].astype(np.int32) - 1
    lost = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    count = int(numbers[-1] + 1 if size else 0) + draw(st.integers(0, 3))
    for place in range(size):
        if lost[place] and place not in used:
            numbers[place] = -1
    return numbers, count


@given(st.data(), edges())
def test_new_numbers(data, drawn):
    rows, columns, pairs = drawn
    row_moves, new_rows = data.draw(moves(rows, {row for row, _ in pairs}))
    column_moves, new_columns = data.draw(moves(columns, {column for _, column in pairs}))
    shape = new_rows, new_columns
    moved = [(row_moves[row], column_moves[column]) for row, column in pairs]
    carried = of(pairs, (rows, columns)).renumbered(row_moves, column_moves, shape)
    check_same_adjacency(carried, of(moved, shape))


@given(edges(), st.data())
def test_more_pairs(drawn, data):
    rows, columns, pairs = drawn
    count = data.draw(st.integers(0, len(pairs)))
    old, new = pairs[:count], pairs[count:]
    ends = [np.array([pair[side] for pair in new], np.int32) for side in (0, 1)]
    grown = of(old, (rows, columns)).with_pairs(*ends)
    check_same_adjacency(grown, of(pairs, (rows, columns)))


# Whole pieces are copied where few entries move, and otherwise every entry is looked at.
@pytest.mark.parametrize("moving", [1, 7, 300])
def test_entries_that_went_and_others_that_came(moving):
    random, shape = np.random.default_rng(moving), (40, 50)
    rows, columns = (random.integers(0, size, 1_000, np.int32) for size in shape)
    positions = random.permutation(1_000).astype(np.int32)
    before, gone, new = slice(0, 1_000 - moving), slice(0, moving), slice(1_000 - moving, None)
    after = slice(moving, None)

    def entries(which):
        return rows[which], columns[which], positions[which]

    found = multi_csr_of(*entries(before), shape).changed(entries(gone), entries(new))
    fresh = multi_csr_of(*entries(after), shape)
    for name in fresh.ARRAYS:
        assert np.array_equal(getattr(found, name), getattr(fresh, name)), name

    pairs, repeats = csr_and_repeats(rows[before], columns[before], shape)
    went, came = (pair_keys(rows[which], columns[which]) for which in (gone, new))
    found, found_repeats = pairs.changed(repeats, pairs.difference(repeats, went, came))
    fresh, fresh_repeats = csr_and_repeats(rows[after], columns[after], shape)
    check_same_adjacency(found, fresh)
    assert np.array_equal(found_repeats, fresh_repeats)


@given(edges())
def test_rows_with_neighbours_and_with_one_at_most(drawn):
    rows, columns, pairs = drawn
    csr = of(pairs, (rows, columns))
    near = [sorted({column for row, column in pairs if row == wanted}) for wanted in range(rows)]
    assert csr.filled.tolist() == [row for row, found in enumerate(near) if found]
    if any(len(found) > 1 for found in near):
        assert csr.function is None
    else:
        assert csr.function.tolist() == [found[0] if found else -1 for found in near]


@given(edges(), st.data())
def test_pairs_with_equal_numbers(drawn, data):
    rows, columns, pairs = drawn
    numbers = [
        np.array(data.draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size)), np.int32)
        for size in (rows, columns)
    ]
    same = [(a, b) for a, b in pairs if numbers[0][a] == numbers[1][b] >= 0]
    kept = of(pairs, (rows, columns)).where_equal(*numbers)
    check_same_adjacency(kept, of(same, (rows, columns)))


@pytest.mark.parametrize("world", ["numpy", "numba"])
@given(drawn=edges())
def test_a_bit_for_every_pair(world, drawn):
    rows, columns, pairs = drawn
    csr = of(pairs, (rows, columns))
    bits = csr.bits_for(1000)
    assert (bits is not None) == bool(pairs)
    if bits is not None:
        a, b = np.indices((rows, columns), np.int32).reshape(2, -1)
        with pytest.MonkeyPatch.context() as patch:
            only(world, patch)
            found = marked(bits, columns, a, b)
        assert found.dtype == np.bool_
        assert set(zip(a[found].tolist(), b[found].tolist(), strict=True)) == set(pairs)


def test_no_bits_for_few_questions_or_much_room():
    pairs = [(at, at) for at in range(100)]
    assert of(pairs, (100, 100)).bits_for(1) is None
    assert of(pairs, (10_000, 10_000)).bits_for(1000) is None


@given(edges(), st.integers(1, 50))
def test_parts_together_are_the_whole(drawn, most):
    rows, columns, pairs = drawn
    src, dst = (np.array([pair[side] for pair in pairs], np.int32) for side in (0, 1))
    shape, positions = (rows, columns), np.arange(len(pairs), dtype=np.int32)
    parts = list(csr_by_parts([(src, dst)], shape, most))
    check_parts(parts, csr_of(src, dst, shape), most)
    multi = list(multi_csr_by_parts([(src, dst)], shape, most))
    check_parts(multi, multi_csr_of(src, dst, positions, shape), most)


@given(edges(square=True), st.integers(1, 50))
def test_parts_of_both_directions_have_a_loop_once(drawn, most):
    size, _, pairs = drawn
    src, dst = (np.array([pair[side] for pair in pairs], np.int32) for side in (0, 1))
    both, shape = [(src, dst), (dst, src)], (size, size)
    expected = [(*pair, at) for at, pair in enumerate(pairs)]
    expected += [(dst, src, at) for at, (src, dst) in enumerate(pairs) if src != dst]
    found = []
    first = 0
    for part in multi_csr_by_parts(both, shape, most):
        near = np.repeat(np.arange(part.shape[0]) + first, part.degrees)
        found += zip(near.tolist(), part.indices.tolist(), part.positions.tolist(), strict=True)
        first += part.shape[0]
    assert sorted(found) == sorted(expected)
    once = list(csr_by_parts(both, shape, most))
    wanted = csr_of(np.concatenate([src, dst]), np.concatenate([dst, src]), shape)
    check_parts(once, wanted, most)


def check_parts(parts, whole, most):
    """Consecutive rows of the whole; only a single row may have more pairs than wanted."""
    assert sum(part.shape[0] for part in parts) == whole.shape[0]
    for part in parts:
        assert part.shape[0] == 1 or part.indices.size <= most
    degrees = [part.degrees for part in parts]
    assert np.concatenate([*degrees, []]).tolist() == whole.degrees.tolist()
    for name in whole.ARRAYS[1:]:
        joined = np.concatenate([*(getattr(part, name) for part in parts), []])
        assert joined.tolist() == getattr(whole, name).tolist()
