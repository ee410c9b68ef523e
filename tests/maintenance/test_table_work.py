"""Which indexes are folded and which fragments are merged: decided without a table."""

from __future__ import annotations

import random

import pytest

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.maintenance import effort
from omnigraph.maintenance.effort import (
    Effort,
    Fragment,
    due_folds,
    light_groups,
    part_of,
    thorough_groups,
)
from omnigraph.storage.tables.indexing.table_indexes import IndexState


def index(kind, *parts, tail=()):
    return IndexState("i", "c", kind, tuple(tail), 0, tuple(map(frozenset, parts)), 1)


def folded(state, effort):
    """How many parts are merged with the new rows; `no` if nothing is done."""
    numbers = set().union(*state.parts, state.tail)
    found = due_folds([state], dict.fromkeys(numbers, 10), effort)
    return found[0].merged if found else "no"


BTREE, FTS, VECTOR = IndexKind.BTREE, IndexKind.FTS, IndexKind.VECTOR


@pytest.mark.parametrize(
    ("state", "thorough", "indexes"),
    [
        (index(BTREE, {0}), "no", "no"),
        (index(BTREE, {0}, tail={1}), 1, 1),
        (index(BTREE, {0}, {1}), 2, "no"),
        (index(FTS, {0}, {1}, tail={2}), 2, 2),
        (index(VECTOR, {0}, tail={1}), None, None),
        (index(VECTOR, {0}, {1}, {2}, {3}), "no", "no"),
        (index(VECTOR, {0}, {1}, {2}, {3}, tail={4}), 4, 4),
        (index(VECTOR, {0}, {1}, {2}, {3}, {4}), 5, "no"),
        (index(None, {0}, tail={1}), None, None),
    ],
)
def test_folds_leave_one_part_of_an_index_and_a_few_of_a_vector_index(state, thorough, indexes):
    assert folded(state, Effort.THOROUGH) == thorough
    assert folded(state, Effort.INDEXES) == indexes


def test_a_fold_says_which_part_will_cover_a_fragment():
    state = index(VECTOR, {0, 1}, {2}, tail={3})
    now = [part_of(n, state, None) for n in range(4)]
    assert len(set(now)) == 3
    assert now[0] == now[1]
    (appended,) = due_folds([state], dict.fromkeys(range(4), 1), Effort.THOROUGH)
    assert len({part_of(n, state, appended) for n in range(4)}) == 3
    full = index(FTS, {0, 1}, {2}, tail={3})
    (merged,) = due_folds([full], dict.fromkeys(range(4), 1), Effort.THOROUGH)
    assert len({part_of(n, full, merged) for n in range(4)}) == 1


def pieces(*rows, **facts):
    return [Fragment(number, count, **facts) for number, count in enumerate(rows)]


def test_fragments_are_merged_up_to_a_million_rows_or_a_gigabyte():
    assert thorough_groups(pieces(5)) == []
    assert thorough_groups(pieces(5, 10**6, 7, 600_000, 600_000)) == [(0, 2, 3)]
    gib = 1 << 30
    assert thorough_groups(pieces(5, 5, size=gib)) == []
    assert thorough_groups(pieces(5, 5, size=gib // 2)) == [(0, 1)]
    apart = [Fragment(0, 1, parts="a"), Fragment(1, 1, parts="b"), Fragment(2, 1, parts="a")]
    assert thorough_groups(apart) == [(0, 2)]


def test_a_fragment_with_many_deleted_rows_is_written_again_alone():
    assert thorough_groups([Fragment(0, 9, deleted=1)]) == []
    assert thorough_groups([Fragment(0, 8, deleted=1)]) == [(0,)]
    assert thorough_groups([Fragment(0, 10**6, deleted=10**6)]) == [(0,)]
    assert light_groups([Fragment(0, 8, deleted=8)]) == []


def test_upkeep_merges_the_smallest_fragments_up_to_a_limit():
    assert light_groups(pieces(3, 8_192, 3)) == [(0, 2)]
    many = pieces(*([8_000] * 30), 1, 1)
    (group,) = light_groups(many)
    assert {30, 31} <= set(group)
    assert sum(many[number].rows for number in group) <= effort.UPKEEP_ROWS
    assert len(group) == 2 + effort.UPKEEP_ROWS // 8_000 - 1


def test_upkeep_leaves_what_it_merged_before_until_as_much_has_come():
    assert light_groups(pieces(8_191, *[1] * 64)) == [tuple(range(1, 65))]
    assert light_groups(pieces(64, *[1] * 64)) == [tuple(range(65))]
    assert light_groups(pieces(2, 1, 2, 2)) == [(0, 1, 2, 3)]
    sizes, rewritten, most = [], 0, 0
    for _ in range(400):
        sizes += [1] * 64
        for group in light_groups(pieces(*sizes)):
            merged = sum(sizes[number] for number in group)
            sizes = [size for number, size in enumerate(sizes) if number not in group]
            sizes.append(merged)
            rewritten += merged
        most = max(most, sum(size < effort.SMALL_ROWS for size in sizes))
    assert sum(sizes) == 400 * 64
    assert most <= 13  # a power of two below 8,192 each
    assert rewritten <= 13 * sum(sizes)


@pytest.mark.parametrize("seed", range(20))
def test_merging_twice_finds_nothing_the_second_time(seed):
    rng = random.Random(seed)
    before = [
        Fragment(
            number,
            rng.choice([1, 50, 300_000, 700_000, 10**6]),
            rng.choice([0, 0, 10**5]),
            rng.choice([10, 1 << 28, 1 << 29, 1 << 30]),
            rng.choice("ab"),
        )
        for number in range(40)
    ]
    groups = thorough_groups(before)
    taken = {number for group in groups for number in group}
    after = [one for one in before if one.number not in taken]
    for at, group in enumerate(groups):
        members = [before[number] for number in group]
        assert len({one.parts for one in members}) == 1
        rows, size = sum(m.rows for m in members), sum(m.size for m in members)
        assert len(members) == 1 or (rows <= effort.TARGET_ROWS and size <= effort.TARGET_BYTES)
        after.append(Fragment(100 + at, rows, 0, size, members[0].parts))
    assert len(groups) > 1
    rng.shuffle(after)
    assert thorough_groups(after) == []
