"""The copy of the page on backups, made in two steps while others write."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import omnigraph as og
from tests.moving.places import SCHEMA, names, person

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
