"""The commit graph and time travel."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitNotFound,
    HistoryReclaimed,
    StorageError,
    VersionNotFound,
)
from omnigraph.graph import open as open_graph
from omnigraph.manifest import tidying
from omnigraph.manifest.publisher import ManifestChanges, publish
from tests.graphs import graph_of
from tests.manifest.publishing import PERSON, SCHEMA, TEAM, advance, intent, new_graph
from tests.opened import workspace_of

graph = graph_of(SCHEMA)


def test_genesis_has_no_parent_and_no_actor(graph):
    (genesis,) = graph.commits.list()
    assert genesis.to_json() == {
        "graph_commit_id": genesis.graph_commit_id,
        "branch": None,
        "manifest_version": 1,
        "parent_commit_id": None,
        "merged_parent_commit_id": None,
        "actor_id": None,
        "created_at": genesis.created_us,
        "operation": "init",
        "operation_id": None,
        "facts": {},
    }
    assert len(genesis.graph_commit_id) == 26
    assert 1_600_000_000_000_000 < genesis.created_us < 10_000_000_000_000_000


def test_the_list_is_the_first_parent_chain_newest_first(graph):
    made = [advance(workspace_of(graph).manifest, PERSON) for _ in range(4)]
    listed = graph.commits.list()
    assert listed[:4] == made[::-1]
    assert listed[4].parent_commit_id is None
    for child, parent in itertools.pairwise(listed):
        assert child.parent_commit_id == parent.graph_commit_id
        assert child.manifest_version > parent.manifest_version


def test_adopted_commits_are_shown_but_not_listed(graph):
    graph.branches.create("a")
    theirs = advance(workspace_of(graph).manifest, PERSON, branch="a")
    merge = merged(graph, theirs)
    assert merge.merged_parent_commit_id == theirs.graph_commit_id
    listed = [commit.graph_commit_id for commit in graph.commits.list()]
    assert theirs.graph_commit_id not in listed
    graph.branches.delete("a")
    assert graph.commits.show(theirs.graph_commit_id) == theirs


def test_filters_and_limit(graph):
    graph.branches.create("x")
    ada = advance(workspace_of(graph).manifest, PERSON, branch="x", actor="ada")
    bob = advance(workspace_of(graph).manifest, PERSON, branch="x", actor="bob")
    again = advance(workspace_of(graph).manifest, PERSON, branch="x", actor="ada")
    (genesis,) = graph.commits.list()
    listed = graph.commits.list
    assert listed("x", filter="actor=ada") == [again, ada]
    assert listed("x", filter=["actor=ada", "branch=x"], limit=1) == [again]
    assert listed("x", filter="actor=") == [genesis]
    assert listed("x", filter="branch=main") == [genesis]
    assert listed("x", filter="branch=x") == [again, bob, ada]
    assert listed(" x ", limit=2) == [again, bob]


def test_operations_and_their_ids(tmp_path):
    first, second = "01JZZZZZZZZZZZZZZZZZZZZZZ1", "01JZZZZZZZZZZZZZZZZZZZZZZ2"
    with new_graph(tmp_path) as graph:
        loaded = graph.load([{"type": "Team", "data": {"code": "a"}}], operation_id=first).commit
        text = 'query add() { insert Team { code: "b" } }'
        mutated = graph.mutate(text, operation_id=f" {second.lower()} ").commit
        plain = graph.mutate('query more() { insert Team { code: "c" } }').commit
        listed = graph.commits.list
        assert (loaded.operation_id, mutated.operation_id) == (first, second)
        assert listed(filter=f"operation_id={first}") == [loaded]
        assert listed(filter=f"operation_id= {first.lower()} ") == [loaded]
        assert listed(filter=f"operation={second}") == [mutated]
        assert listed(filter="operation=mutation") == [plain, mutated]
        assert listed(filter=["operation=load", f"operation_id={second}"]) == []
        assert listed(filter="operation_id=")[0] == plain
        assert graph.commits.show(loaded.graph_commit_id).to_json()["operation_id"] == first
        for bad in ("x", first[:-1], "I" * 26, "8" + first[1:], 3, ""):
            with pytest.raises(BadRequest, match="ULID"):
                graph.mutate(text, operation_id=bad)
            with pytest.raises(BadRequest, match="ULID"):
                graph.load([], operation_id=bad)


def test_a_list_goes_on_after_a_commit(graph):
    """Over the fork, and only over commits of the line: not over those a merge brought."""
    manifest = workspace_of(graph).manifest
    base = [advance(manifest, PERSON) for _ in range(3)]
    graph.branches.create("x")
    mine = [advance(manifest, PERSON, branch="x") for _ in range(3)]
    later = advance(manifest, PERSON)
    whole = graph.commits.list("x")
    assert whole == [*mine[::-1], *base[::-1], whole[-1]]
    for at, commit in enumerate(whole):
        rest = graph.commits.list("x", before=commit.graph_commit_id)
        assert rest == whole[at + 1 :]
        assert graph.commits.list("x", None, 1, commit.graph_commit_id) == rest[:1]
    assert graph.commits.list("x", "branch=main", before=mine[1].graph_commit_id)[0] == base[2]
    graph.branches.create("y", "x")
    assert graph.commits.list("y", before=base[1].graph_commit_id) == [base[0], whole[-1]]
    for wrong in (later.graph_commit_id, "0" * 26, "", 3, base[0]):
        with pytest.raises(BadRequest, match="before"):
            graph.commits.list("x", before=wrong)


def test_a_list_that_goes_on_reads_nothing_above(graph, monkeypatch):
    manifest = workspace_of(graph).manifest
    made = [advance(manifest, PERSON) for _ in range(6)]
    graph.branches.create("x")
    advance(manifest, PERSON, branch="x")
    read, real = [], manifest.commits
    monkeypatch.setattr(
        manifest, "commits", lambda state, depths: read.append(depths) or real(state, depths)
    )
    (found,) = graph.commits.list("x", limit=1, before=made[3].graph_commit_id)
    assert (found, read) == (made[2], [(1, made[2].depth)])


def test_a_list_does_not_go_on_after_a_merged_or_a_former_commit(graph):
    manifest = workspace_of(graph).manifest
    graph.branches.create("a")
    theirs = advance(manifest, PERSON, branch="a")
    merged(graph, theirs)
    with pytest.raises(BadRequest, match="before"):
        graph.commits.list(before=theirs.graph_commit_id)
    graph.branches.delete("a")
    graph.branches.create("a")
    again = advance(manifest, TEAM, branch="a")
    assert again.manifest_version == theirs.manifest_version + 1
    # The branch of that name holds the record of its namesake, but it is not on its line.
    with pytest.raises(BadRequest, match="before"):
        graph.commits.list("a", before=theirs.graph_commit_id)
    assert len(graph.commits.list("a", before=again.graph_commit_id)) == 2


def test_the_line_is_walked_where_the_versions_of_the_manifest_are_gone(graph):
    manifest = workspace_of(graph).manifest
    made = [advance(manifest, PERSON) for _ in range(4)]
    table = manifest.state("main").table
    table.dataset.cleanup_old_versions(timedelta(0))
    with pytest.raises(HistoryReclaimed):
        graph.snapshot(snapshot=made[1].graph_commit_id)
    rest = graph.commits.list(before=made[1].graph_commit_id)
    assert rest[0] == made[0]
    assert len(rest) == 2


def merged(graph, theirs) -> object:
    """Publish a merge of a commit into `main` that changes no table."""
    made = replace(intent(operation="branch_merge"), merged_parent_commit_id=theirs.graph_commit_id)
    changes = ManifestChanges(adopted=(theirs,))
    return publish(workspace_of(graph).manifest, "main", changes, (), made, unchecked=True)


def test_depths_count_the_longest_way(graph):
    manifest = workspace_of(graph).manifest
    graph.branches.create("a")
    ours = advance(manifest, TEAM)
    theirs = [advance(manifest, PERSON, branch="a") for _ in range(3)]
    assert (ours.depth, [one.depth for one in theirs]) == (2, [2, 3, 4])
    made = replace(intent(), merged_parent_commit_id=theirs[-1].graph_commit_id)
    publish(manifest, "main", ManifestChanges(adopted=tuple(theirs)), (), made, unchecked=True)
    assert graph.snapshot().commit.depth == 5
    assert [one.depth for one in graph.commits.list()] == [5, 2, 1]
    made = replace(intent(), merged_parent_commit_id="nobody")
    with pytest.raises(StorageError, match="merged parent"):
        publish(manifest, "main", ManifestChanges(), (), made, unchecked=True)


@pytest.mark.parametrize("bad", ["actor", "colour=red", "=x", "", 3, [3], b"x", [b"actor="]])
def test_bad_filters(graph, bad):
    with pytest.raises(BadRequest):
        graph.commits.list(filter=bad)


@pytest.mark.parametrize("limit", [0, -1, True, "3", 1.5])
def test_bad_limits(graph, limit):
    with pytest.raises(BadRequest):
        graph.commits.list(limit=limit)


def test_unknown_things(graph):
    with pytest.raises(BranchNotFound) as caught:
        graph.commits.list("ghost")
    assert caught.value.details == {"branch": "ghost"}
    for unknown in ("0" * 26, "", "not a ulid", "x' or '1'='1"):
        with pytest.raises(CommitNotFound):
            graph.commits.show(unknown)
        with pytest.raises(CommitNotFound):
            graph.snapshot(snapshot=unknown)


def test_a_commit_is_shown_from_any_handle(graph):
    graph.branches.create("x")
    commit = advance(workspace_of(graph).manifest, PERSON, branch="x", actor="ada")
    with open_graph(graph.uri, mode="r") as other:
        assert other.commits.show(commit.graph_commit_id) == commit


def test_every_past_state_can_be_read_by_commit_and_by_version(graph):
    genesis = graph.snapshot()
    made = [advance(workspace_of(graph).manifest, key) for key in (PERSON, TEAM, PERSON)]
    versions = [
        (1, 1, genesis.commit),
        (2, 1, made[0]),
        (2, 2, made[1]),
        (3, 2, made[2]),
    ]
    for person, team, commit in versions:
        by_id = graph.snapshot(snapshot=commit.graph_commit_id)
        by_version = graph.snapshot(version=commit.manifest_version)
        assert by_id == by_version
        assert by_id.commit == commit
        assert by_id.tables[PERSON].table_version == person
        assert by_id.tables[TEAM].table_version == team


def test_a_snapshot_never_moves(graph):
    held = graph.snapshot()
    before = held.to_json()
    advance(workspace_of(graph).manifest, PERSON, TEAM)
    assert held.to_json() == before


def test_versions_of_a_branch_start_at_its_fork(graph):
    advance(workspace_of(graph).manifest, PERSON)
    fork = advance(workspace_of(graph).manifest, PERSON)
    graph.branches.create("x")
    on_main = advance(workspace_of(graph).manifest, TEAM)
    on_x = advance(workspace_of(graph).manifest, PERSON, branch="x")
    assert on_main.manifest_version == on_x.manifest_version
    assert graph.snapshot(branch="x", version=on_x.manifest_version).commit == on_x
    assert graph.snapshot(branch="x", version=fork.manifest_version).commit == fork
    assert graph.snapshot(branch="main", version=on_x.manifest_version).commit == on_main
    for version in (fork.manifest_version - 1, on_x.manifest_version + 1, 0, -3):
        with pytest.raises(VersionNotFound) as caught:
            graph.snapshot(branch="x", version=version)
        assert caught.value.details == {"branch": "x", "version": version}


def test_a_version_between_two_commits_is_the_older_one(graph, monkeypatch):
    """Compaction makes versions of its own, which no commit has."""
    monkeypatch.setattr(tidying, "COMPACT_AT_FRAGMENTS", 2)
    first = advance(workspace_of(graph).manifest, PERSON)
    second = advance(workspace_of(graph).manifest, PERSON)
    third = advance(workspace_of(graph).manifest, PERSON)
    commits = {commit.manifest_version: commit for commit in (first, second, third)}
    gaps = set(range(first.manifest_version, third.manifest_version)) - set(commits)
    assert gaps, "the compaction should have made a version of its own"
    for gap in gaps:
        older = max(version for version in commits if version < gap)
        assert graph.snapshot(version=gap).commit == commits[older]


@pytest.mark.parametrize(
    "target",
    [
        {"branch": "main", "snapshot": "x"},
        {"snapshot": "x", "version": 1},
        {"version": "1"},
        {"version": True},
        {"branch": ""},
        {"branch": 3},
        {"snapshot": 3},
    ],
)
def test_bad_targets(graph, target):
    with pytest.raises(BadRequest):
        graph.snapshot(**target)


def test_the_public_form_of_a_snapshot(graph):
    commit = advance(workspace_of(graph).manifest, PERSON)
    document = graph.snapshot(branch=" main ").to_json()
    assert document["graph_commit_id"] == commit.graph_commit_id
    assert document["branch"] == "main"
    assert document["manifest_version"] == commit.manifest_version
    assert [table["table_key"] for table in document["tables"]] == [
        "edge:MemberOf",
        "node:Person",
        "node:Team",
    ]
    assert document["tables"][1]["table_version"] == 2
    assert document["tables"][1]["table_branch"] is None
    assert document["tables"][1]["row_count"] == 0


def test_looking_for_a_commit_while_branches_are_deleted(graph, monkeypatch):
    """A branch that goes away between the list and the look is no live branch, and no failure."""
    graph.branches.create("x")
    commit = advance(workspace_of(graph).manifest, PERSON, branch="x")
    listed = workspace_of(graph).manifest.branches()
    graph.branches.delete("x")
    monkeypatch.setattr(workspace_of(graph).manifest, "branches", lambda: listed)
    with pytest.raises(CommitNotFound):
        graph.commits.show(commit.graph_commit_id)
    with pytest.raises(CommitNotFound):
        graph.snapshot(snapshot=commit.graph_commit_id)
