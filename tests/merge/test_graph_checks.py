"""The whole-graph checks of a merge: every violation of every rule, as conflicts."""

from __future__ import annotations

from typing import get_args

import pyarrow as pa
import pytest

from omnigraph.graph import init
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, needed_columns
from omnigraph.validate.committed import Committed
from omnigraph.write.merge.decided import (
    EntityConflictKind,
    GraphConflictKind,
    MergeConflict,
    conflicts_error,
    in_order,
)
from omnigraph.write.merge.graph_checks import cascaded_edges, graph_conflicts, value_conflicts
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph
from tests.stored import fill
from tests.validate.schemas import table_of

SCHEMA = """
node User {
  name: String @key
  mail: String? @unique
  born: Date?
  desk: I32?
  @unique(desk, born)
}
node Thing { label: String?  shade: enum(red, green)?  size: I32?  photo: Blob?  @range(size, 0..9) }
edge Owns: User -> Thing @card(1..2) { since: Date?  @unique(src, dst) }
edge Likes: User -> User
"""
MANY = 30
"""More than the errors of loads and mutations list."""
LIKES = [(f"k{n}", "bob", "bob", {}) for n in range(10, 10 + MANY)]


def user(name, **given):
    return {"name": name, "mail": None, "born": None, "desk": None, **given}


def thing(**given):
    return {"label": None, "shade": None, "size": None, "photo": None, **given}


PLAIN = PlainGraph(
    {
        "User": {
            "ann": user("ann", mail="a@x", born=3, desk=1),
            "bob": user("bob", mail="b@x"),
            "cid": user("cid"),
        },
        "Thing": {f"t{n}": thing() for n in range(4)},
    },
    {
        "Owns": [
            ("o1", "ann", "t1", {"since": None}),
            ("o2", "ann", "t2", {"since": 1}),
            ("o3", "bob", "t1", {"since": None}),
        ],
        "Likes": [("l1", "ann", "bob", {}), ("l2", "bob", "ann", {}), *LIKES],
    },
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with init(tmp_path_factory.mktemp("merged") / "g", SCHEMA) as graph:
        fill(graph, PLAIN)
        yield graph


@pytest.fixture(scope="module")
def incoming(graph):
    """The change set of incoming rows and removed ids by type, and the committed rows under it."""
    runner = LocalRunner()

    def make(**tables):
        catalog = graph.schema.catalog
        deltas = {}
        for name, (given, removed) in tables.items():
            entity = {**catalog.nodes, **catalog.edges}[name]
            rows = sorted(given, key=lambda row: row["id"])
            pending = table_of(entity, rows, ["id", *needed_columns(entity)])
            pending = pending.append_column(ORDER, pa.array(range(len(rows)), pa.int64()))
            gone = pa.table({"id": pa.array(removed, pa.string())})
            deltas[entity.table_key] = TableDelta(
                entity,
                runner.frame(pending) if rows else None,
                runner.frame(gone) if removed else None,
            )
        committed = Committed(runner, graph.snapshot().tables, workspace_of(graph).pinned)
        return ChangeSet(catalog, deltas), committed

    yield make
    runner.close()


def places(conflicts):
    return [(one.kind, one.table_key, one.row_id) for one in in_order(conflicts)]


def pairs(conflicts):
    return [(one.row_id, one.detail["other_id"]) for one in in_order(conflicts)]


def new_user(id_, **given):
    return {"id": id_, **user(id_, **given)}


def edge(id_, src, dst):
    return {"id": id_, "src": src, "dst": dst}


def test_every_violation_of_every_rule_comes(incoming):
    lost = [edge(f"x{n}", "nobody", "ann") for n in range(10, 10 + MANY)]
    twins = [new_user(f"u{n}", mail="a@x") for n in range(10, 10 + MANY)]
    owned = [edge(f"p{n}", "ann", "t3") for n in range(3)]
    found = graph_conflicts(
        *incoming(User=(twins, []), Likes=(lost, []), Owns=([owned[0]], []), Thing=([], ["t1"]))
    )
    assert places(found) == [
        *(("orphan_edge", "edge:Likes", one["id"]) for one in lost),
        ("orphan_edge", "edge:Owns", "o1"),
        ("orphan_edge", "edge:Owns", "o3"),
        ("cardinality_violation", "edge:Owns", None),
        *(("unique_violation", "node:User", one["id"]) for one in twins),
    ]


def test_edges_that_stay_at_a_removed_node_are_all_orphans(incoming):
    found = graph_conflicts(*incoming(User=([], ["bob"]), Owns=([], ["o3"]), Likes=([], ["l2"])))
    at_both_ends = {id_ for id_, *_ in LIKES}
    assert [one.row_id for one in found].count("l1") == 1
    assert {one.row_id for one in found} == {"l1", *at_both_ends}
    (orphan,) = (one for one in found if one.row_id == "l1")
    assert orphan.detail == {"endpoint": "dst", "node_type": "User", "node_id": "bob"}


def test_a_shared_tuple_is_shown_in_the_form_of_an_export(incoming):
    found = graph_conflicts(*incoming(User=([new_user("dan", born=3, desk=1)], [])))
    (conflict,) = found
    assert conflict.detail == {
        "properties": ["born", "desk"],
        "value": ["1970-01-04", 1],
        "other_id": "ann",
    }
    assert conflict.row_id == "dan"


def test_of_incoming_rows_with_one_value_the_first_keeps_it(incoming):
    rows = [new_user(id_, mail="new@x") for id_ in ("dan", "eve", "fay")]
    found = graph_conflicts(*incoming(User=(rows, [])))
    assert pairs(found) == [("eve", "dan"), ("fay", "dan")]


def test_each_incoming_row_has_one_conflict_for_a_value_that_a_committed_row_holds(incoming):
    rows = [new_user(id_, mail="a@x") for id_ in ("dan", "eve")]
    found = graph_conflicts(*incoming(User=(rows, [])))
    assert pairs(found) == [("dan", "ann"), ("eve", "ann")]


def test_a_value_that_the_merge_frees_may_be_used_again(incoming):
    rows = [new_user("ann", mail="z@x"), new_user("dan", mail="a@x"), new_user("eve", mail="b@x")]
    removed = incoming(
        User=(rows, ["bob"]), Owns=([], ["o3"]), Likes=([], ["l1", "l2", *(i for i, *_ in LIKES)])
    )
    assert graph_conflicts(*removed) == []


def test_a_source_may_have_too_few_edges_too(incoming):
    (conflict,) = graph_conflicts(*incoming(Owns=([], ["o3"])))
    assert (conflict.kind, conflict.row_id) == ("cardinality_violation", None)
    assert conflict.detail == {"source_id": "bob", "count": 0, "bound": "min", "limit": 1}


def test_a_removed_source_owes_no_edges(incoming):
    likes = [id_ for id_, *_ in LIKES]
    removed = incoming(User=([], ["bob"]), Owns=([], ["o3"]), Likes=([], ["l1", "l2", *likes]))
    assert graph_conflicts(*removed) == []


def test_values_of_incoming_rows_are_judged_by_the_row_rules(graph):
    entity = graph.schema.catalog.nodes["Thing"]
    rows = [
        {"id": "a", "shade": "red", "size": 3},
        {"id": "b", "shade": "blue", "size": 3},
        {"id": "c", "shade": "red", "size": 10},
    ]
    table = table_of(entity, rows, ["id", "label", "shade", "size"])
    table = table.append_column("photo", pa.nulls(3, pa.struct([("size", pa.uint64())])))
    assert places(value_conflicts(entity, table)) == [
        ("value_constraint_violation", "node:Thing", "b"),
        ("value_constraint_violation", "node:Thing", "c"),
    ]


def test_untouched_edges_go_with_a_node_that_a_resolution_deletes(incoming):
    asked = {}

    def untouched(edge_type, ids):
        asked[edge_type.name] = ids.to_pylist()
        return ids.filter(pa.array([id_ != "l2" for id_ in ids.to_pylist()]))

    changes = incoming(User=([], ["ann"]), Owns=([edge("o1", "ann", "t3")], []))
    found = cascaded_edges(*changes, {"User": ["ann"]}, untouched)
    assert {key: ids.to_pylist() for key, ids in found.items()} == {
        "edge:Likes": ["l1"],
        "edge:Owns": ["o2"],
    }
    # An edge that the source changed is incoming, and not asked about: it will be an orphan.
    assert asked == {"Owns": ["o2"], "Likes": ["l1", "l2"]}


# ------------------------------------------------------------------ the report


def conflict(table_key, row_id, kind="orphan_edge", message="m"):
    return MergeConflict(kind, table_key, row_id, message)


def test_conflicts_are_listed_by_table_id_kind_and_message():
    ordered = [
        conflict("edge:A", "x"),
        conflict("node:A", "a", "divergent_update"),
        conflict("node:A", "b", "unique_violation", "m"),
        conflict("node:A", "b", "unique_violation", "n"),
        conflict("node:A", "ä", "divergent_update"),
        conflict("node:A", None, "cardinality_violation"),
    ]
    assert in_order(reversed(ordered)) == ordered


def test_the_error_names_three_conflicts_and_carries_all():
    four = [conflict("node:A", f"x{n}", message=f"message {n}") for n in range(4)]
    error = conflicts_error("the merge of `side` into `main`", four)
    assert str(error) == (
        "the merge of `side` into `main` has 4 conflicts: message 0; message 1; message 2; and 1 more; "
        "change one of the sides and try again"
    )
    assert error.body()["merge_conflicts"] == [one.to_json() for one in four]
    assert "1 conflict: message 0; change" in str(conflicts_error("it", four[:1]))


@pytest.mark.parametrize("kind", get_args(EntityConflictKind) + get_args(GraphConflictKind))
def test_resolve_is_offered_where_it_can_decide(kind):
    found = [conflict("node:A", "x", kind)]
    text = str(conflicts_error("it", found, resolved=True))
    decides = kind in get_args(EntityConflictKind)
    assert ("decide with `resolve`" in text) == decides
    # What `resolve` gave can break the rules of a single row.
    assert ("`resolve`" in text) == (decides or kind == "value_constraint_violation")
    # So can rows that one side wrote and a rule that the other made stricter: no resolution is about them.
    assert ("`resolve`" in str(conflicts_error("it", found))) == decides


def test_a_conflict_as_json():
    shown = MergeConflict("orphan_edge", "edge:Owns", "o1", "m", {"endpoint": "src"}).to_json()
    assert shown == {
        "kind": "orphan_edge",
        "table_key": "edge:Owns",
        "entity_kind": "edge",
        "type_name": "Owns",
        "row_id": "o1",
        "message": "m",
        "detail": {"endpoint": "src"},
    }
    assert "detail" not in conflict("node:A", None).to_json()
