"""Commits of equal content on real graphs: which of them is read, and when none can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.errors import HistoryReclaimed
from omnigraph.manifest.history.ancestry import CommitGraph, merge_bases, unknown_records
from omnigraph.manifest.history.equal_content import is_readable, readable_snapshot
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.manifest.publishing import SCHEMA, intent
from tests.opened import workspace_of

graph = graph_of(SCHEMA)


def add(graph, branch: str, code: str) -> GraphCommit:
    """One more Team on a branch."""
    made = graph.load([{"type": "Team", "data": {"code": code}}], branch=branch).commit
    assert isinstance(made, GraphCommit)
    return made


def forward(graph, source: str, target: str) -> GraphCommit:
    """Publish what a fast-forward merge does where the target may take over all pins."""
    manifest = workspace_of(graph).manifest
    theirs, ours = manifest.state(source), manifest.state(target)
    found = CommitGraph(manifest, [theirs, ours])
    changes = ManifestChanges(
        tables=tuple(theirs.head.tables.values()),
        adopted=unknown_records(found, theirs.head.commit, ours),
    )
    made = replace(
        intent(operation="branch_merge"),
        merged_parent_commit_id=theirs.head.commit.graph_commit_id,
        facts={"merge": {"outcome": "fast_forward"}},
    )
    return publish(manifest, target, changes, (), made, identifier=ours.identifier, unchecked=True)


def maintain(graph, branch: str) -> GraphCommit:
    """Publish a commit that changes no content."""
    manifest = workspace_of(graph).manifest
    made = intent(operation="optimize")
    identifier = manifest.state(branch).identifier
    return publish(
        manifest, branch, ManifestChanges(), (), made, identifier=identifier, unchecked=True
    )


def read_base(graph, a: str, b: str) -> tuple[GraphCommit, GraphCommit]:
    """The merge base of two branches, and the commit whose tables are read for it."""
    workspace = workspace_of(graph)
    states = [workspace.manifest.state(name) for name in (a, b)]
    heads = [state.head.commit for state in states]
    found = CommitGraph(workspace.manifest, states)
    base = merge_bases(found, *heads)[0]
    return base, readable_snapshot(workspace, found, base, heads).commit


def lose(graph, commit: GraphCommit) -> None:
    """Remove the version of the table `Team` that a commit pins, as an outside tool would."""
    table = graph.snapshot(snapshot=commit.graph_commit_id).tables["node:Team"]
    opened = open_table(workspace_of(graph).pinned(table).at(None))
    opened.dataset.cleanup_old_versions(versions=[table.table_version])
    assert table.table_version not in opened.versions()


def test_a_readable_base_is_read_itself(graph):
    add(graph, "main", "a")
    graph.branches.create("x")
    base = graph.snapshot().commit
    add(graph, "main", "b")
    add(graph, "x", "c")
    assert read_base(graph, "main", "x") == (base, base)


def test_maintenance_on_the_base_is_read_in_its_place(graph):
    """It is the newest common ancestor, so pins that both sides took from it are recognised."""
    base = add(graph, "main", "a")
    maintain(graph, "main")
    newest = maintain(graph, "main")
    graph.branches.create("x")
    maintain(graph, "x")
    add(graph, "main", "b")
    assert read_base(graph, "main", "x") == (base, newest)
    assert read_base(graph, "x", "main") == (base, newest)


def test_a_chain_of_fast_forwards_stands_in_for_a_base_on_deleted_branches(graph):
    """x went into y, y into main and into z, with maintenance in between; then x and y are gone."""
    for name in ("x", "y", "z"):
        graph.branches.create(name)
    base = add(graph, "x", "a")
    forward(graph, "x", "y")
    maintain(graph, "y")
    on_main = forward(graph, "y", "main")
    on_z = forward(graph, "y", "z")
    # Once a branch has no fork of a table, it is the pins of its own that are read.
    assert read_base(graph, "main", "z")[0] == graph.commits.list("y")[1]
    workspace = workspace_of(graph)
    assert is_readable(workspace, base)
    manifest = workspace.manifest
    states = [manifest.state(name) for name in ("main", "z")]
    # Delete only the references: whether a branch may go is another question.
    for name in ("x", "y"):
        forget_branch(graph, name)
    assert not is_readable(workspace, base)
    found = CommitGraph(manifest, states)
    heads = [state.head.commit for state in states]
    stands_in = readable_snapshot(workspace, found, base, heads)
    assert stands_in.commit in (on_main, on_z)
    assert stands_in.commit == max((on_main, on_z), key=lambda one: (one.depth, one.created_us))


def forget_branch(graph, name: str) -> None:
    """Remove a branch of the manifest, and leave the forks of tables where they are."""
    from omnigraph.storage.tables.table_branches import delete_branch

    manifest = workspace_of(graph).manifest
    delete_branch(manifest.ref, name)
    manifest.forget(name)


def test_without_a_readable_one_the_base_is_named(graph):
    """Two branches merged a third one, which then moved on and lost what it had been."""
    for name in ("x", "y"):
        graph.branches.create(name)
    base = add(graph, "x", "a")
    pinned = graph.snapshot(branch="x").tables["node:Team"].table_version
    for name in ("main", "y"):
        graph.load([{"type": "Person", "data": {"name": name}}], branch=name)
        assert graph.branches.merge("x", name).outcome == "merged"
    add(graph, "x", "b")
    assert read_base(graph, "main", "y") == (base, base)
    lose(graph, base)
    assert not is_readable(workspace_of(graph), base)
    with pytest.raises(HistoryReclaimed) as refused:
        read_base(graph, "main", "y")
    assert refused.value.details == {"table_key": "node:Team", "version": pinned}


def test_a_third_branch_may_hold_the_only_readable_one(graph):
    """Its records are looked at only when those of the two branches are of no use."""
    for name in ("x", "y", "z"):
        graph.branches.create(name)
    base = add(graph, "x", "a")
    forward(graph, "x", "z")
    graph.branches.create("kept", "z")
    kept = maintain(graph, "kept")
    add(graph, "kept", "b")
    workspace = workspace_of(graph)
    found = CommitGraph(workspace.manifest, [workspace.manifest.state("x")])
    heads = [workspace.manifest.state("x").head.commit]
    assert readable_snapshot(workspace, found, base, heads).commit == base
    forget_branch(graph, "x")
    assert readable_snapshot(workspace, found, base, heads).commit == kept
