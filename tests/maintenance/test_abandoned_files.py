"""Files that no version names: those of dead writes go with the next cleanup, those of living ones stay."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import Contention, InputError, StorageError
from omnigraph.failpoints import FilePause
from omnigraph.storage.layout import STAGING_DIR
from omnigraph.storage.locks import write_marks
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.loose_files import LooseFile
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.storage.processes import stopped_at

SCHEMA = "node Person { name: String @key  bio: String? }  edge Knows: Person -> Person"


def people(*names):
    return [{"type": "Person", "data": {"name": name, "bio": "x" * 5000}} for name in names]


graph = graph_of(SCHEMA, people("a"), upkeep="off")


def data_files(graph):
    return {path for path in Path(graph.uri).glob("nodes/**/data/*") if path.is_file()}


def marks(graph):
    return sorted(path.name for path in Path(graph.uri, STAGING_DIR).glob("*"))


def load_and_stop(pipe, uri, name, branch, place):
    """Load in a process of its own, and stop when all files are written and nothing is committed."""
    with failpoints.arm("load.before_locks", FilePause(Path(place))), og.open(uri) as graph:
        graph.load(people(name), branch=branch, from_branch=None if branch == "main" else "main")
        pipe.send("done")


@pytest.mark.parametrize("branch", ["main", "side"])
def test_files_of_a_killed_load_go_with_the_next_cleanup(graph, tmp_path, branch):
    graph.branches.create("side")
    graph.load(people("s"), branch="side")
    before = data_files(graph)
    with stopped_at(tmp_path / "pause", load_and_stop, (graph.uri, "killed", branch)) as stopped:
        assert data_files(graph) > before
        os.kill(stopped.process.pid, signal.SIGKILL)
        stopped.process.join()
    (mark,) = marks(graph)
    assert mark.endswith(".json")
    told = graph.cleanup(keep_versions=10, dry_run=True)
    assert sum(row.bytes_removed for row in told) > 0
    assert data_files(graph) > before
    report = graph.cleanup(keep_versions=10)
    assert report.tables == told.tables
    assert data_files(graph) == before
    assert marks(graph) == []
    assert graph.cleanup(keep_versions=10).bytes_removed == 0


def test_files_of_a_living_load_stay_and_are_committed(graph, tmp_path):
    before = data_files(graph)
    with stopped_at(tmp_path / "pause", load_and_stop, (graph.uri, "living", "main")) as stopped:
        written = data_files(graph) - before
        assert written
        for _ in range(2):
            graph.cleanup(keep_versions=1)
        assert written <= data_files(graph)
        assert stopped.go_on() == "done"
    assert marks(graph) == []
    names = graph.query("query q() { match { $p: Person } return { $p.name as n } order { n } }")
    assert [row["n"] for row in names] == ["a", "living"]


def test_beside_a_living_write_only_older_files_go(graph, tmp_path):
    before = data_files(graph)
    with stopped_at(tmp_path / "one", load_and_stop, (graph.uri, "dead", "main")) as dead:
        of_dead = data_files(graph) - before
        os.kill(dead.process.pid, signal.SIGKILL)
        dead.process.join()
    with stopped_at(tmp_path / "two", load_and_stop, (graph.uri, "living", "main")) as living:
        of_living = data_files(graph) - before - of_dead
        graph.cleanup(keep_versions=10)
        left = data_files(graph)
        assert not of_dead & left
        assert of_living <= left
        # It is known from when to when the dead one may have written, and that stays until all of it is gone.
        (note,) = (name for name in marks(graph) if name.endswith(".dead"))
        assert living.go_on() == "done"
    graph.cleanup(keep_versions=10)
    assert note not in marks(graph)


def test_a_file_of_unknown_origin_stays(graph):
    """No write of ours ran when it was made: another program may be about to commit it."""
    table = open_table(workspace_of(graph).ref("nodes/" + os.listdir(Path(graph.uri, "nodes"))[0]))
    file = LooseFile(table.ref)
    import pyarrow as pa

    file.add(pa.record_batch({"x": [1]}))
    file.close()
    graph.cleanup(keep_versions=1)
    assert Path(table.ref.uri, "data", file.name).exists()


def test_a_failed_write_leaves_a_note_and_a_refused_one_nothing(graph):
    before = data_files(graph)
    with failpoints.arm("load.before_locks"), pytest.raises(StorageError):
        graph.load(people("failed"))
    (note,) = marks(graph)
    assert note.endswith(".dead")
    graph.cleanup(keep_versions=10)
    assert data_files(graph) == before
    assert marks(graph) == []
    with pytest.raises(InputError):
        graph.load([{"type": "Person", "data": {"name": 1}}])
    graph.load(people("fine"))
    assert marks(graph) == []


def test_notes_are_bounded(graph, monkeypatch):
    monkeypatch.setattr(write_marks, "MOST_DEAD", 3)
    for _ in range(6):
        with failpoints.arm("mutation.before_locks"), pytest.raises(StorageError):
            graph.mutate('query q() { insert Person { name: "x" } }')
    assert 1 <= len(marks(graph)) <= 4
    graph.cleanup(keep_versions=10)
    assert marks(graph) == []


def test_a_write_that_was_taken_for_dead_commits_nothing(graph):
    """As after a stop of the machine: somebody removed the mark, so files may be gone."""

    def remove_marks(_):
        for path in Path(graph.uri, STAGING_DIR).glob("*.json"):
            path.unlink()

    with (
        failpoints.arm("mutation.before_locks", remove_marks, times=1),
        pytest.raises(Contention, match="took it for dead"),
    ):
        graph.mutate('query q() { insert Person { name: "x" } }', retries=0)
    assert graph.query("query q() { match { $p: Person } return { count($p) as n } }").scalar() == 1


def test_a_job_of_spark_is_protected_until_its_end(graph):
    store = workspace_of(graph).store
    before = data_files(graph)
    with failpoints.arm("load.before_locks"), pytest.raises(StorageError):
        graph.load(people("before"))
    write_marks.mark_job(store, "01J0000000000000000000000A")
    with failpoints.arm("load.before_locks"), pytest.raises(StorageError):
        graph.load(people("during"))
    graph.cleanup(keep_versions=10)
    assert len(data_files(graph) - before) == 1  # that of `during`, which might be the job's
    write_marks.end_job(store, "01J0000000000000000000000A")
    graph.cleanup(keep_versions=10)
    assert data_files(graph) == before
    assert marks(graph) == []


EVERY_WRITE = {
    "load": lambda graph: graph.load(people("n")),
    "load on a new branch": lambda graph: graph.load(people("n"), branch="new", from_branch="main"),
    "mutate": lambda graph: graph.mutate('query q() { insert Person { name: "n" } }'),
    "merge": lambda graph: graph.branches.merge("side"),
    "revert": lambda graph: graph.commits.revert(graph.commits.list()[0].graph_commit_id),
    "optimize": lambda graph: graph.optimize(),
    "ensure_indices": lambda graph: graph.ensure_indices(),
}


@pytest.mark.parametrize("name", EVERY_WRITE)
def test_every_write_makes_its_files_under_a_mark(graph, monkeypatch, name):
    graph.branches.create("side")
    graph.load(people("s"), branch="side")
    for at in range(3):
        graph.load(people(f"m{at}"))
    fragments, dataset = lance_module("fragment"), lance_module("dataset")
    seen = []

    def watched(function):
        def call(*arguments, **options):
            seen.append(len(marks(graph)))
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(fragments, "write_fragments", watched(fragments.write_fragments))
    commit = dataset.LanceDataset.commit
    monkeypatch.setattr(dataset.LanceDataset, "commit", staticmethod(watched(commit)))
    EVERY_WRITE[name](graph)
    assert seen
    assert all(seen), seen
    assert marks(graph) == []
