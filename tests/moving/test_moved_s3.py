"""Graphs from a bucket to a disk, to another prefix, and back."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

import omnigraph as og
from omnigraph.errors import GraphMoved, GraphReplaced
from omnigraph.storage.locks.leases import _text
from omnigraph.storage.locks.locks import _object_name
from omnigraph.storage.locks.waiting import WRITE
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.uris import Root
from tests.graphs import person
from tests.moving.places import bases, copy, names, put_back, seen
from tests.s3_server import BUCKET


def prefix(name="a graph"):
    return f"s3://{BUCKET}/{uuid4().hex}/{name}"


def test_up_down_and_between_prefixes(made, tmp_path, s3):
    uri, before = made
    places = [prefix("é x"), prefix(), str(tmp_path / "down here")]
    last, ids = uri, set()
    for place in places:
        copy(last, place)
        with og.open(place, mode="r") as reader:
            assert names(reader) == ["ann", "bob"]
            with pytest.raises(GraphMoved):
                names(reader, "side")
        with og.open(place) as graph:
            assert seen(graph) == before
            assert all(path.startswith(Root.parse(place).child("")) for path in bases(graph))
            assert graph.blobs.read("node", "Person", "ann", "face", branch="side") == b"\0\1\2"
            ids.add(graph.status().graph_id)
        last = place
    assert len(ids) == len(places)
    with og.open(places[1]) as graph:
        for branch in ("main", "lazy", "deep/er"):
            graph.load([person("new")], branch=branch)
            assert "new" in names(graph, branch)
        graph.branches.merge("deep/er", "side")
        graph.cleanup(keep_versions=1)
        assert names(graph, "side") == ["ann", "bob", "max", "new", "sue", "tom"]


def test_locks_that_came_along_do_not_block_for_ever(made, s3):
    """A lease of a writer of the original is not renewed in the copy."""
    uri, before = made
    there = prefix()
    copy(uri, there)
    store = open_store(Root.parse(there))
    for name in ("graph", "head main"):
        store.write_text(_object_name(name), _text("somebody else", WRITE, 2.0))
    with og.open(there) as graph:
        assert seen(graph) == before
        graph.branches.create("new")
        graph.load([person("new")], branch="new")
        assert "new" in names(graph, "new")
    assert json.loads(store.read_text(_object_name("graph")))["holder"] is None


def test_a_backup_that_is_put_back_under_an_open_handle(made, s3):
    uri, _ = made
    place, backup = prefix(), prefix("backup")
    copy(uri, place)
    with og.open(place) as handle:
        copy(place, backup)
        handle.load([person("lost")], branch="side")
        assert "lost" in names(handle, "side")
        put_back(backup, place)
        with pytest.raises(GraphReplaced):
            names(handle, "side")
    with og.open(place) as again:
        assert "lost" not in names(again, "side")
