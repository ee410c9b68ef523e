"""What branches cost when there are many: reads of the store are counted, not time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from omnigraph.storage.objects.local_objects import LocalObjectStore
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA
from tests.opened import workspace_of
from tests.read.view_helpers import counted

REFS = "__manifest/_refs/branches"


graph = graph_of(SCHEMA)


def reads_of(monkeypatch, action):
    """How often an action reads an object, and how often it lists objects."""
    with monkeypatch.context() as patched:
        gets, lists = (counted(patched, LocalObjectStore, name) for name in ("_get", "_sizes"))
        action()
        return gets["_get"], lists["_sizes"]


def test_making_a_branch_and_reading_its_head_read_no_other_branch(graph, monkeypatch):
    def make(name):
        return reads_of(monkeypatch, lambda: graph.branches.create(name))

    make("warm")
    few = make("few")
    others = [f"team-{number}/ä" for number in range(30)]
    for name in others:
        graph.branches.create(name)
    assert make("many") == few
    assert graph.branches.list() == ["main", *sorted(["warm", "few", "many", *others])]

    # Lance does not read them either: it would fail.
    for name in ["warm", "few", "many"]:
        Path(graph.uri, REFS, f"{name}.json").write_text("no ref")
    assert make("last") == few
    assert "last" in graph.branches.list()
    manifest = workspace_of(graph).manifest
    manifest.forget()
    assert reads_of(monkeypatch, lambda: manifest.state("last")) == (2, 0)
    assert reads_of(monkeypatch, lambda: manifest.state("last")) == (1, 0)


def test_deleting_a_branch_reads_the_ref_of_every_other_one_once(graph, monkeypatch):
    names = [f"b{number:02}" for number in range(25)]
    for name in names:
        graph.branches.create(name)
    graph.branches.delete(names.pop())
    reads = []
    while len(names) > 20:
        name = names.pop()
        reads.append(reads_of(monkeypatch, lambda name=name: graph.branches.delete(name)))
    gets, lists = zip(*reads, strict=True)
    assert [before - after for before, after in pairwise(gets)] == [1, 1, 1]
    assert set(lists) == {lists[0]}
