"""Every loop over one hop, in NumPy and compiled, against the same loop in plain Python."""

import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.cancel import Cancel, watching
from omnigraph.read.kernels import frontier as dispatched
from omnigraph.read.kernels import pairs
from omnigraph.read.kernels.csr import csr_of
from omnigraph.read.kernels.twins import in_numpy
from tests.read.csr_helpers import (
    adjacency,
    codes,
    edges,
    few,
    int64,
    only,
    same,
    values,
    wrapped,
)


@pytest.fixture(scope="module", params=["numpy", "numba"])
def frontier(request):
    with pytest.MonkeyPatch.context() as patch:
        only(request.param, patch)
        yield dispatched


@few
@given(edges(), st.data())
def test_pull_sums_over_targets_and_wraps(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    x = values(data, columns, int64, np.int64)
    expected = [wrapped(sum(x[w].item() for w in csr.row(v))) for v in range(rows)]
    same(frontier.pull(csr, x), expected, np.int64)


@few
@given(edges(), st.data())
def test_expanding_groups_of_rows_merges_their_targets(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    chosen = data.draw(codes(rows))
    cuts = data.draw(st.lists(st.integers(0, len(chosen)), max_size=4))
    starts = np.array(sorted([0, *cuts, len(chosen)]), np.int64)
    weights = data.draw(st.none() | st.just(True))
    if weights:
        weights = values(data, len(chosen), st.integers(0, 2**40), np.int64)
    expected = Counter()
    for group in range(len(starts) - 1):
        for place in range(starts[group], starts[group + 1]):
            for target in csr.row(chosen[place]):
                expected[group, target] += 1 if weights is None else weights[place].item()
    cells, chunk = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 10))
    in_parts = partial(dispatched.expand_merged, cells=cells, chunk=chunk)
    for expand_merged in (frontier.expand_merged, in_parts):
        group, targets, sums = expand_merged(csr, chosen, starts, weights)
        assert (group.dtype, targets.dtype, sums.dtype) == (np.int64, np.int32, np.int64)
        assert np.all(np.diff(group) >= 0)
        found = zip(zip(group.tolist(), targets.tolist(), strict=True), sums.tolist(), strict=True)
        assert sorted(found) == sorted(expected.items())


def test_merging_holds_some_of_the_targets_at_a_time():
    csr = csr_of(*(one.ravel().astype(np.int32) for one in np.indices((500, 500))), (500, 500))
    rows = np.arange(20_000, dtype=np.int32) % 500
    tracemalloc.start()
    try:
        _, targets, sums = in_numpy(dispatched.expand_merged)(
            csr, rows, np.array([0, 20_000]), None
        )
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert targets.tolist() == list(range(500))
    assert set(sums.tolist()) == {20_000}
    # Of all ten million targets at once, the places alone are 80 MB.
    assert most < 60_000_000


@few
@given(edges(), st.data())
def test_pull_counts_targets_in_a_mask(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    mask = values(data, columns, st.booleans(), np.bool_)
    expected = [sum(mask[w].item() for w in csr.row(v)) for v in range(rows)]
    same(frontier.pull_count(csr, mask), expected, np.int64)


@few
@given(edges(), st.data())
def test_pull_in_blocks_of_any_size_is_the_same(drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    x = values(data, columns, int64, np.int64)
    expected = in_numpy(dispatched.pull)(csr, x)
    block = data.draw(st.integers(1, 9))
    same(dispatched.pull(csr, x, block=block), expected.tolist(), np.int64)


@few
@given(edges(), st.data())
def test_pull_sums_floats(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    # Quarters add up exactly, whatever the order.
    x = values(data, columns, st.integers(-1000, 1000).map(lambda n: n / 4), np.float64)
    same(frontier.pull(csr, x), [sum(x[csr.row(v)].tolist()) for v in range(rows)], np.float64)


def test_pull_keeps_nan_and_infinity_in_their_rows(frontier):
    csr = adjacency([(0, 0), (1, 1), (3, 2)], 4, 3)
    sums = frontier.pull(csr, np.array([np.nan, np.inf, 1.5]))
    assert np.isnan(sums[0])
    assert sums[1:].tolist() == [np.inf, 0.0, 1.5]


@few
@given(edges(), st.data())
def test_pull_any(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    mask = values(data, columns, st.booleans(), np.bool_)
    expected = [any(mask[w] for w in csr.row(v)) for v in range(rows)]
    same(frontier.pull_any(csr, mask), expected, np.bool_)


@few
@given(edges(), st.data())
def test_pull_min_and_max_pass_over_none(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    x = values(data, columns, st.integers(-1, 2**31 - 1), np.int32)
    present = [[x[w].item() for w in csr.row(v) if x[w] >= 0] for v in range(rows)]
    same(frontier.pull_min(csr, x), [min(found, default=-1) for found in present], np.int32)
    same(frontier.pull_max(csr, x), [max(found, default=-1) for found in present], np.int32)


@few
@given(edges(), st.data())
def test_push_sums_by_distinct_target(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    chosen = data.draw(codes(rows))
    x = values(data, len(chosen), int64, np.int64)
    sums = Counter()
    for v, number in zip(chosen, x.tolist(), strict=True):
        for w in csr.row(v):
            sums[w] += number
    targets, summed = frontier.push(csr, chosen, x)
    same(targets, sorted(sums), np.int32)
    same(summed, [wrapped(sums[w]) for w in sorted(sums)], np.int64)
    same(frontier.push_any(csr, chosen), sorted(sums), np.int32)


@few
@given(edges(), st.data())
def test_push_sums_floats(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    chosen = data.draw(codes(rows))
    x = values(data, len(chosen), st.integers(-1000, 1000).map(lambda n: n / 4), np.float64)
    sums = Counter()
    for v, number in zip(chosen, x.tolist(), strict=True):
        for w in csr.row(v):
            sums[w] += number
    targets, summed = frontier.push(csr, chosen, x)
    same(targets, sorted(sums), np.int32)
    same(summed, [float(sums[w]) for w in sorted(sums)], np.float64)


@pytest.mark.parametrize("wide", [10, 100_000])
def test_push_among_few_and_among_many_possible_targets(frontier, wide):
    csr = adjacency([(0, 9), (0, 3), (1, 3), (2, 5)], 3, wide)
    targets, sums = frontier.push(csr, np.array([1, 0], np.int32), np.array([10, 1]))
    same(targets, [3, 9], np.int32)
    same(sums, [11, 1], np.int64)
    same(frontier.push_any(csr, np.array([1, 0], np.int32)), [3, 9], np.int32)


@few
@given(edges(), st.data())
def test_expand(frontier, drawn, data):
    rows, columns, pairs = drawn
    csr = adjacency(pairs, rows, columns)
    chosen = data.draw(codes(rows))
    expected = [(i, w) for i, v in enumerate(chosen) for w in csr.row(v)]
    index, targets = frontier.expand(csr, chosen)
    same(index, [i for i, _ in expected], np.int64)
    same(targets, [w for _, w in expected], np.int32)


@few
@given(edges(), st.data())
def test_expand_multi_gives_every_stored_edge(frontier, drawn, data):
    rows, columns, pairs = drawn
    multi = adjacency(pairs, rows, columns, distinct=False)
    chosen = data.draw(codes(rows))
    expected = sorted(
        (i, pairs[place][1], place)
        for i, v in enumerate(chosen)
        for place in range(len(pairs))
        if pairs[place][0] == v
    )
    index, targets, positions = frontier.expand_multi(multi, chosen)
    assert (index.dtype, targets.dtype, positions.dtype) == (np.int64, np.int32, np.int32)
    assert list(zip(index, targets, positions, strict=True)) == expected


def test_arrays_may_be_read_only(frontier):
    csr = adjacency([(0, 1), (1, 1)], 2, 2)
    x, rows = np.array([1, 2]), np.array([0, 1], np.int32)
    for array in (csr.indptr, csr.indices, csr.positions, x, rows):
        array.setflags(write=False)
    same(frontier.pull(csr, x), [2, 2], np.int64)
    same(frontier.push(csr, rows, x)[1], [3], np.int64)
    same(frontier.expand(csr, rows)[1], [1, 1], np.int32)
    same(pairs.common_count(csr, rows, csr, rows), [1, 1], np.int64)


def random_adjacency(rng, rows, columns, count):
    pairs = zip(rng.integers(0, rows, count), rng.integers(0, columns, count), strict=True)
    return adjacency(list(pairs), rows, columns)


def test_loops_of_many_threads_at_once_agree_with_numpy():
    pytest.importorskip("numba")
    from omnigraph.read.kernels import frontier_numba, pairs_numba

    rng = np.random.default_rng(7)
    csr = random_adjacency(rng, 60, 60, 900)
    x = rng.integers(-(2**62), 2**62, 60)
    a, b = rng.integers(0, 60, (2, 400)).astype(np.int32)
    bits = rng.integers(0, 256, 450).astype(np.uint8)

    def merged(group, targets, sums):
        # The targets of a group come in any order.
        return np.sort((group * 60 + targets) * 1000 + sums)

    def answers(modules):
        frontier, pairs = modules
        return [
            frontier.pull(csr, x),
            frontier.pull_count(csr, x > 0),
            pairs.marked(bits, 60, a, b),
            merged(*frontier.expand_merged(csr, a, np.arange(0, 401, 40), None)),
            pairs.contains(csr, a, b),
            pairs.common_count(csr, a, csr, b, x, x > 0),
            *pairs.common_expand(csr, a, csr, b),
        ]

    with pytest.MonkeyPatch.context() as patch:
        only("numpy", patch)
        expected = answers((dispatched, pairs))
    with ThreadPoolExecutor(6) as pool:
        for answer in pool.map(answers, [(frontier_numba, pairs_numba)] * 20):
            for actual, wanted in zip(answer, expected, strict=True):
                np.testing.assert_array_equal(actual, wanted)


def test_a_loop_that_cannot_be_kept_on_disk_is_compiled_all_the_same():
    compiled = pytest.importorskip("omnigraph.read.kernels.numba_loops")
    # Numba has no place for code that has no file.
    assert compiled.compiled(eval("lambda x: x + 1"))(1) == 2


class CountedLooks(Cancel):
    """A token that never fires, and counts how often work looked at it."""

    looks = 0

    def _look(self):
        self.looks += 1
        super()._look()


@pytest.mark.parametrize(
    "loop",
    [
        lambda csr, rows: dispatched.expand_merged(
            csr, rows, np.array([0, len(rows)]), None, chunk=100
        ),
        lambda csr, rows: pairs.common_count(csr, rows, csr, rows, chunk=100),
        lambda csr, rows: pairs.common_expand(csr, rows, csr, rows, chunk=100),
    ],
    ids=["expand_merged", "common_count", "common_expand"],
)
def test_a_timeout_is_seen_between_any_two_chunks(loop):
    rows, columns = (part.ravel().astype(np.int32) for part in np.indices((30, 40)))
    csr = csr_of(rows, columns, (30, 40))
    token = CountedLooks()
    with watching(token):
        loop(csr, np.arange(30, dtype=np.int32).repeat(3))
    assert token.looks >= 30 * 3 * 40 // 100
