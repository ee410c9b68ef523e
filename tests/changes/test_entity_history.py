"""History and blame of an entity: what the conformance cases do not show."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import omnigraph as og
from omnigraph import clock
from omnigraph.manifest import publisher, rows
from omnigraph.manifest.history import version_marks
from omnigraph.manifest.history.version_marks import gone_mark
from tests.faults.calls.counting import counting
from tests.opened import workspace_of

SCHEMA = """
node Person {
    slug: String @key
    city: String?
    age: I32?
}

edge Knows: Person -> Person {
    note: String?
}
"""
QUERIES = """
query city($s: String, $v: String) { update Person set { city: $v } where slug = $s }
query drop($s: String) { delete Person where slug = $s }
query add($s: String) { insert Person { slug: $s } }
query every() { delete Person where age > 0 }
"""


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "graph", SCHEMA) as made:
        people = [{"type": "Person", "data": {"slug": name, "age": 1}} for name in ("ann", "ben")]
        made.load([*people, {"edge": "Knows", "from": "ann", "to": "ben", "data": {"id": "k1"}}])
        yield made


def ops(graph, *named, **options):
    return [one.op for one in graph.history(*named, **options).entries]


def marks(graph, table_key="node:Person"):
    manifest = workspace_of(graph).manifest
    state = manifest.state("main")
    pin = state.head.tables[table_key]
    (row,) = [
        one
        for one in manifest.table_rows(state, [rows.TABLE_VERSION])
        if one.table_key == table_key and one.table_version == pin.table_version
    ]
    return row.base_objects


class TestMarks:
    def test_a_version_names_its_commit_and_the_rows_that_left(self, graph):
        table = f"table:{graph.snapshot().tables['node:Person'].incarnation}"
        done = graph.mutate(QUERIES, "drop", {"s": "ann"})
        commit = f"commit:{done.commit.graph_commit_id}"
        assert marks(graph) == (table, commit, gone_mark("ann"))
        assert marks(graph, "edge:Knows")[2:] == (gone_mark("k1"),)
        graph.mutate(QUERIES, "add", {"s": "ann"})
        assert len(marks(graph)) == 2

    def test_more_than_64_rows_are_not_told_one_by_one(self, graph):
        graph.load([{"type": "Person", "data": {"slug": f"p{n}", "age": 1}} for n in range(63)])
        graph.mutate(QUERIES, "every")
        assert marks(graph)[2:] == ("gone:*",)
        assert ops(graph, "node", "Person", "p7") == ["delete", "insert"]

    def test_a_merge_tells_what_left(self, graph):
        graph.branches.create("b")
        graph.mutate(QUERIES, "drop", {"s": "ann"}, branch="b")
        graph.mutate(QUERIES, "city", {"s": "ben", "v": "rome"})
        graph.branches.merge("b")
        assert marks(graph)[2:] == (gone_mark("ann"),)


class TestVersionRows:
    @pytest.mark.parametrize("window", [1, 2, 5, 48])
    def test_a_version_is_found_by_its_place_as_by_its_name(self, graph, monkeypatch, window):
        monkeypatch.setattr(version_marks, "_WINDOW", window)
        for n in range(8):
            graph.mutate(QUERIES, "city", {"s": "ann", "v": f"c{n}"})
        for n in range(8):  # rows of another table between them
            graph.load([{"edge": "Knows", "from": "ann", "to": "ben", "data": {"id": f"e{n}"}}])
        graph.optimize()
        for n in range(4):
            graph.mutate(QUERIES, "city", {"s": "ben", "v": f"c{n}"})
        manifest = workspace_of(graph).manifest
        state = manifest.state("main")
        pin = state.head.tables["node:Person"]
        wanted = pin.incarnation, None
        rows_of = version_marks.VersionRows(manifest, state, pin.incarnation)
        found = 0
        order = list(range(1, pin.table_version + 2))
        random.Random(window).shuffle(order)
        for low in order:
            by_place = rows_of.first(low, pin.table_version)
            between = (low, pin.table_version)
            by_name = version_marks.first_published(manifest, state, *wanted, between)
            if by_place is not None:
                found += 1
                assert by_place[:3] == by_name[:3]
                if by_place.record is not None:
                    assert rows.read_commit(by_place.record) == manifest.commit(
                        state, by_place.graph_commit_id
                    )
        assert found == pin.table_version

    def test_many_rows_of_others_are_passed_over(self, graph, monkeypatch):
        monkeypatch.setattr(version_marks, "_WINDOW", 2)
        for n in range(40):
            graph.load([{"edge": "Knows", "from": "ann", "to": "ben", "data": {"id": f"e{n}"}}])
        manifest = workspace_of(graph).manifest
        state = manifest.state("main")
        pin = state.head.tables["node:Person"]
        found = version_marks.VersionRows(manifest, state, pin.incarnation).first(
            pin.table_version, pin.table_version
        )
        assert found.version == pin.table_version


def test_graphs_of_older_releases_have_no_marks(graph, monkeypatch):
    def without_marks(state, _commit, _gone=()):
        whole = rows.version_row(state, "")
        return replace(whole, base_objects=whole.base_objects[:1])

    class Older:
        version_row = staticmethod(without_marks)

        def __getattr__(self, name):
            return getattr(rows, name)

    with monkeypatch.context() as patched:
        patched.setattr(publisher, "rows", Older())
        graph.mutate(QUERIES, "add", {"s": "cy"}, actor="lost")
        graph.mutate(QUERIES, "drop", {"s": "cy"}, actor="lost")
        graph.mutate(QUERIES, "add", {"s": "cy"}, actor="ada")
        graph.mutate(QUERIES, "city", {"s": "ben", "v": "rome"})
    graph.mutate(QUERIES, "city", {"s": "cy", "v": "oslo"}, actor="bob")
    found = graph.history("node", "Person", "cy")
    assert [(one.op, one.actor_id) for one in found.entries] == [
        ("update", "bob"),
        ("insert", "ada"),
    ]
    assert not found.complete
    assert graph.history("node", "Person", "ann").complete


def test_what_is_asked_is_checked(graph):
    for wrong in ({"limit": 0}, {"before": "01JZZZZZZZZZZZZZZZZZZZZZZ1"}):
        with pytest.raises(og.errors.BadRequest):
            graph.history("node", "Person", "ann", **wrong)
    with pytest.raises(og.errors.BadRequest):
        graph.history("edge", "Knows", "k1", edges=True)
    for call in (graph.history, graph.blame):
        with pytest.raises(og.errors.EntityNotFound):
            call("node", "Person", "\ud800")
        with pytest.raises(og.errors.BadRequest):
            call("node", "Persn", "ann")


def test_pages_never_part_a_commit(graph):
    first = graph.history("node", "Person", "ann", edges=True, limit=1)
    # The load made the node and its edge.
    assert [(one.kind, one.op) for one in first.entries] == [("node", "insert"), ("edge", "insert")]
    assert first.next is None


def test_a_clock_that_went_back_parts_no_commit(graph, monkeypatch):
    """The order is that of the commits, whatever they say of when they were made."""

    def change(city, note, hours, branch="main"):
        at = clock.now_us() + hours * 3_600_000_000
        person = {"type": "Person", "data": {"slug": "ann", "city": city}}
        edge = {"edge": "Knows", "from": "ann", "to": "ben", "data": {"id": "k1", "note": note}}
        with monkeypatch.context() as later:
            later.setattr(clock, "now_us", lambda: at)
            graph.load([person, edge], mode="merge", branch=branch)

    change("rome", "a", 2)
    change("oslo", "a", 1)
    change("pisa", "b", 0)
    order = [one.graph_commit_id for one in graph.commits.history().commits]
    wanted = [
        *((order[0], kind) for kind in ("node", "edge")),
        (order[1], "node"),
        *((order[2], kind) for kind in ("node", "edge")),
        *((order[3], kind) for kind in ("node", "edge")),
    ]
    found = graph.history("node", "Person", "ann", edges=True)
    assert [(one.graph_commit_id, one.kind) for one in found.entries] == wanted
    pages, before = [], None
    while before is not None or not pages:
        page = graph.history("node", "Person", "ann", edges=True, limit=1, before=before)
        pages += page.entries
        before = page.next
    assert [(one.graph_commit_id, one.kind) for one in pages] == wanted

    # So does the clock of another machine, which writes on a branch.
    graph.branches.create("side")
    change("bari", "b", -1, "side")
    (newest,) = graph.commits.list("side", limit=1)
    told = graph.history("node", "Person", "ann", edges=True, branch="side")
    assert [(one.graph_commit_id, one.kind) for one in told.entries] == [
        (newest.graph_commit_id, "node"),
        *wanted,
    ]


def test_the_blame_of_a_node_with_its_edges(graph):
    told = graph.blame("node", "Person", "ann", edges=True)
    assert [one.id for one in told.edges] == ["k1"]
    assert told.edges[0].endpoints["value"] == {"from": "ann", "to": "ben"}


def test_the_cost_does_not_grow_with_the_commits_of_others(graph):
    graph.mutate(QUERIES, "city", {"s": "ann", "v": "rome"})

    def calls():
        with og.open(graph.uri, mode="r") as reader:
            reader.entity("node", "Person", "ann")
            with counting(graph.uri) as counted:
                assert ops(reader, "node", "Person", "ann") == ["update", "insert"]
                reader.blame("node", "Person", "ann")
        return counted()

    graph.mutate(QUERIES, "city", {"s": "ben", "v": "oslo"})
    few = calls()
    for n in range(12):
        graph.mutate(QUERIES, "city", {"s": "ben", "v": f"c{n}"})
    assert calls() == few


def test_after_cleanup_every_entry_is_one_of_those_before(graph):
    for city in ("rome", "oslo", "pisa"):
        graph.mutate(QUERIES, "city", {"s": "ann", "v": city})
        graph.mutate(QUERIES, "city", {"s": "ben", "v": city})
    graph.tags.create("kept", at=graph.commits.list()[3])
    before = [one.graph_commit_id for one in graph.history("node", "Person", "ann").entries]
    graph.cleanup(keep_versions=1)
    after = graph.history("node", "Person", "ann").entries
    assert [one.graph_commit_id for one in after] == [before[0], before[1]]
    assert [one.reclaimed for one in after] == [
        {"after": graph.tags.list()[0].graph_commit_id},
        {"after": None},
    ]
    assert (after[0].changed, after[1].changed) == (["city"], None)


def test_the_member_of_a_shared_commit_is_named(graph):
    from omnigraph.changes.entity_history.authors import _actor
    from omnigraph.manifest.rows import GROUP

    members = [
        {"actor_id": "ada", "ids": {"node:Person": ["ann"]}},
        {"actor_id": "bob", "ids": {"node:Person": ["ben"]}},
    ]
    commit = replace(graph.commits.list()[0], facts={GROUP: {"members": members}})
    assert [_actor(commit, "node:Person", name) for name in ("ann", "ben", "cy")] == [
        "ada",
        "bob",
        None,
    ]
