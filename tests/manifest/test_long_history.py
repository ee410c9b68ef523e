"""What reading history costs after 25,000 commits: pages of records, never all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.manifest import rows
from omnigraph.manifest.history.ancestry import (
    CommitGraph,
    is_ancestor,
    merge_bases,
    unknown_records,
)
from omnigraph.manifest.history.operation_records import LOOKED_AT, RecentOperations
from omnigraph.manifest.history.records import PAGE
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.lance_import import lance
from omnigraph.storage.tables.table_commits import merge_insert_exclusive
from tests.manifest.publishing import PERSON, TEAM, advance, new_graph
from tests.measured import MEASURED
from tests.opened import workspace_of

COMMITS = 25_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph with so many commits, and a branch that parted from `main` a moment ago."""
    with new_graph(tmp_path_factory.mktemp("long")) as graph:
        manifest = workspace_of(graph).manifest
        write_history(manifest, COMMITS)
        graph.branches.create("x")
        for branch in ("main", "x", "main", "x"):
            advance(manifest, PERSON if branch == "x" else TEAM, branch=branch)
        yield graph


def write_history(manifest: Manifest, size: int) -> None:
    """Add the rows that so many publishes of one table leave behind, in a few writes."""
    head = manifest.state("main").head
    commit, table, made = head.commit, head.tables[PERSON], []
    for number in range(1, size):
        commit = GraphCommit(
            f"01{number:024}", None, 1 + number, commit.graph_commit_id, None, "ada",
            commit.created_us + 1000, "load", {}, commit.depth + 1,
        )  # fmt: skip
        table = replace(table, table_version=table.table_version + 1)
        made += [rows.commit_row(commit), rows.version_row(table, commit.graph_commit_id)]
    schema = manifest.state("main").table.schema
    lance().write_dataset(
        rows.to_table(made, schema), manifest.ref.uri, mode="append", max_rows_per_file=8192
    )
    manifest.forget()
    newest = replace(head, commit=commit, tables={**head.tables, PERSON: table})
    merge_insert_exclusive(
        manifest.state("main").table, rows.to_table([rows.head_row(newest)], schema)
    )
    manifest.forget()


@pytest.fixture
def read(graph, monkeypatch):
    """The records that were read since, one number per page; pages without bounds are refused."""
    manifest = workspace_of(graph).manifest
    pages: list[int] = []
    real = manifest.commits

    def counted(state: BranchState, depths: tuple[int, int] | None = None) -> object:
        assert depths is not None, "all records were read"
        found = real(state, depths)
        pages.append(len(found))
        return found

    monkeypatch.setattr(manifest, "commits", counted)
    return pages


def test_a_short_list_reads_one_page(graph, read, record_property):
    dataset = workspace_of(graph).manifest.state("main").table.dataset
    dataset.io_stats_incremental()
    listed = graph.commits.list(limit=5)
    cost = dataset.io_stats_incremental()
    record_property(MEASURED, f"limit=5 of {COMMITS:,} commits: {cost.read_bytes:,} bytes")
    assert [one.depth for one in listed] == list(range(COMMITS + 2, COMMITS - 3, -1))
    assert read == [PAGE]
    assert cost.read_bytes < 400_000, "a tenth of what all records take"


def test_a_merge_base_reads_one_page_of_each_branch(graph, read):
    manifest = workspace_of(graph).manifest
    states = [manifest.state(name) for name in ("main", "x")]
    ours, theirs = (state.head.commit for state in states)
    found = CommitGraph(manifest, states)
    (base,) = merge_bases(found, ours, theirs)
    assert base.depth == COMMITS
    assert len(read) <= 2
    assert max(read) <= PAGE
    read.clear()
    assert is_ancestor(found, base.graph_commit_id, theirs.graph_commit_id)
    assert not is_ancestor(found, ours.graph_commit_id, theirs.graph_commit_id)
    assert [one.depth for one in unknown_records(found, theirs, states[0])] == [
        COMMITS + 1,
        COMMITS + 2,
    ]
    assert len(read) <= 2


def test_a_page_of_history_reads_one_page_of_each_branch(graph, read):
    page = graph.commits.history(limit=5)
    assert [one.branch for one in page.commits] == ["x", None, "x", None, None]
    assert len(read) <= 2


def test_a_publish_reads_no_record(graph, read):
    advance(workspace_of(graph).manifest, PERSON, branch="x")
    assert read == []


def test_an_operation_id_is_looked_up_in_one_page_and_then_in_what_is_new(graph, read):
    manifest, recent = workspace_of(graph).manifest, RecentOperations()

    def look(branch: str = "main") -> list[int]:
        read.clear()
        assert recent.find(manifest, manifest.state(branch), "01" + 24 * "Z") is None
        return list(read)

    first, again = look(), look()
    advance(manifest, TEAM)
    one_more = look()
    for _ in range(3):
        advance(manifest, TEAM)
    assert (first, again, one_more, look()) == ([LOOKED_AT], [], [], [3])
    assert look("x") == [LOOKED_AT], "its own commits, and those of its parent before the fork"
