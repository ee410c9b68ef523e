"""From version 1 of the format to version 2: commits get their depths."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.manifest import rows
from omnigraph.manifest.history.ancestry import CommitGraph, merge_bases
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.migrations import STEPS, migrate, read_internal_version
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.storage.tables.inline_residual import set_schema_metadata
from omnigraph.storage.tables.table_commits import merge_insert_exclusive
from omnigraph.storage.tables.table_errors import RowCollision
from omnigraph.storage.uris import Root
from omnigraph.version import INTERNAL_SCHEMA_VERSION
from tests.manifest.publishing import PERSON, TEAM, advance, intent, new_graph
from tests.opened import workspace_of

BRANCHES = ("main", "x")


def as_version_1(manifest: Manifest, branch: str) -> None:
    """Write the commits and the head of a branch as they were before depths, and stamp it so."""
    state = manifest.state(branch)
    old = []
    for commit in manifest.commits(state).values():
        row = rows.commit_row(commit)
        document = json.loads(row.metadata or "")
        old.append(replace(row, row_count=None, metadata=json.dumps(_without(document))))
    head = rows.head_row(state.head)
    document = json.loads(head.metadata or "")
    document["commit"] = _without(document["commit"])
    old.append(replace(head, metadata=json.dumps(document)))
    table = merge_insert_exclusive(state.table, rows.to_table(old, state.table.schema))
    set_schema_metadata(table, {rows.INTERNAL_VERSION_KEY: "1"})
    manifest.forget(branch)


def _without(document: dict[str, object]) -> dict[str, object]:
    return {
        name: value for name, value in document.items() if name not in {"depth", "operation_id"}
    }


@pytest.fixture
def old(tmp_path: Path):
    """A graph in version 1 whose branch `x` merged `main`; its address, and its true commits."""
    with new_graph(tmp_path) as graph:
        manifest = workspace_of(graph).manifest
        first = advance(manifest, PERSON)
        graph.branches.create("x")
        advance(manifest, PERSON, branch="x")
        ours = [advance(manifest, TEAM) for _ in range(3)]
        state = manifest.state("x")
        made = replace(intent(), merged_parent_commit_id=ours[1].graph_commit_id)
        adopted = ManifestChanges(adopted=tuple(ours[:2]))
        publish(manifest, "x", adopted, (), made, identifier=state.identifier, unchecked=True)
        assert first.depth == 2
        true = {name: manifest.commits(manifest.state(name)) for name in BRANCHES}
        for name in BRANCHES:
            as_version_1(manifest, name)
        return graph.uri, true


def files(uri: str) -> list[str]:
    return sorted(str(path) for path in Path(uri).rglob("*") if path.is_file())


def test_reads_find_the_depths_and_write_nothing(old):
    uri, true = old
    before = files(uri)
    with og.open(uri, mode="r") as graph:
        manifest = workspace_of(graph).manifest
        states = [manifest.state(name) for name in BRANCHES]
        assert {read_internal_version(state.table) for state in states} == {1}
        assert {state.head.commit.depth for state in states} == {0}
        assert {one.depth for one in manifest.commits(states[0]).values()} == {0}
        for name, state in zip(BRANCHES, states, strict=True):
            listed = graph.commits.list(name)
            assert {one.graph_commit_id: one for one in listed}.items() <= true[name].items()
            assert listed[0].graph_commit_id == state.head.commit.graph_commit_id
        (base,) = merge_bases(CommitGraph(manifest, states), *(one.head.commit for one in states))
        assert base == true["main"][base.graph_commit_id]
        assert base.depth == 4
        assert len(graph.commits.history().commits) == 7
    assert files(uri) == before


def test_an_open_for_writing_migrates_every_branch(old):
    uri, true = old
    with og.open(uri) as graph:
        manifest = workspace_of(graph).manifest
        for name in BRANCHES:
            state = manifest.state(name)
            assert read_internal_version(state.table) == INTERNAL_SCHEMA_VERSION
            assert manifest.commits(state) == true[name]
            assert state.head.commit == true[name][state.head.commit.graph_commit_id]
            depths = [one.depth for one in true[name].values()]
            assert manifest.commits(state, (1, 2)).keys() == {
                one.graph_commit_id for one in true[name].values() if one.depth <= 2
            }
            assert max(depths) == state.head.commit.depth
        first = graph.commits.list()[-2]
        assert graph.snapshot(snapshot=first.graph_commit_id).commit.graph_commit_id == (
            first.graph_commit_id
        )
        made = advance(manifest, PERSON)
        assert made.depth == 6


def test_the_first_publish_migrates_its_branch(old):
    uri, _ = old
    manifest = Manifest(Root.parse(uri))
    made = advance(manifest, TEAM, branch="x")
    assert made.depth == 6
    assert read_internal_version(manifest.state("x").table) == INTERNAL_SCHEMA_VERSION
    assert read_internal_version(manifest.state("main").table) == 1


def test_a_step_that_died_before_its_stamp_runs_again(old):
    uri, true = old
    with og.open(uri, mode="r") as graph:
        manifest = workspace_of(graph).manifest
        STEPS[1](manifest.state("x").table)
        manifest.forget()
        assert read_internal_version(manifest.state("x").table) == 1
        assert manifest.commits(manifest.state("x")) == true["x"]
        migrate(manifest.state("x").table)
        manifest.forget()
        state = manifest.state("x")
        assert (read_internal_version(state.table), manifest.commits(state)) == (
            INTERNAL_SCHEMA_VERSION,
            true["x"],
        )


def test_a_publish_that_comes_first_is_not_overwritten(old):
    uri, _ = old
    with og.open(uri, mode="r") as graph:
        manifest = workspace_of(graph).manifest
        stale = manifest.state("main").table
        newest = advance(Manifest(manifest.root), PERSON)
        with pytest.raises(RowCollision):
            STEPS[1](stale)
        assert manifest.state("main").head.commit == newest
