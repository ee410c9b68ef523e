"""A graph that is being settled at its new place, stopped at every point; whoever comes next settles it."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.commit import relocation
from omnigraph.commit.audit import read_audit
from omnigraph.errors import GraphMoved, GraphReplaced, StorageError
from omnigraph.storage.uris import Root
from tests.graphs import person
from tests.moving.places import bases, copy, move, names, seen
from tests.opened import workspace_of

OF_SETTLING = [
    relocation.BEFORE_A,
    "recovery.sidecar_write",
    relocation.BEFORE_B,
    relocation.AFTER_FORK,
    relocation.AFTER_FORKS,
    relocation.AFTER_B,
    relocation.AFTER_HEAD,
    "publish.before_write",
    "publish.after_write",
    relocation.AFTER_C,
    "recovery.sidecar_delete",
]
SETTLED = {"publish.after_write", relocation.AFTER_C, "recovery.sidecar_delete"}
"""From here on the graph is settled, whatever comes."""
DIE = """
import sys
from omnigraph import failpoints
from omnigraph.commit import relocation
import omnigraph as og
failpoints.arm(sys.argv[2], "exit", skip=int(sys.argv[3]))
og.open(sys.argv[1])
"""


def test_every_point_of_settling_is_among_them():
    declared = {name for name in failpoints.registered() if name.startswith("relocate.")}
    assert declared <= {str(name) for name in OF_SETTLING}


def stopped(there, point, skip=0):
    """Open a graph and die at a point, or fail there and go on; return whether it was reached."""
    with failpoints.arm(point, "raise", times=1, skip=skip) as armed:
        with contextlib.suppress(StorageError):
            og.open(there).close()
        return armed.fired > 0


def check_settled(there, before, *, commits=1):
    with og.open(there) as graph:
        assert seen(graph) == before
        assert all(path.startswith(Root.parse(there).child("")) for path in bases(graph))
        made = [one for one in graph.commits.list() if one.operation == "relocate"]
        assert len(made) == commits
        ids = {graph.snapshot(branch=name).graph_id for name in graph.branches.list()}
        assert ids == {graph.status().graph_id}
        assert graph.status().pending_recoveries == 0
        assert len(read_audit(workspace_of(graph))) <= 1
        for branch in ("lazy", "deep/er"):
            graph.load([person("after")], branch=branch)
            assert "after" in names(graph, branch)


@pytest.mark.parametrize(
    ("point", "skip"),
    [
        *((point, 0) for point in OF_SETTLING),
        (relocation.AFTER_FORK, 2),
        (relocation.AFTER_HEAD, 1),
    ],
)
def test_the_next_open_goes_on(made, tmp_path, point, skip):
    uri, before = made
    there = str(tmp_path / "there")
    copy(uri, there)
    assert stopped(there, point, skip)
    with og.open(there, mode="r") as reader:
        assert names(reader) == ["ann", "bob"]
        if point in SETTLED:
            assert seen(reader) == before
        else:
            with pytest.raises(GraphMoved):
                names(reader, "side")
    check_settled(there, before)


@pytest.mark.sampled(3, every=())
@pytest.mark.parametrize("point", [point for point in OF_SETTLING if "sidecar" not in point])
def test_a_process_that_dies_leaves_nothing_in_the_way(made, tmp_path, point):
    uri, before = made
    there = str(tmp_path / "there")
    move(uri, there)
    died = subprocess.run([sys.executable, "-c", DIE, there, point, "0"], check=False)
    assert died.returncode == failpoints.EXIT_CODE
    check_settled(there, before)


@pytest.mark.parametrize("point", [relocation.AFTER_FORK, relocation.AFTER_HEAD])
def test_a_graph_that_was_moved_back_in_the_middle_is_what_it_was(made, tmp_path, point):
    uri, before = made
    with og.open(uri) as graph:
        was = graph.status().graph_id
    there = str(tmp_path / "there")
    move(uri, there)
    assert stopped(there, point)
    move(there, uri)
    with og.open(uri, mode="r") as reader, pytest.raises(GraphMoved):
        names(reader, "side")
    with og.open(uri) as graph:
        assert graph.status().graph_id == was
    check_settled(uri, before, commits=0)


@pytest.mark.parametrize("point", [relocation.AFTER_FORK, relocation.AFTER_HEAD])
def test_a_graph_that_was_moved_on_in_the_middle_is_settled_there(made, tmp_path, point):
    uri, before = made
    move(uri, str(tmp_path / "there"))
    assert stopped(str(tmp_path / "there"), point)
    move(str(tmp_path / "there"), str(tmp_path / "further"))
    check_settled(str(tmp_path / "further"), before)


def test_it_may_be_said_after_a_crash_that_the_original_is_gone(made, tmp_path):
    uri, before = made
    with og.open(uri) as graph:
        was = graph.status().graph_id
    there = str(tmp_path / "there")
    move(uri, there)
    assert stopped(there, relocation.AFTER_HEAD)
    with og.open(there, moved=True) as graph:
        assert graph.status().graph_id == was
    check_settled(there, before)


def test_taking_an_id_back_may_stop_half_way(made, tmp_path):
    uri, before = made
    with og.open(uri) as graph:
        was = graph.status().graph_id
    there = str(tmp_path / "there")
    move(uri, there)
    with (
        og.open(there) as graph,
        failpoints.arm(relocation.AFTER_HEAD),
        pytest.raises(StorageError),
    ):
        graph.repair(moved=True)
    with og.open(there) as graph:
        assert graph.status().graph_id != was
        graph.repair(moved=True)
        assert graph.status().graph_id == was
    check_settled(there, before, commits=2)


def test_two_processes_that_open_a_copy_settle_it_once(made, tmp_path):
    uri, before = made
    there = str(tmp_path / "there")
    copy(uri, there)
    program = "import sys, omnigraph as og\nprint(og.open(sys.argv[1]).status().graph_id)"
    running = [
        subprocess.Popen([sys.executable, "-c", program, there], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = {process.communicate(timeout=600)[0] for process in running}
    assert (len(said), {process.returncode for process in running}) == (1, {0})
    check_settled(there, before)


def test_a_handle_of_the_graph_that_was_here_does_not_go_on(made, tmp_path):
    """It was moved away, settled there, and moved back under an open handle."""
    uri, _ = made
    there = str(tmp_path / "there")
    with og.open(uri) as graph:
        assert names(graph, "side") == ["ann", "bob", "max", "sue"]
        move(uri, there)
        og.open(there).close()
        move(there, uri)
        for branch in ("main", "side"):
            with pytest.raises((GraphMoved, GraphReplaced)):
                names(graph, branch)
