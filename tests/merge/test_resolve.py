"""Conflicts of stored graphs decided with `resolve`: cascades, blobs, images of every type, rules."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.merge.harbors import call, drop_ship, new_harbor, port, put, ship
from tests.stored import read_back

S1 = ("node:Ship", "S1")


@pytest.fixture
def forked(tmp_path):
    """Branch `side` and main weigh ship S1, which calls at OSL (c1), differently."""
    with new_harbor(tmp_path / "g") as graph:
        graph.branches.create("side")
        put(graph, "side", ship("S1", tonnage=10))
        put(graph, "main", ship("S1", tonnage=20))
        yield graph


def calls(graph):
    return {id_ for id_, *_ in read_back(graph).edges["CallsAt"]}


def orphans(graph, resolve):
    with pytest.raises(og.errors.MergeConflicts) as caught:
        graph.branches.merge("side", resolve=resolve)
    found = caught.value.details["conflicts"]
    assert {one["kind"] for one in found} == {"orphan_edge"}
    assert {one["detail"]["node_id"] for one in found} == {"S1"}
    return [one["row_id"] for one in found]


def test_deleting_a_node_takes_its_untouched_edges_along(forked):
    result = forked.branches.merge("side", resolve={S1: None})
    assert (result.stats.deletes, result.stats.resolved) == (2, 1)
    assert "S1" not in read_back(forked).nodes["Ship"]
    assert calls(forked) == set()


def test_edges_that_a_side_touched_are_orphans_of_a_deleted_node(forked):
    put(forked, "main", call("c2", "S1", "GOT"))
    put(forked, "side", call("c3", "S1", "GOT"))
    assert orphans(forked, {S1: None}) == ["c2", "c3"]
    put(forked, "main", call("c1", "S1", "OSL", visits=1))
    assert orphans(forked, {S1: None}) == ["c1", "c2", "c3"]


def test_an_edge_that_the_source_changed_is_an_orphan_too(forked):
    put(forked, "side", call("c1", "S1", "OSL", visits=1))
    assert orphans(forked, {S1: None}) == ["c1"]
    put(forked, "side", call("c1", "S2", "OSL", visits=1))  # moved away from the deleted ship
    forked.branches.merge("side", resolve={S1: None})
    assert calls(forked) == {"c1"}


def test_keeping_a_node_that_the_source_deleted_does_not_keep_its_edges(forked):
    drop_ship(forked, "side", "S1")
    result = forked.branches.merge("side", resolve="ours")
    assert (result.stats.deletes, result.stats.resolved) == (1, 1)
    assert read_back(forked).nodes["Ship"]["S1"]["tonnage"] == 20
    assert calls(forked) == set()


def test_a_word_for_one_entity_leaves_the_others_in_conflict(forked):
    put(forked, "side", ship("S2", tonnage=10))
    put(forked, "main", ship("S2", tonnage=20))
    with pytest.raises(og.errors.MergeConflicts) as caught:
        forked.branches.merge("side", resolve={S1: "theirs"})
    assert [one["row_id"] for one in caught.value.details["conflicts"]] == ["S2"]
    forked.branches.merge("side", resolve={S1: "theirs", ("node:Ship", "S2"): "ours"})
    found = read_back(forked).nodes["Ship"]
    assert (found["S1"]["tonnage"], found["S2"]["tonnage"]) == (10, 20)


def test_a_resolution_may_not_break_a_rule_of_the_whole_graph(forked):
    image = {"properties": {"imo": "S1", "name": "ship S2"}}
    with pytest.raises(og.errors.MergeConflicts) as caught:
        forked.branches.merge("side", resolve={S1: image})
    (conflict,) = caught.value.details["conflicts"]
    assert (conflict["kind"], conflict["row_id"]) == ("unique_violation", "S1")
    assert conflict["detail"] == {"properties": ["name"], "value": ["ship S2"], "other_id": "S2"}


def test_blobs_that_a_resolution_gives_are_written_and_compared(forked):
    image = {"properties": {"imo": "S1", "name": "ship S1", "tonnage": 20, "photo": "base64:QUJD"}}
    forked.branches.create("later", "side")
    merged = forked.branches.merge("side", resolve={S1: image})
    assert merged.stats.updates == 1
    assert forked.blobs.read("node", "Ship", "S1", "photo") == b"ABC"
    put(forked, "later", ship("S1", tonnage=30))
    again = forked.branches.merge("later", resolve={S1: image})
    assert (again.stats.resolved, again.stats.updates) == (1, 0)  # the target has these very bytes
    put(forked, "later", ship("S1", tonnage=40))
    put(forked, "main", ship("S1", tonnage=50))
    image["properties"]["photo"] = "base64:QUJE"
    assert forked.branches.merge("later", resolve={S1: image}).stats.updates == 1
    assert forked.blobs.read("node", "Ship", "S1", "photo") == b"ABD"


EVERY_TYPE = """
node Port { code: String @key }
node Thing {
    name: String @key
    text: String?
    flag: Bool?
    shade: enum(red, green)?
    small: I32?
    large: U64?
    narrow: F32?
    wide: F64?
    day: Date?
    moment: DateTime?
    vector: Vector(3)?
    words: [String]?
    days: [Date]?
    photo: Blob?
    @range(small, -5..5)
}
edge At: Thing -> Port { since: Date?  photo: Blob? }
"""


def thing(**values):
    return {"type": "Thing", "data": {"name": "x", **values}}


def at(**values):
    return {"edge": "At", "from": "x", "to": "p", "data": {"id": "e", **values}}


FIRST = {
    "text": "", "flag": True, "shade": "red", "small": -5, "large": 2**64 - 1, "narrow": 0.1,
    "wide": -0.0, "day": "0001-01-01", "moment": "1969-12-31T23:59:59.999", "vector": [0.1, -2, 3e10],
    "words": [], "days": [None, "2024-02-29"], "photo": "base64:",
}  # fmt: skip
SECOND = dict.fromkeys(FIRST) | {"small": 5, "photo": "base64:AAECAw=="}


@pytest.fixture
def typed(tmp_path):
    with og.init(tmp_path / "g", EVERY_TYPE) as graph:
        graph.load([port("p"), thing(small=0), at()])
        graph.branches.create("side")
        graph.load([thing(**FIRST), at(since="2024-01-01", photo="base64:QQ==")], branch="side")
        graph.load([thing(**SECOND), at(since="2024-01-02")])
        yield graph


def test_images_that_a_dry_run_shows_can_be_given_back(typed):
    """The source's images bring its state, the target's change nothing, whatever the type."""
    plan = typed.branches.merge("side", dry_run=True, images=True)
    assert [one.row_id for one in plan.conflicts] == ["e", "x"]
    keys = {(one.table_key, one.row_id): one.detail for one in plan.conflicts}
    ours = {key: detail["target"] for key, detail in keys.items()}
    theirs = {key: detail["source"] for key, detail in keys.items()}
    kept = typed.branches.merge("side", resolve=ours, dry_run=True)
    assert (kept.conflicts, kept.stats.updates, kept.stats.resolved) == ((), 0, 2)
    taken = typed.branches.merge("side", resolve=theirs)
    assert (taken.stats.updates, taken.stats.resolved) == (2, 2)
    assert list(typed.diff(og.at(branch="side"), og.at(branch="main")).changes) == []


def test_values_that_break_a_rule_are_conflicts_of_the_graph(typed):
    image = {"properties": {"name": "x", "shade": "blue", "small": 9}}
    resolve = {("node:Thing", "x"): image, ("edge:At", "e"): "ours"}
    plan = typed.branches.merge("side", resolve=resolve, dry_run=True)
    assert [(one.kind, one.row_id) for one in plan.conflicts] == [
        ("value_constraint_violation", "x"),
        ("value_constraint_violation", "x"),
    ]
    assert [one.detail["property"] for one in plan.conflicts] == ["shade", "small"]
