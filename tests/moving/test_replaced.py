"""A handle that is open while a backup is put back: it never answers for what is gone."""

from __future__ import annotations

import random
import subprocess

import pytest

import omnigraph as og
from omnigraph.errors import GraphReplaced
from tests.graphs import person
from tests.moving.places import copy, names, put_back
from tests.sampling import seed


def read(handle, branch):
    """The commit that a handle says it read, and the names in it; None if it refused."""
    try:
        commit = handle.snapshot(branch=branch).graph_commit_id
        return commit, names(handle, branch)
    except GraphReplaced:
        return None


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["r", "rw"])
@pytest.mark.parametrize("branch", ["main", "side", "lazy"])
@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_it_says_so_whatever_was_written_since(made, tmp_path, mode, branch, later):
    """The numbers of versions are lower than before, the same, or higher."""
    uri, _ = made
    backup = str(tmp_path / "backup")
    copy(uri, backup)
    with og.open(uri, mode=mode) as handle:
        with og.open(uri) as writer:
            for name in ("lost one", "lost two"):
                writer.load([person(name)], branch=branch)
        assert "lost two" in names(handle, branch)
        put_back(backup, uri)
        with og.open(uri) as writer:
            for step in range(later):
                writer.load([person(f"kept {step}")], branch=branch)
            for _ in range(2):
                with pytest.raises(GraphReplaced, match="open it again"):
                    names(handle, branch)
        with og.open(uri) as again:
            kept = [name for name in names(again, branch) if " " in name]
            assert kept == [f"kept {step}" for step in range(later)]


def test_lists_of_names_are_refused_as_well(made, tmp_path):
    """They need no table of the graph, and would be those of another one."""
    uri, _ = made
    backup = str(tmp_path / "backup")
    copy(uri, backup)
    with og.open(uri, mode="r") as handle:
        with og.open(uri) as writer:
            writer.load([person("lost")])
            writer.branches.create("lost")
            writer.tags.create("lost")
        assert "lost" in names(handle)
        put_back(backup, uri)
        for ask in (handle.branches.list, handle.tags.list, handle.snapshot):
            with pytest.raises(GraphReplaced, match="open it again"):
                ask()


def test_a_backup_of_what_the_handle_knows_changes_nothing_for_it(made, tmp_path):
    uri, _ = made
    with og.open(uri) as handle:
        handle.load([person("new")], branch="side")
        expected = {branch: names(handle, branch) for branch in handle.branches.list()}
        copy(uri, str(tmp_path / "backup"))
        put_back(str(tmp_path / "backup"), uri)
        assert {branch: names(handle, branch) for branch in handle.branches.list()} == expected
        handle.load([person("newer")], branch="side")
        assert "newer" in names(handle, "side")


def test_a_backup_put_back_in_place_is_noticed(made, tmp_path):
    """The directory stays, with the files that are in both: only those that differ are replaced."""
    uri, _ = made
    backup = str(tmp_path / "backup")
    subprocess.run(["cp", "-a", uri, backup], check=True)
    with og.open(uri) as handle:
        handle.load([person("lost")], branch="side")
        assert "lost" in names(handle, "side")
        subprocess.run(
            f'cd "{uri}" && find . -type f | while read f; do'
            f' [ -e "{backup}/$f" ] || rm "$f"; done && cp -a "{backup}/." .',
            shell=True,
            check=True,
        )
        assert names(handle) == ["ann", "bob"]
        with pytest.raises(GraphReplaced):
            names(handle, "side")


@pytest.mark.parametrize("number", range(2))
def test_random_histories_with_backups(made, tmp_path, number):
    """Whatever is put back and when, an answer belongs to the commit that the handle names."""
    uri, _ = made
    rng = random.Random(f"{seed()} {number}")
    backups, held, known = [], [og.open(uri, mode="r")], {}
    for step in range(14):
        branch = rng.choice(["main", "side"])
        act = rng.choice(["write", "write", "write", "back up", "put back", "open"])
        if act == "write":
            with og.open(uri) as writer:
                writer.load([person(f"p{number}-{step}")], branch=branch)
        elif act == "back up":
            backups.append(str(tmp_path / f"backup {step}"))
            copy(uri, backups[-1])
        elif act == "put back" and backups:
            put_back(rng.choice(backups), uri)
        elif act == "open":
            held.append(og.open(uri, mode="r"))
        with og.open(uri, mode="r") as fresh:
            expected = read(fresh, branch)
        for handle in rng.sample(held, min(2, len(held))):
            found = read(handle, branch)
            assert found in (None, expected), f"seed {seed()} {number}, step {step}"
            if found is not None:
                assert known.setdefault(found[0], found[1]) == found[1]
    for handle in held:
        handle.close()
