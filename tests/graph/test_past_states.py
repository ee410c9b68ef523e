"""Reads and branches of the past: versions, times, single entities; and which branches must stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    BranchInUse,
    CommitNotFound,
    Contention,
    VersionNotFound,
)
from omnigraph.manifest.history import records
from omnigraph.storage.locks.read_leases import LeasedTable, put_lease
from tests.merge.harbors import SCHEMA, new_harbor, put, ship, ships
from tests.opened import workspace_of


@pytest.fixture
def graph(tmp_path):
    with new_harbor(tmp_path / "g") as graph:
        yield graph


def s1(graph, **target):
    return graph.entity("node", "Ship", "S1", **target)["properties"]["tonnage"]


# ------------------------------------------------------------------ versions and times


def test_the_version_a_branch_reports_can_be_read_although_a_tag_came_between(graph):
    graph.tags.create("v1")
    made = graph.branches.create("side")
    assert made.version == graph.snapshot().manifest_version
    for version in (made.version, made.version + 1):
        assert graph.snapshot(branch="side", version=version).graph_commit_id == made.head_commit_id
    put(graph, "side", ship("S1", tonnage=50))
    newest = graph.snapshot(branch="side").manifest_version
    assert s1(graph, branch="side", version=made.version) == 1
    assert s1(graph, branch="side", version=newest) == 50
    for version in (made.version - 1, newest + 1, 0, -3):
        with pytest.raises(VersionNotFound):
            graph.snapshot(branch="side", version=version)


def test_times_need_not_grow_along_the_chain(graph, monkeypatch):
    """The newest commit up to the moment is meant, not the one with the greatest time."""
    hour = 3_600_000_000
    base = graph.snapshot().commit.created_us
    made = []
    for step in (3, 1, 2):
        monkeypatch.setattr("omnigraph.clock.now_us", lambda step=step: base + step * hour)
        made.append(put(graph, "main", ship("S1", tonnage=step * 10)))
    monkeypatch.undo()
    assert [commit.created_us - base for commit in made] == [3 * hour, hour, 2 * hour]
    for after, tonnage in ((1, 10), (1.5, 10), (2, 20), (3, 20), (0.5, 1), (10, 20)):
        moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=base + after * hour)
        assert s1(graph, time=moment) == tonnage


def test_a_time_before_the_first_commit_says_when_that_was(graph):
    first = graph.commits.list()[-1]
    graph.branches.create("side")
    with pytest.raises(CommitNotFound) as refusal:
        graph.snapshot(branch="side", time=first.created_at - timedelta(microseconds=1))
    assert first.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") in str(refusal.value)
    assert graph.snapshot(branch="side", time=first.created_at).tables["node:Ship"].row_count == 0


def test_a_time_is_found_a_page_at_a_time(graph, monkeypatch):
    monkeypatch.setattr(records, "PAGE", 4)
    for n in range(12):
        put(graph, "main", ship("S1", tonnage=n))
    manifest, pages = workspace_of(graph).manifest, []
    read = manifest.commits

    def counted(state, depths=None):
        pages.append(depths)
        return read(state, depths)

    monkeypatch.setattr(manifest, "commits", counted)
    chain = graph.commits.list(limit=3)
    pages.clear()
    assert s1(graph, time=chain[2].created_at) == 9
    assert len(pages) == 1
    assert None not in pages


# ------------------------------------------------------------------ single entities


def test_one_entity_with_every_kind_of_value(tmp_path):
    schema = """
    node Doc { ref: String @key n: U64? at: DateTime? on: Date? tags: [String]? v: Vector(2)? scan: Blob? }
    edge Cites: Doc -> Doc { page: I32? }
    """
    values = {
        "ref": "d1", "n": 2**64 - 1, "at": "2026-05-04T10:00:00.000Z", "on": "2026-05-04",
        "tags": ["a", ""], "v": [0.5, -1.0], "scan": "base64:T2xkIQ==",
    }  # fmt: skip
    edge = {"edge": "Cites", "from": "d1", "to": "d2", "data": {"id": "c1"}}
    with og.init(tmp_path / "g", schema) as graph:
        nodes = [{"type": "Doc", "data": values}, {"type": "Doc", "data": {"ref": "d2"}}]
        commit = graph.load([*nodes, edge]).commit.graph_commit_id
        found = graph.entity("node", "Doc", "d1")
        assert found == {
            "kind": "node", "type": "Doc", "id": "d1", "properties": values, "graph_commit_id": commit,
        }  # fmt: skip
        assert graph.entity("edge", "Cites", "c1") == {
            "kind": "edge", "type": "Cites", "id": "c1", "properties": {"page": None},
            "endpoints": {"from": "d1", "to": "d2"}, "graph_commit_id": commit,
        }  # fmt: skip
        empty = graph.commits.list()[-1]
        assert graph.entity("node", "Doc", "d1", at=empty) is None
        assert graph.entity("node", "Ghost", "d1") is None
        assert graph.entity("node", "Doc", "d9") is None
        assert graph.entity("node", "Doc", "d\ud800") is None
        assert graph.entity("edge", "Cites", "d1") is None
        for wrong in (("nodes", "Doc", "d1"), ("node", 5, "d1"), ("node", "Doc", 7)):
            with pytest.raises(BadRequest):
                graph.entity(*wrong)


# ------------------------------------------------------------------ branches from the past


def test_a_branch_from_the_past_writes_on_and_merges_back(graph):
    start = graph.snapshot()
    put(graph, "main", ship("S1", tonnage=50))
    made = graph.branches.create("side", from_=start)
    assert (made.from_, made.head_commit_id) == ("main", start.graph_commit_id)
    assert graph.commits.list("side")[0].graph_commit_id == start.graph_commit_id
    put(graph, "side", ship("S2", tonnage=70))
    assert (s1(graph, branch="side"), s1(graph)) == (1, 50)
    merged = graph.branches.merge("side")
    assert merged.base_commit_id == start.graph_commit_id
    assert ships(graph) == {"S1": 50, "S2": 70, "S3": 3, "S4": 4}


def test_a_branch_from_the_past_descends_from_where_the_commit_was_made(graph):
    graph.branches.create("side")
    first = put(graph, "side", ship("S1", tonnage=50))
    graph.branches.create("kid", from_="side")
    put(graph, "side", ship("S1", tonnage=60))
    # Named through `kid`, but made on `side`.
    made = graph.branches.create("grandkid", from_=og.at("kid", time=first.created_at))
    assert made.from_ == "side"
    graph.branches.delete("kid")
    with pytest.raises(BranchInUse) as refusal:
        graph.branches.delete("side")
    assert refusal.value.details["by"] == "grandkid"
    assert s1(graph, branch="grandkid") == 50
    # What `side` inherited was made on `main`.
    start = graph.commits.list("side")[-1]
    assert graph.branches.create("x", from_=og.at("side", time=start.created_at)).from_ == "main"


def test_a_branch_has_the_schema_of_the_commit_it_starts_at(graph):
    before = graph.snapshot()
    graph.schema.apply(SCHEMA.replace("flag: String?", "flag: String? built: I32?"))
    graph.branches.create("then", from_=before)
    graph.branches.create("now", from_=graph.snapshot())
    asked = "query q() { match { $s: Ship } return { $s.built } }"
    with pytest.raises(og.errors.TypeCheckError, match="built"):
        graph.query(asked, branch="then")
    assert {row["s.built"] for row in graph.query(asked, branch="now").rows} == {None}


# ------------------------------------------------------------------ branches that must stay


def both_take(graph, source):
    """`main` and `c` merge a branch after changes of their own, so its head is their merge base."""
    for n, branch in ((2, "main"), (3, "c")):
        put(graph, branch, ship(f"S{n}", tonnage=90))
        assert graph.branches.merge(source, into=branch).outcome == "merged"


def test_a_base_that_only_this_branch_can_read_keeps_it(graph):
    for name in ("a", "c"):
        graph.branches.create(name)
    put(graph, "a", ship("S1", tonnage=50))
    both_take(graph, "a")
    # A third branch that shares nothing with it does not count, wherever it comes in the list.
    graph.branches.create("b")
    with pytest.raises(BranchInUse) as refusal:
        graph.branches.delete("a")
    # `b` was made from `main` after the merge, so it shares the base with `c`, too; main..b does not.
    assert refusal.value.details == {"branch": "a", "by": "c"}
    graph.branches.delete("b")
    graph.branches.merge("c")
    graph.branches.delete("a")
    assert graph.branches.list() == ["main", "c"]


def test_a_stand_in_lets_the_branch_go_until_it_is_the_last_one(graph):
    """`d` takes over the head of `a` unchanged: either of the two may go, the other must stay."""
    for name in ("a", "c", "d"):
        graph.branches.create(name)
    base = put(graph, "a", ship("S1", tonnage=50))
    assert graph.branches.merge("a", into="d").outcome == "fast_forward"
    both_take(graph, "a")
    graph.branches.delete("a")
    with pytest.raises(BranchInUse) as refusal:
        graph.branches.delete("d")
    assert refusal.value.details == {"branch": "d", "by": "c"}
    merged = graph.branches.merge("c")
    assert merged.base_commit_id == base.graph_commit_id
    assert ships(graph) == {"S1": 50, "S2": 90, "S3": 90, "S4": 4}
    graph.branches.delete("d")


def test_maintenance_on_top_of_the_base_changes_nothing(graph):
    for name in ("a", "c"):
        graph.branches.create(name)
    base = put(graph, "a", ship("S1", tonnage=50))
    upkeep = graph.ensure_indices("a").commit
    assert upkeep is not None
    both_take(graph, "a")
    with pytest.raises(BranchInUse) as refusal:
        graph.branches.delete("a")
    assert refusal.value.details["by"] == "c"
    assert graph.branches.merge("c").base_commit_id == base.graph_commit_id
    graph.branches.delete("a")


def test_a_branch_that_is_being_exported_stays(graph):
    graph.branches.create("side")
    put(graph, "side", ship("S1", tonnage=50))
    snapshot = graph.snapshot(branch="side")
    tables = [
        LeasedTable(t.table_key, t.location, t.table_version, t.table_branch, t.table_branch_id)
        for t in snapshot.tables.values()
    ]
    with put_lease(workspace_of(graph).store, snapshot.graph_id, "export", tables):
        with pytest.raises(Contention):
            graph.branches.delete("side")
        graph.branches.create("other")
        graph.branches.delete("other")
    graph.branches.delete("side")
