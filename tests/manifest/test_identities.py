"""The counter of identities, and the step that gives it to a graph of an older format."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import Contention
from omnigraph.lang.schema.identities import Numbering
from omnigraph.lang.schema.read_ir import read_ir
from omnigraph.manifest import rows
from omnigraph.manifest.history import identity_counter
from omnigraph.manifest.history.identity_counter import single_line_below, take_ids
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.migrations import STEPS, read_internal_version
from omnigraph.manifest.publisher import publish_without_commit
from omnigraph.manifest.row_reads import read_identities_text
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.tables.inline_residual import set_schema_metadata
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_commits import merge_insert_exclusive
from omnigraph.storage.tables.table_errors import RowCollision
from omnigraph.version import INTERNAL_SCHEMA_VERSION
from tests.manifest.publishing import PERSON, advance, new_graph
from tests.opened import workspace_of

SCHEMA = """
node Ship { imo: String @key  flag: String? }
node Port { code: String @key }
edge CallsAt: Ship -> Port
"""
WIDER = SCHEMA.replace("flag: String?", "flag: String?  built: I32?")


@pytest.fixture
def graph(tmp_path: Path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        yield graph


def stored(graph: og.Graph, branch: str = "main") -> dict[str, int] | None:
    table = workspace_of(graph).manifest.state(branch).table
    found = read_identities_text(table)
    return None if found is None else json.loads(found)


def accepted_ir(graph: og.Graph, branch: str = "main") -> dict:
    manifest = workspace_of(graph).manifest
    return dict(manifest.schema(manifest.state(branch)).ir)


def property_id(graph: og.Graph, name: str) -> int:
    (ship,) = (node for node in accepted_ir(graph)["nodes"] if node["name"] == "Ship")
    (prop,) = (prop for prop in ship["properties"] if prop["name"] == name)
    return prop["property_id"]


def test_a_new_graph_counts_on_from_the_ids_of_its_schema(graph):
    assert stored(graph) == {"next": accepted_ir(graph)["next_identity_id"]}
    assert single_line_below(workspace_of(graph).manifest) == 0


def test_what_never_changes_is_read_once(graph, monkeypatch):
    asked = []
    read = identity_counter.read_identities_text
    monkeypatch.setattr(
        identity_counter, "read_identities_text", lambda table: asked.append(1) or read(table)
    )
    manifest = workspace_of(graph).manifest
    assert [single_line_below(manifest) for _ in range(3)] == [0, 0, 0]
    assert len(asked) == 1
    manifest.forget()
    assert single_line_below(manifest) == 0
    assert len(asked) == 2


def test_taking_ids_raises_the_counter_without_a_commit(graph):
    first = stored(graph)["next"]
    head = graph.commits.list()[0]
    assert take_ids(workspace_of(graph), 3) == Numbering(first)
    assert take_ids(workspace_of(graph), 1) == Numbering(first + 3)
    assert stored(graph) == {"next": first + 4}
    assert graph.commits.list() == [head]


def test_an_apply_takes_its_ids_from_the_counter(graph):
    lost = take_ids(workspace_of(graph), 5)
    graph.schema.apply(WIDER)
    assert property_id(graph, "built") == lost.next_id + 5
    assert accepted_ir(graph)["next_identity_id"] == stored(graph)["next"] == lost.next_id + 6


def test_an_apply_that_needs_no_ids_leaves_the_counter(graph):
    before = stored(graph)
    version = workspace_of(graph).manifest.state("main").table.version
    graph.schema.apply(SCHEMA.replace("flag: String?", 'flag: String? @description("d")'))
    assert stored(graph) == before
    assert workspace_of(graph).manifest.state("main").table.version == version + 1


def test_the_ids_of_an_apply_that_fails_are_lost(graph):
    before = stored(graph)["next"]
    stop = failpoints.arm("schema_apply.before_locks", RuntimeError("stop"), times=1)
    with stop, pytest.raises(RuntimeError):
        graph.schema.apply(WIDER)
    assert stored(graph) == {"next": before + 1}
    graph.schema.apply(WIDER)
    assert property_id(graph, "built") == before + 1


@pytest.mark.parametrize("point", ["identities.before_raise", "identities.after_raise"])
def test_a_crash_while_taking_ids_leaves_a_graph_that_goes_on(graph, point):
    before = stored(graph)["next"]
    with failpoints.arm(point, RuntimeError("stop"), times=1), pytest.raises(RuntimeError):
        graph.schema.apply(WIDER)
    raised = stored(graph)["next"] - before
    assert raised == (1 if point.endswith("after_raise") else 0)
    graph.schema.apply(WIDER)
    assert property_id(graph, "built") == before + raised


def test_the_counter_of_main_counts_whatever_branch_asks(graph):
    graph.branches.create("x")
    at_fork = stored(graph, "x")
    take_ids(workspace_of(graph), 2)
    assert stored(graph, "x") == at_fork
    assert take_ids(workspace_of(graph), 1).next_id == at_fork["next"] + 2


def test_a_collision_with_a_commit_takes_the_ids_again(graph):
    manifest = workspace_of(graph).manifest
    seen = []

    def row(state):
        seen.append(state.table.version)
        if len(seen) == 1:
            graph.load([{"type": "Port", "data": {"code": "OSL"}}])
        return rows.identities_row(99)

    publish_without_commit(manifest, row)
    assert len(seen) == 2
    assert stored(graph) == {"next": 99}
    assert (
        graph.query("query q() { match { $p: Port } return { count($p) as n } }").rows[0]["n"] == 1
    )


def test_it_waits_for_the_locks_of_main(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "50")
    before, locks = stored(graph), workspace_of(graph).locks
    with og.open(graph.uri) as other, ThreadPoolExecutor(1) as thread:
        for name in (locks.graph_lock(), locks.head_lock("main")):
            with locks.acquire([name], None, Purpose("tag_create")), pytest.raises(Contention):
                thread.submit(take_ids, workspace_of(other), 1).result()
    assert stored(graph) == before


# ------------------------------------------------------------------ graphs of an older format


def as_version_2(graph: og.Graph, *branches: str) -> None:
    """Make branches what the release before wrote: no counter, and schemas without what they dropped."""
    manifest = workspace_of(graph).manifest
    for branch in branches:
        state = manifest.state(branch)
        table = state.table
        table = delete_rows(table, "object_id = 'identities'")
        set_schema_metadata(table, {rows.INTERNAL_VERSION_KEY: "2"})
    manifest.forget()


def delete_rows(table: Table, where: str) -> Table:
    dataset = lance.dataset(table.ref.dataset_uri, version=table.version)
    dataset.delete(where)
    return open_table(table.ref.at(dataset.version))


def test_an_older_graph_gets_its_counter_when_it_is_opened_for_writing(graph):
    graph.branches.create("x")
    number = accepted_ir(graph)["next_identity_id"]
    as_version_2(graph, "main", "x")
    assert single_line_below(workspace_of(graph).manifest) == number
    assert stored(graph) is None
    with og.open(graph.uri, mode="r") as reader:
        assert read_internal_version(workspace_of(reader).manifest.state("main").table) == 2
    with og.open(graph.uri) as opened:
        manifest = workspace_of(opened).manifest
        for branch in ("main", "x"):
            assert read_internal_version(manifest.state(branch).table) == INTERNAL_SCHEMA_VERSION
        assert stored(opened) == {"next": number, "single_line_below": number}
        assert stored(opened, "x") is None
        assert single_line_below(manifest) == number
        assert take_ids(workspace_of(opened), 1) == Numbering(number, number)


def test_the_first_publish_migrates_an_older_graph(graph):
    number = accepted_ir(graph)["next_identity_id"]
    as_version_2(graph, "main")
    graph.load([{"type": "Port", "data": {"code": "OSL"}}])
    assert stored(graph) == {"next": number, "single_line_below": number}


def test_a_step_that_died_before_its_stamp_runs_again(graph):
    number = accepted_ir(graph)["next_identity_id"]
    as_version_2(graph, "main")
    manifest = workspace_of(graph).manifest
    STEPS[2](manifest.state("main").table)
    manifest.forget()
    assert read_internal_version(manifest.state("main").table) == 2
    with og.open(graph.uri) as opened:
        assert stored(opened) == {"next": number, "single_line_below": number}
        opened.schema.apply(WIDER)
        assert stored(opened) == {"next": number + 1, "single_line_below": number}


def test_a_publish_that_comes_first_is_not_overwritten(tmp_path):
    with new_graph(tmp_path) as graph:
        as_version_2(graph, "main")
        manifest = workspace_of(graph).manifest
        stale = manifest.state("main").table
        newest = advance(Manifest(manifest.root), PERSON)
        with pytest.raises(RowCollision):
            STEPS[2](stale)
        assert manifest.state("main").head.commit == newest


def test_drops_of_an_older_graph_are_recorded_by_its_next_apply(graph):
    flag = property_id(graph, "flag")
    graph.schema.apply(SCHEMA.replace("  flag: String?", ""))
    manifest = workspace_of(graph).manifest
    state = manifest.state("main")
    row = manifest.schema(state)
    assert row.ir["dropped"] == [flag]
    # As the release before recorded it: without what was dropped.
    ir = replace(read_ir(dict(row.ir)), dropped=())
    old = replace(row, ir=ir.to_json(), ir_hash=ir.ir_hash)
    head = replace(state.head, ir_hash=ir.ir_hash)
    written = rows.to_table([rows.schema_row(old), rows.head_row(head)], state.table.schema)
    merge_insert_exclusive(state.table, written)
    manifest.forget()
    as_version_2(graph, "main")
    with og.open(graph.uri) as opened:
        opened.schema.apply(SCHEMA.replace("flag: String?", "built: I32?"))
        assert accepted_ir(opened)["dropped"] == [flag]
