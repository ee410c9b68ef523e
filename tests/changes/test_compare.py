"""Comparing two states of a table finds what a full scan finds, however the states came about."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.changes import table_side
from omnigraph.changes.compare_tables import compare
from omnigraph.changes.may_differ import find_candidates, segments_between
from omnigraph.changes.row_pairs import with_few_blobs
from omnigraph.runner.external_sort import RUN_BYTES, external_sort
from omnigraph.storage.tables.table import manifest_path
from tests.changes.comparing import check, compared, side_of
from tests.graphs import graph_of

SCHEMA = """
node Doc { name: String @key
  n: I32?
  x: F64?
  text: String?
  tags: [String]?
  body: Blob? }
edge Cites: Doc -> Doc { why: String? }
"""


def doc(name, **data):
    return {"type": "Doc", "data": {"name": name, **data}}


graph = graph_of(SCHEMA, [doc(f"d{number}", n=number) for number in range(20)])


def sides(graph, before, after, table_key="node:Doc"):
    return side_of(graph, before, table_key), side_of(graph, after, table_key)


def test_null_empty_text_and_empty_list_are_three_values(graph):
    before = graph.snapshot()
    graph.load([doc("d1", n=1, text=""), doc("d2", n=2, tags=[]), doc("d3", n=3)], mode="merge")
    found = compared(*sides(graph, before, graph.snapshot()))
    assert list(found) == ["d1", "d2"]
    assert found["d1"][1]["properties"]["text"] == ""
    assert found["d2"][1]["properties"]["tags"] == []


def test_changes_are_cut_by_the_bytes_of_their_blobs(graph):
    before = graph.snapshot()
    sizes = {"d1": 40, "d2": 50, "d3": 20, "d4": 300, "d5": 0, "d6": 100}
    graph.load([doc(name, n=9, body=b"x" * size) for name, size in sizes.items()], mode="merge")
    graph.mutate('query q() { delete Doc where name = "d7" }')
    (changes,) = compare(*sides(graph, before, graph.snapshot()))
    parts = list(with_few_blobs(changes, (["body"], ["body"]), 100))
    assert [part.ids.to_pylist() for part in parts] == [
        ["d1", "d2"],
        ["d3"],
        ["d4"],
        ["d5", "d6", "d7"],
    ]
    for side in (1, 2):
        for part in parts:
            here = part[side].table.column("id").to_pylist()
            present = part[side].present.to_pylist()
            assert here == [
                name if is_there else None
                for name, is_there in zip(part.ids.to_pylist(), present, strict=True)
            ]
    assert [len(part.ids) for part in with_few_blobs(changes, ([], []), 0)] == [7]


def test_minus_zero_is_zero(graph):
    graph.load([doc("d1", x=0.0)], mode="merge")
    before = graph.snapshot()
    graph.load([doc("d1", x=-0.0)], mode="merge")
    assert compared(*sides(graph, before, graph.snapshot())) == {}


@pytest.mark.parametrize("size", [0, 10, 100_000, 5_000_000])
def test_blobs_are_compared_by_their_bytes(graph, size):
    graph.blobs.write("node", "Doc", "d1", "body", b"x" * size)
    before = graph.snapshot()
    # The row is written again, and its blob with it.
    graph.load([doc("d2", n=5)], mode="merge")
    graph.blobs.write("node", "Doc", "d1", "body", b"x" * size)
    assert list(compared(*sides(graph, before, graph.snapshot()))) == ["d2"]
    graph.blobs.write("node", "Doc", "d1", "body", b"y" + b"x" * (size - 1) if size else b"y")
    assert list(compared(*sides(graph, before, graph.snapshot()))) == ["d1", "d2"]


def test_forks_of_forks_meet_where_they_parted(graph):
    states = [graph.snapshot()]
    graph.branches.create("one")
    graph.load([doc("d1", n=100), doc("new", n=1)], mode="merge", branch="one")
    graph.load([doc("d2", n=100), doc("new", n=2)], mode="merge")
    graph.branches.create("two", from_="one")
    graph.load([doc("d3", n=100)], mode="merge", branch="two")
    graph.load([doc("d4", n=100)], mode="merge", branch="one")
    states += [graph.snapshot(branch=name) for name in ("main", "one", "two")]
    for before in states:
        for after in states:
            check(*sides(graph, before, after))
    assert check(*sides(graph, states[2], states[3])) == 2


@pytest.mark.parametrize("run_bytes", [1, RUN_BYTES])
def test_everything_differs_after_an_overwrite_except_what_is_equal(graph, run_bytes, monkeypatch):
    spilling = partial(external_sort, run_bytes=run_bytes, piece_bytes=1)
    monkeypatch.setattr(table_side, "external_sort", spilling)
    monkeypatch.setattr("omnigraph.changes.compare_tables._FEW", 2)
    before = graph.snapshot()
    rows = [doc(f"d{number}", n=number if number % 3 else -1) for number in range(2, 25)]
    graph.load(rows, mode="overwrite")
    left, right = sides(graph, before, graph.snapshot())
    assert check(left, right) == 13
    assert compared(left, right, chunk_rows=2) == compared(left, right)
    assert list(compared(left, right, after_id="d20")) == [
        "d21", "d22", "d23", "d24", "d3", "d6", "d9",
    ]  # fmt: skip


def test_equal_pins_are_not_opened(graph):
    graph.branches.create("one")
    left, right = sides(graph, graph.snapshot(), graph.snapshot(branch="one"))
    assert list(compare(left, right)) == []
    assert right.meter.tables_skipped == 1
    assert right.meter.rows_read == 0


def test_without_the_version_where_two_states_part_everything_is_compared(graph):
    graph.branches.create("one")
    graph.load([doc("d1", n=100)], mode="merge", branch="one")
    graph.load([doc("d2", n=100)], mode="merge")
    left, right = sides(graph, graph.snapshot(), graph.snapshot(branch="one"))
    (start,) = (segment.start for segment in segments_between(left, right)[1])
    Path(right.table.ref.dataset_uri, manifest_path(start)).unlink()
    assert find_candidates(left, right, 1000, 0) is None
    assert list(compared(left, right)) == ["d1", "d2"]
    assert right.meter.candidates == 20


def test_a_row_id_that_means_another_row_is_not_believed(graph):
    side = side_of(graph, graph.snapshot(), "node:Doc")
    ids = pa.array(["d1", "nobody", "d2", "d3"])
    right = side.aligned(ids)
    wrong = pa.array([right.table.column("_rowid")[2].as_py(), 0, 10**9, None], pa.uint64())
    assert side.aligned(ids, wrong) == right
    assert right.table.column("n").to_pylist() == [1, None, 2, 3]
