"""The copy of the page on backups, made in two steps while others write."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Drift, StorageError
from tests.graphs import person
from tests.moving.places import SCHEMA, names

FIRST = re.compile(r"__manifest/(_refs/.+|(.+/)?_versions/[^/]+)")


def copy_some(source: Path, target: Path, *, first: bool) -> None:
    """Copy what belongs to a step, in the order of names."""
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        name = path.relative_to(source)
        if (FIRST.fullmatch(name.as_posix()) is not None) == first:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / name)


@pytest.mark.parametrize("commits", [1, 7])
def test_a_copy_in_two_steps_has_what_was_there_at_first(tmp_path, commits):
    source, target = tmp_path / "g", tmp_path / "copy"
    with og.init(source, SCHEMA) as graph:
        graph.load([person("ann")])
        graph.branches.create("side")
        graph.load([person("bob")], branch="side")
        copy_some(source, target, first=True)
        for number in range(commits):
            graph.load([person(f"late {number}")])
            graph.load([person(f"late {number}")], branch="side")
        graph.branches.create("new", from_="side")
        graph.load([person("later")], branch="new")
        copy_some(source, target, first=False)
    for mode in ("rw", "r"):
        with og.open(target, mode=mode) as copy:
            assert names(copy) == ["ann"]
            assert names(copy, branch="side") == ["ann", "bob"]
            assert copy.branches.list() == ["main", "side"]
    with og.open(target) as copy:
        copy.load([person("own")], branch="side")
        copy.branches.merge("side")
        assert names(copy) == ["ann", "bob", "own"]
        assert copy.verify().ok


def test_one_that_is_put_back_in_place_goes_on_after_an_undo(tmp_path):
    source, backup = tmp_path / "g", tmp_path / "backup"
    with og.init(source, SCHEMA) as graph:
        graph.load([person("ann")])
        graph.branches.create("side")
        graph.load([person("bob")], branch="side")
        copy_some(source, backup, first=True)
        graph.load([person("late")])
        graph.load([person("late")], branch="side")
        copy_some(source, backup, first=False)
        graph_id = graph.status().graph_id
    shutil.rmtree(source)
    backup.rename(source)
    with og.open(source) as graph:
        with pytest.raises(Drift):
            graph.load([person("own")])
        done = graph.repair(confirm=True, undo=True)
        assert [row.action for row in done if row.table_key == "node:Person"] == ["undone"] * 2
        graph.load([person("own")])
        graph.load([person("own")], branch="side")
        assert names(graph) == ["ann", "own"]
        assert names(graph, branch="side") == ["ann", "bob", "own"]
        assert graph.status().graph_id == graph_id
        assert graph.verify().ok


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("branch", ["main", "side"])
def test_one_whose_tables_are_older_than_its_manifest_is_refused(tmp_path, branch, moved):
    source, target = tmp_path / "g", tmp_path / "copy"
    with og.init(source, SCHEMA) as graph:
        graph.load([person("ann")])
        graph.branches.create("side")
        graph.load([person("bob")], branch="side")
        copy_some(source, target, first=False)
        graph.load([person("late")], branch=branch)
        copy_some(source, target, first=True)
        # What a version of the manifest needs besides its own file.
        shutil.copytree(source / "__manifest", target / "__manifest", dirs_exist_ok=True)
    for _ in range(2):
        with pytest.raises(StorageError, match=f"incomplete.*node:Person.*`{branch}`"):
            og.open(target, moved=moved)
