"""The versions in which rows were created and changed: written and read back, and put into groups."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.changes import may_differ
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.storage.lance_format.protobuf import bytes_field, number_field, read_fields
from omnigraph.storage.lance_format.row_versions import (
    EXACT_VERSIONS,
    MOST_GROUPS,
    decoded,
    encoded,
    in_groups,
    runs_of,
)
from omnigraph.storage.tables.staging import stage_append, stage_delete_ids
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef
from tests.opened import row_ids
from tests.storage.table_places import compact, contents, new_table, rows

VERSIONS = st.lists(st.integers(1, 300), min_size=1, max_size=400)


def by_row(runs):
    return np.repeat(runs.versions, runs.counts)


@given(VERSIONS)
def test_a_sequence_is_read_as_it_was_written(versions):
    runs = runs_of(np.array(versions, np.uint64))
    read = decoded(encoded(runs))
    assert by_row(read).tolist() == versions
    assert (np.diff(read.versions) != 0).all()


@given(VERSIONS, st.integers(0, 400), st.randoms(use_true_random=False))
def test_groups_keep_what_a_delta_says_about_newer_versions(created, version, random):
    changed = [max(one, random.choice([0, 0, random.randrange(1, 301)])) for one in created]
    sequences = [runs_of(np.array(column, np.uint64)) for column in (created, changed)]
    grouped = in_groups(*sequences, version)
    if grouped is None:
        pairs = {(at, *pair) for at, pair in enumerate(_joint(created, changed, version))}
        assert len(pairs) <= MOST_GROUPS
        return
    first, last = (by_row(runs) for runs in grouped)
    old = np.array(changed) <= version - EXACT_VERSIONS
    assert first[~old].tolist() == np.array(created)[~old].tolist()
    assert last[~old].tolist() == np.array(changed)[~old].tolist()
    assert (first <= created).all()
    assert (last >= changed).all()
    assert (last[old] <= version - EXACT_VERSIONS).all()
    stretches = 1 + int((np.diff(old.astype(int)) != 0).sum())
    assert len(set(zip(first[old], last[old], strict=True))) <= MOST_GROUPS + stretches
    for base in range(version - EXACT_VERSIONS, 301):
        assert ((first > base) == (np.array(created) > base)).all()
        assert ((last > base) == (np.array(changed) > base)).all()


def _joint(created, changed, version):
    """The runs of old rows in which both versions stay the same."""
    before = None
    for pair in zip(created, changed, strict=True):
        if pair[1] <= version - EXACT_VERSIONS and pair != before:
            yield pair
        before = pair


def run_of(span):
    return json.dumps({"inline": list(bytes_field(1, bytes_field(1, span) + number_field(2, 7)))})


THREE_TO_NINE = number_field(1, 3) + number_field(2, 9)


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        (bytes_field(1, THREE_TO_NINE), 6),
        (bytes_field(2, THREE_TO_NINE + bytes_field(3, bytes_field(1, bytes_field(2, b"\4\0\5\0")))), 4),
        (bytes_field(3, THREE_TO_NINE + bytes_field(3, b"\x25")), 3),
        (bytes_field(3, number_field(2, 1 << 63) + bytes_field(3, b"\x25")), 3),
        (bytes_field(4, bytes_field(2, number_field(1, 3) + bytes_field(2, bytes(12)))), 3),
        (bytes_field(5, bytes_field(3, bytes_field(2, bytes(16)))), 2),
    ],
    ids=["range", "with holes", "with bits", "with few bits", "sorted list", "list"],
)  # fmt: skip
def test_of_the_numbers_of_a_run_only_how_many_there_are_counts(numbers, size):
    assert by_row(decoded(run_of(numbers))).tolist() == [7] * size


@pytest.mark.parametrize(
    "numbers",
    [
        bytes_field(2, THREE_TO_NINE),
        bytes_field(6, THREE_TO_NINE),
        bytes_field(1, number_field(2, 1 << 63)),
        bytes_field(3, number_field(2, 1 << 63) + number_field(3, 5)),
        bytes_field(1, number_field(1, 9) + number_field(2, 3)),
        bytes_field(4, bytes_field(2, bytes_field(2, bytes(13)))),
        bytes_field(4, bytes_field(4, bytes_field(2, bytes(12)))),
    ],
)
def test_a_sequence_that_is_written_in_another_way_is_left_alone(numbers):
    assert decoded(run_of(numbers)) is None


def test_a_sequence_in_a_file_is_left_alone():
    assert decoded('{"external": {"path": "x", "offset": 0, "size": 1}}') is None


@pytest.mark.parametrize("every", [2, 3, 40])
def test_a_sequence_is_that_of_the_rows_whichever_of_them_were_deleted(tmp_path, every):
    table = new_table(TableRef(str(tmp_path / "table")))
    for start in (0, 50, 100):
        ids = [f"{number:03}" for number in range(start, start + 50)]
        table = commit_staged(stage_append(table, rows(ids, start=start)))
    gone = [f"{number:03}" for number in range(1, 150) if number % every == 0]
    table = compact(commit_staged(stage_delete_ids(table, pa.array(gone))))
    (fragment,) = table.fragments()
    runs = decoded(fragment.created_at_version_meta.json())
    stored = table.read(["_row_created_at_version"])["_row_created_at_version"].to_pylist()
    assert by_row(runs).tolist() == stored
    assert len(stored) == 150 - len(gone)


def test_fields_are_read_as_they_were_written():
    message = number_field(1, 300) + bytes_field(20, b"abc") + number_field(2, 0)
    assert list(read_fields(message)) == [(1, 300), (20, b"abc"), (2, 0)]


def test_whoever_trusts_a_delta_asks_about_recent_versions_only():
    assert ViewThresholds().derived_versions < EXACT_VERSIONS
    assert may_differ._FEW_VERSIONS < EXACT_VERSIONS


def test_a_table_of_single_rows_keeps_few_runs(tmp_path):
    ref = TableRef(str(tmp_path / "table"))
    table = new_table(ref)
    appends = 3 * EXACT_VERSIONS
    for number in range(appends):
        # The first of two rows is deleted, so the ranges of runs do not begin at 0.
        table = commit_staged(stage_append(table, rows(["x", f"r{number:04}"], start=number - 1)))
        table = commit_staged(stage_delete_ids(table, pa.array(["x"])))
        if number % 32 == 31:
            before = row_ids(table)
            table = compact(table)
            assert row_ids(table) == before
    (fragment,) = table.fragments()
    for stored in (fragment.created_at_version_meta, fragment.last_updated_at_version_meta):
        runs = decoded(stored.json())
        assert runs.counts.sum() == appends
        assert len(runs.counts) <= EXACT_VERSIONS + MOST_GROUPS

    # A recent version is compared exactly, an older one without a miss.
    table = open_table(ref)
    recent = table.version - EXACT_VERSIONS // 2
    then = contents(open_table(ref.at(recent)))
    assert _ids(table.delta(recent).inserted()) == contents(table).keys() - then.keys()
    assert _ids(table.delta(recent).updated()) == set()
    older = EXACT_VERSIONS // 2
    then = contents(open_table(ref.at(older)))
    found = _ids(table.delta(older).inserted()) | _ids(table.delta(older).updated())
    assert found >= contents(table).keys() - then.keys()
    assert len(found & then.keys()) <= 2 * appends // MOST_GROUPS


def _ids(reader: pa.RecordBatchReader) -> set[str]:
    return set(reader.read_all()["id"].to_pylist())
