"""The external sort against Python's, with runs and merges small enough to need many of both."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.runner.external_sort import external_sort

ALPHABET = ["\0", "\x01", "a", "b", "é", "\ue000", "\U0001f600"]


def ids_of(chance, count):
    return ["".join(chance.choices(ALPHABET, k=chance.randrange(6))) for _ in range(count)]


def batches_of(ids, rows):
    for start in range(0, len(ids), rows):
        part = ids[start : start + rows]
        kind = pa.int64() if isinstance(ids[0], int) else pa.utf8()
        yield pa.record_batch(
            {"id": pa.array(part, kind), "at": pa.array(range(start, start + len(part)))}
        )


def streamed(ids, *, rows=50, batch_rows=64, **limits):
    batches = list(external_sort(batches_of(ids, rows), "id", batch_rows, **limits))
    assert all(0 < batch.num_rows <= batch_rows for batch in batches)
    found = [row for batch in batches for row in batch.to_pylist()]
    # Every row came once and whole, whatever the order of equal ids.
    assert sorted(row["at"] for row in found) == list(range(len(ids)))
    assert all(ids[row["at"]] == row["id"] for row in found)
    return [row["id"] for row in found]


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_in(directory):
    return [path for path in Path(directory).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"run_bytes": 2_000, "piece_bytes": 100},
        {"run_bytes": 2_000, "piece_bytes": 100, "fan_in": 2},
        {"run_bytes": 1, "piece_bytes": 1, "fan_in": 3},
    ],
    ids=["in memory", "one merge", "many merges", "rows of their own"],
)
def test_rows_come_in_code_point_order(scratch, limits):
    chance = random.Random(repr(limits))
    for count in (1, 40, 1_000):
        ids = ids_of(chance, count)
        assert streamed(ids, **limits) == sorted(ids)
        in_order = sorted(ids)
        assert streamed(in_order, **limits) == in_order
    assert left_in(scratch) == []


def test_nulls_come_last_and_numbers_are_ordered_as_numbers(scratch):
    chance = random.Random(5)
    ids = [chance.choice([None, *range(-3, 400)]) for _ in range(1_000)]
    ids[0] = 17
    known = [number for number in ids if number is not None]
    wanted = sorted(known) + [None] * (len(ids) - len(known))
    assert streamed(ids, run_bytes=2_000, piece_bytes=100) == wanted
    assert list(external_sort(iter(()), "id", 10)) == []


def test_a_sort_that_is_left_or_fails_leaves_no_file(scratch):
    ids = ids_of(random.Random(1), 2_000)
    left = external_sort(batches_of(ids, 50), "id", 10, run_bytes=2_000, piece_bytes=100)
    assert 0 < next(left).num_rows <= 10
    assert len(left_in(scratch)) > 1
    left.close()
    assert left_in(scratch) == []

    def failing():
        yield from batches_of(ids, 50)
        raise RuntimeError("broken source")

    with pytest.raises(RuntimeError, match="broken source"):
        list(external_sort(failing(), "id", 10, run_bytes=2_000, piece_bytes=100))
    assert left_in(scratch) == []
