"""Writers keep the tables they write in shape, and nobody notices."""

from __future__ import annotations

import logging
import threading
from itertools import pairwise

import pyarrow as pa
import pytest

from omnigraph import failpoints
from omnigraph.commit.changes import WRITERS
from omnigraph.commit.protocol import MOMENTS
from omnigraph.errors import BadRequest
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.maintenance.upkeep import MANY_ROWS, OthersAtWork, keep_in_shape
from omnigraph.manifest.actors import MAINTENANCE_ACTOR
from omnigraph.storage.tables.indexing.table_indexes import list_indexes
from tests.commit.synthetic import Died
from tests.graphs import graph_of
from tests.maintenance.upkeep.keeping import (
    LIMIT,
    MEMBER_OF,
    PERSON,
    SCHEMA,
    TEAM,
    check_settled,
    fragments,
    held_by_another,
    insert,
    names,
    table_of,
    upkeeps,
)
from tests.opened import workspace_of
from tests.storage.processes import run_processes


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", str(LIMIT))
    # Two processes write here, and each may take long.
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")


graph = graph_of(SCHEMA)


@pytest.fixture
def grown(tmp_path):
    """The address of a graph in which every table is due, and none had upkeep."""
    uri = str(tmp_path / "graph")
    with init(uri, SCHEMA, upkeep="off") as graph:
        for n in range(LIMIT + 1):
            graph.load(
                [
                    {"type": "Person", "data": {"name": f"p{n}", "age": n}},
                    {"type": "Team", "data": {"code": f"t{n}"}},
                    {"edge": "MemberOf", "from": f"p{n}", "to": f"t{n}", "data": {"id": f"m{n}"}},
                ],
                mode="append",
            )
        assert [fragments(graph, key=key) for key in (PERSON, TEAM, MEMBER_OF)] == [LIMIT + 1] * 3
        assert upkeeps(graph) == []
    return uri


class TestWhen:
    def test_the_write_that_makes_a_table_due_is_followed_by_one_commit(self, graph):
        for n in range(LIMIT):
            insert(graph, f"p{n}")
        assert upkeeps(graph) == []
        mine = insert(graph, "last")
        (upkeep,) = upkeeps(graph)
        assert mine.operation == "mutation"
        assert upkeep.parent_commit_id == mine.graph_commit_id
        assert upkeep.actor_id == MAINTENANCE_ACTOR
        assert graph.snapshot().graph_commit_id == upkeep.graph_commit_id
        assert fragments(graph) == 1
        assert names(graph) == {"last", *(f"p{n}" for n in range(LIMIT))}
        check_settled(graph)

    def test_it_comes_again_only_after_as_many_versions(self, graph):
        for n in range(5 * LIMIT):
            insert(graph, f"p{n}")
        made = upkeeps(graph)
        assert len(made) == 4
        order = [commit.operation for commit in graph.commits.list(limit=100)]
        between = "".join("u" if one == "optimize" else "-" for one in order).split("u")
        assert all(len(part) >= LIMIT for part in between[1:])
        assert len(names(graph)) == 5 * LIMIT

    def test_another_handle_knows_of_it(self, graph):
        """Each handle makes one commit only, as a command does."""
        for n in range(3 * LIMIT):
            with open_graph(graph.uri) as other:
                insert(other, f"p{n}")
        assert len(upkeeps(graph)) == 2

    def test_a_table_that_was_not_written_is_left_alone(self, grown):
        with open_graph(grown) as graph:
            insert(graph, "new")
            assert len(upkeeps(graph)) == 1
            assert fragments(graph) == 1
            assert fragments(graph, key=TEAM) == LIMIT + 1

    def test_all_tables_that_are_due_share_one_commit(self, grown):
        with open_graph(grown) as graph:
            graph.mutate(
                'query q() { insert Person { name: "x" } insert Team { code: "x" }'
                ' insert MemberOf { from: "x", to: "x" } }'
            )
            assert len(upkeeps(graph)) == 1
            assert [fragments(graph, key=key) for key in (PERSON, TEAM, MEMBER_OF)] == [1, 1, 1]
            check_settled(graph)

    @pytest.mark.parametrize("off", ["handle", "setting"])
    def test_it_can_be_off(self, grown, monkeypatch, off):
        if off == "setting":
            monkeypatch.setenv("OMNIGRAPH_UPKEEP", "0")
        with open_graph(grown, upkeep="off" if off == "handle" else "inline") as graph:
            assert graph.upkeep == ("off" if off == "handle" else "inline")
            insert(graph, "new")
            assert upkeeps(graph) == []

    def test_a_large_write_beside_an_index_is_indexed_at_once(self, tmp_path, monkeypatch):
        """Few fragments, many rows: the first load makes the indexes, and the second is outside them."""
        monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", "64")
        people = pa.array([f"p{n:06}" for n in range(2 * MANY_ROWS)])
        with init(tmp_path / "graph", SCHEMA) as graph:
            for start in (0, MANY_ROWS):
                graph.load_nodes("Person", pa.table({"name": people.slice(start, MANY_ROWS)}))
            assert len(upkeeps(graph)) == 1
            assert [state.tail for state in list_indexes(table_of(graph))] == [()]
            insert(graph, "one more")
            assert len(upkeeps(graph)) == 1
            check_settled(graph)

    def test_only_three_ways_are_known(self, grown):
        with pytest.raises(BadRequest, match='give "inline", "background" or "off"'):
            open_graph(grown, upkeep="sometimes")

    def test_a_setting_that_cannot_be_used_costs_no_write(self, grown, monkeypatch, caplog):
        monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", "many")
        with open_graph(grown) as graph:
            insert(graph, "new")
            assert upkeeps(graph) == []
        assert "OMNIGRAPH_UPKEEP_FRAGMENTS" in caplog.text


WRITES = {
    "mutation": lambda graph: insert(graph, "new"),
    "load": lambda graph: graph.load([{"type": "Person", "data": {"name": "new"}}]),
    "blobs.write": lambda graph: graph.blobs.write("node", "Person", "p1", "photo", b"bytes"),
    "schema_apply": lambda graph: graph.schema.apply(
        SCHEMA.replace("age: I32?", "age: I32?  city: String?")
    ),
    "branch_merge": lambda graph: graph.branches.merge("side"),
    "revert": lambda graph: graph.commits.revert(graph.commits.list(limit=1)[0].graph_commit_id),
}


@pytest.mark.parametrize("writer", WRITES)
def test_every_writer_is_followed_by_upkeep(grown, writer):
    with open_graph(grown, upkeep="off") as graph:
        if writer != "schema_apply":
            graph.branches.create("side")
            insert(graph, "side", "side")
        insert(graph, "main")  # so that the merge is no fast-forward
    with open_graph(grown) as graph:
        WRITES[writer](graph)
        (upkeep,) = upkeeps(graph)
        assert graph.commits.list(limit=1) == [upkeep]
        assert fragments(graph) == 1
        check_settled(graph)


class TestBranch:
    def test_only_fragments_of_the_fork_count_and_are_merged(self, grown):
        with open_graph(grown) as graph:
            graph.branches.create("side")
            before = graph.snapshot().tables
            for n in range(LIMIT):
                insert(graph, f"s{n}", "side")
                assert upkeeps(graph, "side") == []
            insert(graph, "last", "side")
            assert len(upkeeps(graph, "side")) == 1
            # Those of main are still there, and its own are one.
            assert fragments(graph, "side") == LIMIT + 2
            assert graph.snapshot().tables == before
            assert names(graph, "side") == names(graph) | {f"s{n}" for n in range(LIMIT)} | {"last"}
            check_settled(graph)


class TestBestEffort:
    def test_a_lock_that_is_taken_means_later(self, grown):
        with open_graph(grown, upkeep="off") as graph:
            pin = graph.snapshot().tables[PERSON]
            with held_by_another(graph), pytest.raises(OthersAtWork):
                keep_in_shape(workspace_of(graph), "main", [pin])
            assert upkeeps(graph) == []
            assert keep_in_shape(workspace_of(graph), "main", [pin]) is not None

    def test_a_handle_that_had_to_wait_tries_again_soon(self, grown, caplog):
        caplog.set_level(logging.INFO, "omnigraph")
        with open_graph(grown) as graph:
            # Phase D of the write fails, so its own sidecar is pending when upkeep is due.
            with failpoints.arm("recovery.sidecar_delete", times=1):
                insert(graph, "first")
            assert "an operation is not settled yet" in caplog.text
            assert upkeeps(graph) == []
            for n in range(8):
                insert(graph, f"n{n}")
            assert len(upkeeps(graph)) == 1
            check_settled(graph)

    @pytest.mark.parametrize("how", ["fails", "dies"])
    @pytest.mark.parametrize(
        # Upkeep has its locks before it stages, and forks nothing.
        "moment",
        [one for one in MOMENTS if one not in {"before_locks", "before_fork", "after_fork"}],
    )
    def test_what_stops_upkeep_does_not_stop_the_write(self, grown, moment, how, caplog):
        action = "raise" if how == "fails" else Died(moment)
        with open_graph(grown) as graph:
            with failpoints.arm(f"optimize.{moment}", action, times=1) as armed:
                mine = insert(graph, "first")
            assert armed.fired == 1
            assert mine.operation == "mutation"
            assert "first" in names(graph)
            assert "left out" in caplog.text
            # The next write goes on as if nothing had been, and so does another handle.
            insert(graph, "second")
            with open_graph(grown) as other:
                insert(other, "third")
                assert {"first", "second", "third"} <= names(other)
                check_settled(other)

    @pytest.mark.parametrize("how", ["fails", "dies"])
    @pytest.mark.parametrize("steps", [1, 2, 3, 4])
    def test_upkeep_that_stops_between_tables_blocks_nobody(self, grown, steps, how):
        """What it did is kept: no content changed, so there is nothing to undo."""
        action = "raise" if how == "fails" else Died("between tables")
        everything = [
            {"type": "Person", "data": {"name": "first", "age": 1}},
            {"type": "Team", "data": {"code": "first"}},
            {"edge": "MemberOf", "from": "first", "to": "first", "data": {"id": "first"}},
        ]
        with open_graph(grown) as graph:
            point = "optimize.after_table_commit"
            with failpoints.arm(point, action, times=1, skip=steps - 1) as armed:
                graph.load(everything, mode="append")
            assert armed.fired == 1
            assert upkeeps(graph) == []
            insert(graph, "second")
            insert(graph, "third")
            assert len(upkeeps(graph)) == 1
            assert {"first", "second", "third"} <= names(graph)
            check_settled(graph)


def grow(uri: str, who: str, count: int) -> int:
    """Insert as another process; how many upkeeps there are then."""
    with open_graph(uri) as graph:
        for n in range(count):
            insert(graph, f"{who}{n}")
        return len(upkeeps(graph))


def write_alone(graph):
    """Until the table is due for certain: upkeep gives way to a writer, and the two may have met each time."""
    for n in range(2 * LIMIT):
        insert(graph, f"alone{n}")


def test_two_processes_lose_nothing(graph):
    run_processes(grow, [(graph.uri, who, 15) for who in "ab"])
    assert names(graph) == {f"{who}{n}" for who in "ab" for n in range(15)}
    write_alone(graph)
    assert upkeeps(graph) != []
    check_settled(graph)


def append(uri: str, who: str, count: int) -> None:
    """Insert as a worker of a server does, whose upkeep runs behind its writes."""
    with open_graph(uri, upkeep="background") as graph:
        for n in range(count):
            insert(graph, f"{who}{n}")


def test_of_two_processes_one_does_the_upkeep_of_a_table(graph):
    """Neither repeats at once what the other has just done."""
    run_processes(append, [(graph.uri, who, 15) for who in "ab"])
    assert names(graph) == {f"{who}{n}" for who in "ab" for n in range(15)}
    write_alone(graph)
    versions = [
        graph.snapshot(snapshot=each.graph_commit_id).tables[PERSON].table_version
        for each in reversed(upkeeps(graph))
    ]
    assert versions
    assert all(later - earlier >= LIMIT for earlier, later in pairwise(versions)), versions
    check_settled(graph)


class TestBackground:
    def test_the_writer_does_not_wait_and_close_does(self, grown):
        graph = open_graph(grown, upkeep="background")
        assert graph.upkeep == "background"
        pause = failpoints.Pause()
        with failpoints.arm("optimize.before_phase_a", pause, times=1):
            mine = insert(graph, "new")
            pause.wait_until_reached()
            assert graph.commits.list(limit=1) == [mine]
            closing = threading.Thread(target=graph.close)
            closing.start()
            pause.resume()
            closing.join()
        assert [one.name for one in threading.enumerate() if one.name == "upkeep"] == []
        with open_graph(grown, mode="r") as reader:
            (upkeep,) = upkeeps(reader)
            assert upkeep.parent_commit_id == mine.graph_commit_id
            check_settled(reader)

    def test_a_closed_handle_begins_nothing(self, grown):
        graph = open_graph(grown, upkeep="background")
        workspace, keeper = workspace_of(graph), graph._state.keeper
        graph.close()
        with open_graph(grown, upkeep="off") as other:
            insert(other, "new")
            table = table_of(other)
            written = [(other.snapshot().tables[PERSON], table)]
            keeper.after_commit(workspace, "main", written)()
            assert upkeeps(other) == []


def test_every_writer_is_known():
    """A new kind of writer needs a line in WRITES, or a reason here: a purge rewrites what it touches itself."""
    others = {"embed", "ensure_indices", "optimize", "purge"}
    assert set(WRITERS) - others == set(WRITES) - {"blobs.write"}
