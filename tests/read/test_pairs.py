"""Every loop over pairs of rows, in NumPy and compiled, against the same loop in plain Python."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.read.kernels import pairs
from tests.read.csr_helpers import adjacency, codes, edges, few, int64, only, same, values, wrapped


@pytest.fixture(scope="module", params=["numpy", "numba"])
def loops(request):
    with pytest.MonkeyPatch.context() as patch:
        only(request.param, patch)
        yield pairs


@few
@given(edges(), st.data())
def test_contains(loops, drawn, data):
    rows, columns, ends = drawn
    csr = adjacency(ends, rows, columns)
    if not rows or not columns:
        return
    a = data.draw(codes(rows))
    b = values(data, len(a), st.integers(0, columns - 1), np.int32)
    same(loops.contains(csr, a, b), [y in csr.row(x) for x, y in zip(a, b, strict=True)], np.bool_)


@few
@given(edges(), edges(), st.data())
def test_common_targets(loops, one, other, data):
    width = max(one[1], other[1])
    left = adjacency(one[2], one[0], width)
    right = adjacency(other[2], other[0], width)
    if not one[0] or not other[0]:
        return
    a = data.draw(codes(one[0]))
    b = values(data, len(a), st.integers(0, other[0] - 1), np.int32)
    weights = data.draw(st.none() | st.just(values(data, width, int64, np.int64)))
    mask = data.draw(st.none() | st.just(values(data, width, st.booleans(), np.bool_)))
    shared = [
        [
            w
            for w in left.row(x)
            if w in right.row(y) and (mask is None or mask[w])
        ]
        for x, y in zip(a, b, strict=True)
    ]  # fmt: skip
    worth = [1] * width if weights is None else weights.tolist()
    expected = [wrapped(sum(worth[w] for w in found)) for found in shared]
    same(loops.common_count(left, a, right, b, weights, mask), expected, np.int64)
    index, targets = loops.common_expand(left, a, right, b, mask)
    same(index, [i for i, found in enumerate(shared) for _ in found], np.int64)
    same(targets, [w for found in shared for w in found], np.int32)


def uneven(rng, rows, columns, count):
    """Some rows far longer than the others, some empty."""
    a = (rows * rng.random(count) ** 4).astype(int).tolist()
    b = (columns * rng.random(count) ** 2).astype(int).tolist()
    return adjacency(list(zip(a, b, strict=True)), rows, columns)


def test_common_targets_of_rows_of_very_different_lengths(loops):
    rng = np.random.default_rng(5)
    left, right = uneven(rng, 50, 300, 3000), uneven(rng, 40, 300, 500)
    a = rng.integers(0, 50, 700).astype(np.int32)
    b = rng.integers(0, 40, 700).astype(np.int32)
    shared = [sorted(set(left.row(x)) & set(right.row(y))) for x, y in zip(a, b, strict=True)]
    assert max(map(len, shared)) > 20
    in_chunks = partial(pairs.common_count, chunk=100)
    for common_count in (loops.common_count, in_chunks):
        same(common_count(left, a, right, b), list(map(len, shared)), np.int64)
    in_chunks = partial(pairs.common_expand, chunk=100)
    for common_expand in (loops.common_expand, in_chunks):
        index, targets = common_expand(left, a, right, b)
        same(index, [i for i, found in enumerate(shared) for _ in found], np.int64)
        same(targets, [w for found in shared for w in found], np.int32)
