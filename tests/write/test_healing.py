"""Every writer finishes what dead writers left, at its own door; a load once more when it has read."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph.commit import heal as healing

SCHEMA = "node Person { name: String @key }"
INSERT = 'query add() { insert Person { name: "b" } }'


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.branches.create("other")
        yield graph


WRITERS = {
    "load": lambda graph: graph.load([{"type": "Person", "data": {"name": "a"}}]),
    "load to a new branch": lambda graph: graph.load([], branch="new", from_branch="main"),
    "mutate": lambda graph: graph.mutate(INSERT),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "branch create": lambda graph: graph.branches.create("third"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_looks_for_dead_ones_at_its_door(graph, monkeypatch, writer):
    looked = []
    look = healing.list_sidecars

    def counting(workspace, graph_id):
        found = look(workspace, graph_id)
        looked.append(len(found))
        return found

    monkeypatch.setattr(healing, "list_sidecars", counting)
    WRITERS[writer](graph)
    # A load looks again when its records are read, and a branch that it makes has a door of its own.
    times = {"load": 2, "load to a new branch": 3}.get(writer, 1)
    assert looked == [0] * times


DYING = """
import sys
import omnigraph as og
og.open(sys.argv[1]).load([{"type": "City", "data": {"name": "Ulm"}}])
"""


def test_rows_of_a_writer_that_dies_while_a_load_reads_are_there_for_it(tmp_path):
    """The load names a city that only the dead writer's commit has, and leaves nothing pending."""
    schema = "node Person { name: String @key }\nnode City { name: String @key }\nedge In: Person -> City"
    died = []

    def progress(moment):
        if moment.phase == "reading" and not died:
            environment = {
                **os.environ,
                "OMNIGRAPH_FAILPOINTS": "load.after_phase_b_before_phase_c=exit",
            }
            command = [sys.executable, "-c", DYING, graph.uri]
            died.append(subprocess.run(command, env=environment, check=False).returncode)

    records = [
        {"type": "Person", "data": {"name": "Ada"}},
        {"edge": "In", "from": "Ada", "to": "Ulm"},
    ]
    with og.init(tmp_path / "g", schema) as graph:
        result = graph.load(records, progress=progress)
        assert (len(died), died[0] != 0) == (1, True)
        assert result.total_rows == 2
        assert graph.status()["pending_recoveries"] == 0
