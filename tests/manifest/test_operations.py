"""Which commits an operation id is looked up in, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omnigraph.clock import new_ulid
from omnigraph.manifest.history import operation_records
from omnigraph.manifest.history.operation_records import RecentOperations
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.manifest.rows import GraphCommit
from tests.manifest.publishing import intent, new_graph

FEW = 4


@pytest.fixture
def graph(tmp_path, monkeypatch):
    """A graph with two branches, of which the last few commits count."""
    monkeypatch.setattr(operation_records, "LOOKED_AT", FEW)
    with new_graph(tmp_path) as graph:
        graph.branches.create("side")
        yield graph


def made(
    manifest: Manifest, chosen: str | None = None, branch: str = "main", **more: Any
) -> GraphCommit:
    """Publish a commit alone under an id."""
    changes = ManifestChanges(adopted=more.pop("adopted", ()))
    wanted = replace(intent(), operation_id=chosen, **more)
    pin = manifest.state(branch).identifier
    return publish(manifest, branch, changes, (), wanted, identifier=pin, unchecked=True)


def merged(manifest: Manifest) -> GraphCommit:
    """Merge `side` into `main` as far as the commit graph goes, with all records it has."""
    side = manifest.state("side")
    known = manifest.commits(manifest.state("main"))
    adopted = tuple(one for name, one in manifest.commits(side).items() if name not in known)
    parent = side.head.commit.graph_commit_id
    return made(manifest, merged_parent_commit_id=parent, adopted=adopted)


@pytest.mark.parametrize("warm", [False, True])
def test_the_last_commits_of_the_branch_count(manifest, warm):
    """Whatever was merged in between, and whether all of them are read or only the new ones."""
    kept, chosen = RecentOperations(), new_ulid()

    def found(branch: str = "main") -> GraphCommit | None:
        recent = kept if warm else RecentOperations()
        return recent.find(manifest, manifest.state(branch), chosen)

    made(manifest, new_ulid())
    assert found() is None
    first = made(manifest, chosen)
    assert found() == first
    on_side = [made(manifest, new_ulid(), "side") for _ in range(2 * FEW)]
    merge = merged(manifest)
    assert merge.depth > first.depth + FEW, "less deep than many that were merged"
    assert found() == first
    assert found("side") is None
    recent = kept if warm else RecentOperations()
    assert recent.find(manifest, manifest.state("main"), on_side[-1].operation_id) is None
    for _ in range(FEW - 2):
        made(manifest, new_ulid())
    assert found() == first, "it is the last that counts"
    made(manifest)
    assert found() is None
    again = made(manifest, chosen)
    assert found() == again


def test_a_branch_that_was_made_again_is_another_one(graph, manifest):
    recent, chosen = RecentOperations(), new_ulid()
    made(manifest, chosen, "side")
    assert recent.find(manifest, manifest.state("side"), chosen) is not None
    graph.branches.delete("side")
    graph.branches.create("side")
    assert recent.find(manifest, manifest.state("side"), chosen) is None


def test_a_state_knows_nothing_of_what_came_after_it(manifest):
    recent, chosen = RecentOperations(), new_ulid()
    older = manifest.state("main")
    made(manifest, chosen)
    assert recent.find(manifest, manifest.state("main"), chosen) is not None
    assert recent.find(manifest, older, chosen) is None


def test_so_many_branches_are_remembered_and_the_others_read_again(manifest, monkeypatch):
    monkeypatch.setattr(operation_records, "REMEMBERED", 1)
    recent, chosen = RecentOperations(), new_ulid()
    first = {branch: made(manifest, chosen, branch) for branch in ("main", "side")}
    for branch in ("main", "side", "main"):
        assert recent.find(manifest, manifest.state(branch), chosen) == first[branch]
    assert len(recent._known) == 1


def test_of_commits_that_are_too_old_nothing_is_kept(manifest):
    recent = RecentOperations()
    for _ in range(3 * FEW):
        made(manifest, new_ulid())
        recent.find(manifest, manifest.state("main"), new_ulid())
    known = recent._known["main"]
    assert [len(each) for each in (known._made, known._numbers, known._holding)] == [FEW] * 3
