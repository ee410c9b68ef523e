"""The first-parent chain read from old to new equals the one read from new to old."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from omnigraph.errors import BranchInUse
from omnigraph.manifest.history import forwards
from omnigraph.manifest.history.ancestry import CommitGraph, unknown_records
from omnigraph.manifest.history.forwards import Forwards
from omnigraph.manifest.history.records import list_commits
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import Intent, ManifestChanges, publish
from tests.graphs import graph_of
from tests.manifest.publishing import PERSON, SCHEMA, advance, intent

graph = graph_of(SCHEMA)


def merge(manifest: Manifest, source: str, target: str):
    """A merge as history sees it: the records are taken over, the tables stay."""
    ours, theirs = manifest.state(target), manifest.state(source)
    head = theirs.head.commit
    adopted = unknown_records(CommitGraph(manifest, [ours, theirs]), head, ours)
    made = intent(operation="branch_merge")
    return publish(
        manifest,
        target,
        ManifestChanges(adopted=adopted),
        [ours.head.tables[PERSON]],
        Intent(made.graph_commit_id, made.operation, made.created_at, None, head.graph_commit_id),
        identifier=ours.identifier,
    )


def check(manifest: Manifest, branch: str) -> None:
    """Every suffix of the chain is found from its beginning, and nothing else is in the chain."""
    chain = list_commits(manifest, branch)[::-1]
    found = Forwards(manifest, manifest.state(branch))
    assert found.first() == chain[0]
    for at, commit in enumerate(chain):
        assert found.find(commit.graph_commit_id) == commit
        assert list(found.after(commit)) == chain[at + 1 :]
    for other in manifest.commits(manifest.state(branch)).values():
        if other not in chain:
            assert found.find(other.graph_commit_id) is None


@pytest.mark.parametrize("seed", range(3))
def test_any_history(graph, manifest, monkeypatch, seed):
    monkeypatch.setattr(forwards, "PAGE", 3)
    choose = random.Random(seed)
    for _ in range(30):
        names = graph.branches.list()
        branch = choose.choice(names)
        match choose.choice(["commit", "commit", "commit", "create", "merge", "delete"]):
            case "create" if len(names) < 4:
                free = [name for name in "abc" if name not in names]
                graph.branches.create(choose.choice(free), branch)
            case "merge" if len(names) > 1:
                merge(manifest, choose.choice([n for n in names if n != branch]), branch)
            case "delete" if branch != "main":
                with suppress(BranchInUse):
                    graph.branches.delete(branch)
            case _:
                advance(manifest, PERSON, branch=branch)
    for branch in graph.branches.list():
        check(manifest, branch)


def test_a_merged_branch_that_was_made_again_under_its_name(graph, manifest):
    """Both branches have commits with the same parent, name and version; one of them is live."""
    graph.branches.create("a")
    graph.branches.create("b")
    old = advance(manifest, PERSON, branch="a")
    merge(manifest, "a", "b")
    graph.branches.delete("a")
    graph.branches.create("a")
    new = advance(manifest, PERSON, branch="a")
    assert old.parent_commit_id == new.parent_commit_id
    assert (old.branch, old.manifest_version) == (new.branch, new.manifest_version)
    merge(manifest, "b", "a")
    check(manifest, "a")
    check(manifest, "b")


def test_a_long_history_is_read_by_pages(graph, manifest, monkeypatch):
    for _ in range(12):
        advance(manifest, PERSON)
    chain = list_commits(manifest)[::-1]
    monkeypatch.setattr(forwards, "PAGE", 4)
    read, commits = [], Manifest.commits

    def counted(self, state, depths=None):
        read.append(depths)
        return commits(self, state, depths)

    monkeypatch.setattr(Manifest, "commits", counted)
    after = Forwards(manifest, manifest.state("main")).after(chain[2])
    assert [next(after), next(after), next(after)] == chain[3:6]
    assert read == [(4, 7)]
