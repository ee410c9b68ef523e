"""Disks that are full: every operation meets one, and afterwards the graph reads, recovers and is cleaned up."""

from __future__ import annotations

import shutil

import pytest

import omnigraph as og
from omnigraph.errors import RecoveryRequired, StorageError
from omnigraph.storage.full_disk import RESERVE_BYTES
from omnigraph.storage.layout import RESERVE
from tests.faults.small_disks import fill, small_disk, used
from tests.opened import workspace_of

SCHEMA = """
node Person { name: String @key  bio: String? @index }
node Team { code: String @key }
edge In: Person -> Team
"""
NEXT = SCHEMA.replace("code: String @key", "code: String @key  motto: String?")
PEOPLE = "query people() { match { $p: Person } return { $p.name as name } order { name } }"
# The least that some writes need, and less.
STEPS = [0, 4 << 10, 16 << 10, 48 << 10, 128 << 10, 320 << 10]


def person(name, size=200):
    return {"type": "Person", "data": {"name": name, "bio": f"{name} " * (size // len(name))}}


OPERATIONS = {
    "load": lambda graph: graph.load([person(f"new{at}", 2000) for at in range(20)]),
    "mutate": lambda graph: graph.mutate('query q() { insert Person { name: "new0" } }'),
    "merge": lambda graph: graph.branches.merge("side"),
    "apply": lambda graph: graph.schema.apply(NEXT),
    "branch": lambda graph: graph.load([person("new0")], branch="made", from_branch="main"),
    "optimize": lambda graph: graph.optimize(),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "cleanup": lambda graph: graph.cleanup(keep_versions=1),
}


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", "6m") as place:
        yield place


@pytest.fixture
def made(disk, tmp_path):
    """A way to put a graph on the disk, with a branch to merge and small files to optimize.

    It was made there: branches know where.
    """
    place = disk / "g"
    with og.init(place, SCHEMA) as graph:
        graph.load([{"type": "Team", "data": {"code": "t"}}])
        for at in range(4):
            graph.load([person(f"p{at}")])
        graph.branches.create("side")
        graph.load([person("merged")], branch="side")
    shutil.move(place, tmp_path / "kept")

    def put():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(tmp_path / "kept", place)

    return put


def names(graph):
    return [row["name"] for row in graph.query(PEOPLE)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_on_a_full_disk_fails_whole_and_the_graph_goes_on(disk, made, name):
    refused = 0
    for free in STEPS:
        made()
        with og.open(disk / "g", upkeep="off") as graph:
            if name == "apply":
                graph.branches.delete("side")
            before = names(graph)
            filler = fill(disk, free)
            acknowledged = True
            try:
                OPERATIONS[name](graph)
            except (StorageError, RecoveryRequired) as error:
                acknowledged = False
                refused += 1
                assert "is full" in str(error), error
                assert "cleanup" in str(error) or "TMPDIR" in str(error)
            after = names(graph)
        with og.open(disk / "g", mode="r") as reader:
            assert names(reader) == after
        # Still full: what was left half way is finished or undone nevertheless.
        with og.open(disk / "g") as reopened:
            assert workspace_of(reopened).store.list("__recovery") == []
            found = names(reopened)
        if acknowledged:
            assert found == after
        else:
            assert found == before or set(found) - set(before) <= {"merged", *NEW}
        filler.unlink()
        with og.open(disk / "g") as graph:
            graph.load([person("later")])
            assert names(graph) == sorted([*found, "later"])
    if name not in {"cleanup", "ensure_indices"}:
        assert refused, "no step was small enough to try anything"


NEW = {f"new{at}" for at in range(20)}


def test_the_message_says_how_much_was_needed_and_what_to_run(disk, made):
    made()
    with og.open(disk / "g", upkeep="off") as graph:
        fill(disk)
        with pytest.raises(StorageError, match="the disk is full") as told:
            graph.load([person("big", 100_000)])
        assert "omnigraph cleanup" in str(told.value)
        assert "bytes are free" in str(told.value)
        assert told.value.details["disk_full"] is True
        assert told.value.details["free_bytes"] == 0
        with pytest.raises(StorageError, match=r"\d bytes were needed, 0 bytes are free"):
            workspace_of(graph).store.write_text("__probe/x", "y" * 5000)


def test_the_reserve_is_made_given_up_and_made_again(disk, made):
    made()
    reserve = disk / "g" / RESERVE
    assert reserve.stat().st_size == RESERVE_BYTES
    with og.open(disk / "g", upkeep="off") as graph:
        filler = []
        with pytest.raises(RecoveryRequired), _full_before_the_publish(disk, filler):
            graph.load([person("done")])
    with og.open(disk / "g") as graph:
        assert "done" in names(graph)
        assert not reserve.exists()
        filler[0].unlink()
        graph.load([person("later")])
        assert reserve.stat().st_size == RESERVE_BYTES


def _full_before_the_publish(disk, filler):
    from omnigraph import failpoints

    return failpoints.arm(
        "load.after_phase_b_before_phase_c", lambda _: filler.append(fill(disk)), times=1
    )


def test_a_graph_that_filled_its_disk_is_cleaned_up_by_the_tool_alone(disk):
    """Loads until nothing fits any more; then cleanup frees room for the next load, without help."""
    with og.init(disk / "g", SCHEMA) as graph:
        for at in range(300):
            try:
                graph.load([person(f"n{at % 10}", 30_000)])
            except (StorageError, RecoveryRequired) as error:
                assert "is full" in str(error)
                break
        else:
            pytest.fail("the disk never got full")
        kept = names(graph)
    full = used(disk)
    with og.open(disk / "g") as graph:
        graph.cleanup(keep_versions=1)
        assert used(disk) < full - (2 << 20)
        assert names(graph) == kept
        graph.load([person("later", 30_000)])
        graph.optimize()
        graph.cleanup(keep_versions=1)
        assert names(graph) == sorted([*kept, "later"])


def test_a_full_cache_directory_fails_no_query(tmp_path, disk, monkeypatch):
    """Neither what is kept for traversals nor an index for a search without one has room there."""
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(disk / "cache"))
    with og.init(tmp_path / "g", SCHEMA.replace(" @index", "")) as graph:
        graph.load([person(f"n{at}", 2000) for at in range(300)])
        graph.load([{"type": "Team", "data": {"code": "t"}}])
        graph.load([{"edge": "In", "from": f"n{at}", "to": "t"} for at in range(300)])
        fill(disk)
        found = graph.query(
            """
            query q() {
              match { $p: Person  $p in $t  search($p.bio, "n17") }
              return { $p.name as n }
              order { bm25($p.bio, "n17") }
              limit 5
            }
            """
        )
        assert [row["n"] for row in found] == ["n17"]
