"""Fragments are divided into runs of neighbours, bounded by rows or by the number of groups."""

from itertools import combinations, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.fragment_groups import (
    balanced_groups,
    fragment_sizes,
    group_fragments,
    scan_windows,
)
from omnigraph.storage.tables.staging import stage_append, stage_delete_ids
from omnigraph.storage.tables.table import PRIMARY_KEY, create_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef

FRAGMENTS = [(0, 5), (1, 90), (4, 40), (7, 50), (8, 0)]
sizes = st.lists(st.integers(0, 50), max_size=9).map(lambda rows: list(enumerate(rows)))


@pytest.mark.parametrize(
    ("max_rows", "groups"),
    [
        (185, [((0, 1, 4, 7, 8), 185)]),
        (95, [((0, 1), 95), ((4, 7, 8), 90)]),
        (94, [((0,), 5), ((1,), 90), ((4, 7, 8), 90)]),
        (1, [((0,), 5), ((1,), 90), ((4,), 40), ((7,), 50), ((8,), 0)]),
    ],
)
def test_neighbours_are_together_up_to_a_number_of_rows(max_rows, groups):
    assert group_fragments(FRAGMENTS, max_rows) == groups


@pytest.mark.parametrize(
    ("at_most", "groups"),
    [
        (1, [((0, 1, 4, 7, 8), 185)]),
        (2, [((0, 1), 95), ((4, 7, 8), 90)]),
        # A fourth group would not make the largest smaller.
        (4, [((0,), 5), ((1,), 90), ((4, 7, 8), 90)]),
    ],
)
def test_a_number_of_groups_is_about_equal(at_most, groups):
    assert balanced_groups(FRAGMENTS, at_most) == groups


def test_no_fragments_are_no_groups():
    assert group_fragments([], 10) == balanced_groups([], 3) == []


@given(sizes, st.integers(1, 100))
def test_every_fragment_is_in_one_group_and_no_two_neighbours_would_fit_in_one(fragments, max_rows):
    groups = group_fragments(fragments, max_rows)
    assert [number for group in groups for number in group.fragment_ids] == list(
        range(len(fragments))
    )
    rows = dict(fragments)
    for group in groups:
        assert group.rows == sum(rows[number] for number in group.fragment_ids)
        assert group.rows <= max_rows or len(group.fragment_ids) == 1
    for group, after in pairwise(groups):
        assert group.rows + rows[after.fragment_ids[0]] > max_rows


@given(sizes.filter(len), st.integers(1, 5))
def test_no_other_division_has_a_smaller_largest_group(fragments, at_most):
    groups = balanced_groups(fragments, at_most)
    assert [number for group in groups for number in group.fragment_ids] == list(
        range(len(fragments))
    )
    assert len(groups) <= at_most
    rows = [size for _, size in fragments]
    best = min(
        max(sum(rows[start:end]) for start, end in zip((0, *cuts), (*cuts, None), strict=True))
        for count in range(min(at_most, len(rows)))
        for cuts in combinations(range(1, len(rows)), count)
    )
    assert max(group.rows for group in groups) == best


def test_sizes_of_a_table_leave_deleted_rows_out(tmp_path):
    rows = pa.table({"id": ["a", "b", "c"]})
    table = create_table(TableRef(str(tmp_path / "t")), rows.schema, rows)
    table = commit_staged(stage_append(table, pa.table({"id": ["d"]})))
    table = commit_staged(stage_delete_ids(table, pa.array(["b"])))
    assert fragment_sizes(table) == [(0, 2), (1, 1)]


@pytest.mark.parametrize("window_bytes", [1, 3_000, 1 << 30])
def test_windows_give_every_row_once_and_deleted_ones_never(tmp_path, window_bytes):
    ref = TableRef(str(tmp_path / "t"))
    schema = pa.schema([pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY)])
    table = create_table(ref, schema, pa.table({"id": [f"{n:03}" for n in range(120)]}, schema))
    for start in (120, 300):
        more = pa.table({"id": [f"{start + n:03}" for n in range(90)]}, schema)
        table = commit_staged(stage_append(table, more))
    gone = pa.array([f"{n:03}" for n in range(0, 390, 7)])
    table = commit_staged(stage_delete_ids(table, gone))
    kept = table.read(["id"]).column("id").to_pylist()
    assert 200 < len(kept) < 300

    def scanned(**options):
        batches = scan_windows(table, ["id"], window_bytes=window_bytes, **options)
        return [name for batch in batches for name in batch.column("id").to_pylist()]

    assert scanned() == kept
    first, _, last = (fragment.id for fragment in table.fragments())
    assert scanned(fragment_ids=[last]) == [name for name in kept if name >= "300"]
    assert scanned(fragment_ids=[first, last]) == [
        name for name in kept if name < "120" or name >= "300"
    ]
    assert scanned(fragment_ids=[]) == []
