"""Every operation of the matrix does on a moved and on a copied graph what it does where that was made."""

from __future__ import annotations

import os

import pytest

from omnigraph.graph import open as open_graph
from tests.faults.matrix.operations import GRAPHS, OPERATIONS, next_write, opened
from tests.moving.places import copy, move, put_back, seen
from tests.moving.test_moved_s3 import prefix

WAYS = {"copied": False, "moved": True}
NAMES = [name for name, one in OPERATIONS.items() if one.graph not in ("nothing", "crowded")]


@pytest.fixture(scope="module")
def made_for(tmp_path_factory):
    """Where a graph for operations lies, as it was made: for each kind once."""
    backups = {}

    def make(kind):
        if kind not in backups:
            folder = tmp_path_factory.mktemp("operations")
            GRAPHS[kind](str(folder / "graph"))
            backups[kind] = str(folder / "graph"), str(folder / "backup")
            copy(*backups[kind])
        uri, backup = backups[kind]
        put_back(backup, uri)
        return uri, backup

    return make


@pytest.fixture(autouse=True)
def _same_settings():
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def outcome(uri, operation, *, moved=False):
    """What a graph shows after an operation, and after somebody wrote where it wrote."""
    open_graph(uri, moved=moved).close()
    if operation.opens:
        operation.run(uri)
        return _after(uri, operation)
    with opened(uri) as graph:
        operation.run(graph)
    return _after(uri, operation)


def _after(uri, operation):
    with opened(uri) as graph:
        shown = seen(graph)
        next_write(graph, operation)
        return shown, seen(graph)


@pytest.mark.sampled(8, every=("way",))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_on_a_disk(made_for, tmp_path, name, way):
    operation = OPERATIONS[name]
    uri, backup = made_for(operation.graph)
    there = str(tmp_path / "there")
    (move if WAYS[way] else copy)(uri, there)
    found = outcome(there, operation, moved=WAYS[way])
    put_back(backup, uri) if not WAYS[way] else copy(backup, uri)
    expected = outcome(uri, operation)
    if name == "repair" and not WAYS[way]:
        # A copy begins at its last commit: what another program wrote stays with the original.
        assert found[0] != expected[0]
        return
    assert found == expected


@pytest.mark.sampled(1, every=())
@pytest.mark.parametrize("name", NAMES)
def test_in_a_bucket(made_for, s3, name):
    operation = OPERATIONS[name]
    uri, _ = made_for(operation.graph)
    there = prefix()
    copy(uri, there)
    found, expected = outcome(there, operation, moved=True), outcome(uri, operation)
    assert found == expected
