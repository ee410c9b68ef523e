"""What a load tells about how far it has come."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from omnigraph.errors import InputError, KeyConflict
from tests.graphs import graph_of
from tests.stored import read_back

SCHEMA = "node Person { name: String @key  age: I32? @index }"


graph = graph_of(SCHEMA)


@pytest.fixture
def seen():
    return []


def people(count):
    return [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(count)]


def phases(seen):
    """The phases in the order in which they began."""
    return list(dict.fromkeys(progress.phase for progress in seen))


def test_every_phase_is_told_and_records_are_counted(graph, seen, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "10")
    graph.load(people(30), progress=seen.append)
    assert phases(seen) == ["reading", "validating", "writing", "indexing"]
    assert [(seen[0].records, seen[-1].records)] == [(0, 30)]
    counts = [progress.records for progress in seen]
    assert counts == sorted(counts)
    assert all(progress.seconds >= 0 and progress.rate >= 0 for progress in seen)


def test_stages_are_numbered_and_staged_rows_counted(graph, seen, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "10")
    graph.load([*people(30), *people(10)], progress=seen.append)
    stages = list(dict.fromkeys((progress.stage, progress.phase) for progress in seen))
    assert stages == [(1, "reading"), (2, "validating"), (4, "writing"), (5, "indexing")]
    assert {progress.stages for progress in seen} == {5}
    assert {progress.staged for progress in seen if progress.stage < 3} == {0}
    # Of ten people there are two records, and the last one counts.
    assert (seen[-1].records, seen[-1].staged) == (40, 30)


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite"])
def test_what_is_written_is_staged_in_every_mode(graph, seen, mode):
    graph.load(people(7), mode=mode, progress=seen.append)
    assert seen[-1].staged == 7


def test_a_small_load_builds_no_index_and_says_so(graph, seen):
    graph.load(people(3), progress=seen.append)
    assert phases(seen) == ["reading", "validating", "writing"]


def test_frames_are_counted_too(graph, seen):
    graph.load_nodes("Person", pa.table({"name": ["a", "b"]}), progress=seen.append)
    assert seen[-1].records == 2


def test_bad_records_are_read_records(graph, seen):
    with pytest.raises(InputError):
        graph.load([*people(2), {"type": "Person"}], progress=seen.append)
    assert phases(seen) == ["reading"]
    assert seen[-1].records == 3


def test_a_refused_load_was_never_writing(graph, seen):
    graph.load(people(1))
    with pytest.raises(KeyConflict):
        graph.load(people(2), mode="append", progress=seen.append)
    assert phases(seen) == ["reading", "validating"]


def test_a_callback_that_fails_fails_nothing_else(graph, seen, caplog):
    def failing(progress):
        seen.append(progress)
        raise ValueError("no terminal")

    with caplog.at_level(logging.WARNING, "omnigraph"):
        graph.load(people(3), progress=failing)
    assert len(seen) == 1
    assert "no terminal" in caplog.text
    assert len(read_back(graph).nodes["Person"]) == 3
