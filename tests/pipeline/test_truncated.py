"""Times finer than milliseconds are cut, and every load says of how many values."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from omnigraph.pipeline.datasource.commit import commit_rows
from omnigraph.pipeline.sources.splits import LineBlock
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.datasource_helpers import plan, run_tasks

SCHEMA = """
node Event { k: String @key  at: DateTime?  all: [DateTime]?  day: Date?  note: String? }
edge After: Event -> Event { at: DateTime? }
"""
FINE, COARSE = "2024-05-01T12:30:00.123456Z", "2024-05-01T12:30:00.123Z"


graph = graph_of(SCHEMA)


def event(k, **data):
    return {"type": "Event", "data": {"k": k, **data}}


RECORDS = [
    event("a", at=FINE, note=FINE),
    event("b", at=COARSE),
    event("c", at="2024-05-01T12:30:00.123000Z"),  # no digit is lost
    event("d", at="2024-05-01 12:30:00,0001+02:00"),
    event("e", all=[FINE, COARSE, FINE]),
    event("f", at=None),
    {"edge": "After", "from": "a", "to": "b", "data": {"at": FINE}},
]
COUNTED = {"After.at": 1, "Event.all": 2, "Event.at": 2}


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_json_lines(graph, mode):
    checked = graph.load(RECORDS, check=True, mode=mode)
    assert checked.truncated == checked.to_json()["truncated"] == COUNTED
    assert graph.load(RECORDS, mode=mode).truncated == COUNTED
    assert "cut to milliseconds" in repr(checked)


def test_lines_read_singly_count_alike(graph):
    from omnigraph.pipeline.formats.json_lines import read_block

    block = LineBlock(0, 0, "".join(json.dumps(one) + "\n" for one in RECORDS).encode())
    for by_columns in (True, False):
        assert read_block(graph.schema.catalog, block, by_columns=by_columns).cut == COUNTED


def test_nothing_cut_is_not_spoken_of(graph):
    result = graph.load([event("b", at=COARSE, day="2024-05-01")])
    assert result.truncated == {}
    assert "truncated" not in result.to_json()


def test_datetimes_of_a_program(graph):
    at = datetime(2024, 5, 1, 12, 30, 0, 123456, tzinfo=UTC)
    assert graph.load([event("a", at=at)]).truncated == {"Event.at": 1}
    rows = [{"k": "a", "at": at}, {"k": "b", "at": at.replace(microsecond=5000)}]
    assert graph.load_nodes("Event", rows).truncated == {"Event.at": 1}


MOMENTS = [1_714_566_600_123_456, 1_714_566_600_123_000, None]


def frame(kind):
    units = {"us": 1, "ns": 1000}
    if kind in units:
        ticks = [None if one is None else one * units[kind] for one in MOMENTS]
        column = pa.array(ticks, pa.timestamp(kind, "UTC"))
        return pa.table({"k": ["a", "b", "c"], "at": column})
    if kind == "lists":
        column = pa.array([MOMENTS[:2], None, [MOMENTS[0]]], pa.list_(pa.timestamp("us")))
        return pa.table({"k": ["a", "b", "c"], "all": column})
    return pa.table({"k": ["a", "b", "c"], "at": [FINE, COARSE, None]})


@pytest.mark.parametrize("kind", ["us", "ns", "texts", "lists"])
def test_frames(graph, kind):
    counted = {"Event.all": 2} if kind == "lists" else {"Event.at": 1}
    assert graph.load_nodes("Event", frame(kind)).truncated == counted


def test_milliseconds_and_seconds_lose_nothing(graph):
    for unit in ("ms", "s"):
        column = pa.array([1_714_566_600], pa.timestamp(unit))
        assert graph.load_nodes("Event", pa.table({"k": ["a"], "at": column})).truncated == {}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files(graph, tmp_path, suffix):
    path = tmp_path / f"events.{suffix}"
    (csv.write_csv if suffix == "csv" else parquet.write_table)(frame("texts"), path)
    assert graph.load_nodes("Event", path).truncated == {"Event.at": 1}


def test_pandas(graph):
    pandas = pytest.importorskip("pandas")
    at = pandas.to_datetime([FINE, COARSE], utc=True)
    assert graph.load_nodes("Event", pandas.DataFrame({"k": ["a", "b"], "at": at})).truncated == {
        "Event.at": 1
    }
    mixed = pandas.Series([datetime(2024, 5, 1, 0, 0, 0, 1, UTC), FINE], dtype=object)
    assert graph.load_nodes(
        "Event", pandas.DataFrame({"k": ["a", "b"], "at": mixed})
    ).truncated == {"Event.at": 2}


def test_the_data_source(graph):
    (rows,) = frame("us").to_batches()
    made = plan(graph, [rows], type="Event")
    assert commit_rows(workspace_of(graph), made, run_tasks(made, [rows])).truncated == {
        "Event.at": 1
    }


def test_a_load_sent_again_says_the_same(graph):
    ours = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
    graph.load(RECORDS, operation_id=ours)
    again = graph.load(RECORDS, operation_id=ours)
    assert again.replayed
    assert again.truncated == COUNTED
