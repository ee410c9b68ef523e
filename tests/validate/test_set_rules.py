"""Set rules on hand-made changes against committed rows; every case in memory and in DuckDB."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import ConstraintError, KeyConflict
from omnigraph.graph import init
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.types import from_json
from omnigraph.validate import committed as committed_module
from omnigraph.validate.change_set import ORDER, ChangeSet, TableDelta, needed_columns
from omnigraph.validate.committed import Committed
from omnigraph.validate.evaluate import first_set_violations
from omnigraph.validate.violations import violation_error
from tests.opened import workspace_of
from tests.oracle.graph import Graph as PlainGraph
from tests.stored import fill
from tests.validate.schemas import table_of

SCHEMA = """
node User {
  name: String @key
  mail: String? @unique
  first: String?
  last: String?
  @unique(first, last)
}
node Thing { label: String  @unique(label) }
edge Owns: User -> Thing @card(1..2) { since: Date?  @unique(src, dst) }
edge Likes: User -> User
edge Made: Thing -> User @card(0..1)
"""


def user(**given):
    return {"name": None, "mail": None, "first": None, "last": None, **given}


PLAIN = PlainGraph(
    {
        "User": {
            "ann": user(name="ann", mail="a@x", first="A", last="Z"),
            "bob": user(name="bob", mail="b@x", first="B"),
            "cid": user(name="cid"),
        },
        "Thing": {"t1": {"label": "lamp"}, "t2": {"label": "desk"}, "t3": {"label": "vase"}},
    },
    {
        "Owns": [
            ("o1", "ann", "t1", {"since": None}),
            ("o2", "ann", "t2", {"since": 1}),
            ("o3", "bob", "t1", {"since": None}),
        ],
        "Likes": [("l1", "ann", "bob", {}), ("l2", "bob", "bob", {})],
        "Made": [("m1", "t1", "ann", {})],
    },
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    with init(tmp_path_factory.mktemp("rules") / "g", SCHEMA) as graph:
        fill(graph, PLAIN)
        yield graph


@pytest.fixture(params=["memory", "arrow", "engine", "scan"])
def judge(request, graph, monkeypatch):
    """Violations of a change, and the tables they rest on.

    `memory`: few rows in Arrow. `arrow`: so many that DuckDB reads them there. `engine`: rows in
    DuckDB. `scan`: so many keys that tables are scanned.
    """
    if request.param == "scan":
        monkeypatch.setattr(committed_module, "KEY_LIMIT", 0)
    runner = LocalRunner(few_rows=0) if request.param == "arrow" else LocalRunner()

    def frame(table):
        if request.param in {"engine", "scan"}:
            return runner.frame(pa.RecordBatchReader.from_batches(table.schema, table.to_batches()))
        return runner.frame(table)

    def run(**tables):
        catalog = graph.schema.catalog
        deltas = {}
        for name, given in tables.items():
            entity = {**catalog.nodes, **catalog.edges}[name]
            options = dict(given)
            rows, removed = options.pop("rows", None), options.pop("removed", None)
            pending = None
            if rows is not None:
                pending = table_of(entity, rows, ["id", *needed_columns(entity)])
                order = pa.array(range(len(rows)), pa.int64())
                pending = frame(pending.append_column(ORDER, order))
            gone = (
                None if removed is None else frame(pa.table({"id": pa.array(removed, pa.utf8())}))
            )
            deltas[entity.table_key] = TableDelta(entity, pending, gone, **options)
        relied = Committed(runner, graph.snapshot().tables, workspace_of(graph).pinned)
        return first_set_violations(ChangeSet(catalog, deltas), relied), relied.relied_on

    yield run
    runner.close()


def ids(found):
    return [violation.row_id for violation in found]


def row(id_, **given):
    return {"id": id_, **given}


def edge(id_, src, dst, **given):
    return {"id": id_, "src": src, "dst": dst, **given}


class TestTakenIds:
    def test_a_strict_insert_of_an_id_that_is_there(self, judge):
        found, relied = judge(Thing={"rows": [row("t9"), row("t2")], "strict": True})
        assert [(v.kind, v.row_id, v.record) for v in found] == [("key", "t2", 1)]
        assert "node:Thing" in found[0].message
        assert "'t2'" in found[0].message
        assert "node:Thing" in relied
        error = violation_error(found)
        assert isinstance(error, KeyConflict)
        assert error.details == {"table_key": "node:Thing", "entity_id": "t2"}

    def test_an_id_that_is_free_removed_or_of_a_replaced_table(self, judge):
        assert judge(Thing={"rows": [row("t9")], "strict": True})[0] == []
        moved = {"rows": [row("t3", label="new")], "removed": ["t3"], "strict": True}
        assert judge(Thing=moved)[0] == []
        whole = {"rows": [row("t1"), row("t2")], "replaced": True, "strict": True}
        assert judge(Thing=whole)[0] == []

    def test_an_upsert_takes_the_place_of_the_row(self, judge):
        assert judge(Thing={"rows": [row("t2", label="desk")]})[0] == []


class TestUnique:
    def test_two_incoming_rows(self, judge):
        rows = [row("x", mail="m"), row("y", mail="n"), row("z", mail="m")]
        found, _ = judge(User={"rows": rows})
        (clash,) = found
        assert (clash.kind, clash.row_id, clash.record) == ("unique", "z", 2)
        for word in ("@unique", "User.mail", "m", "'x'", "'z'"):
            assert word in clash.message
        error = violation_error(found)
        assert isinstance(error, ConstraintError)
        assert error.details["violation"] == "unique"
        assert error.details["other_id"] == "x"
        assert error.details["row_id"] == "z"

    def test_a_committed_row(self, judge):
        (clash,), relied = judge(User={"rows": [row("x", mail="m"), row("y", mail="b@x")]})
        assert (clash.row_id, clash.record, clash.detail["other_id"]) == ("y", 1, "bob")
        assert "b@x" in clash.message
        assert "node:User" in relied

    def test_nulls_are_exempt(self, judge):
        rows = [row("x", first="A"), row("y", first="A"), row("z", last="Z"), row("cid")]
        assert judge(User={"rows": rows})[0] == []

    def test_all_members_must_agree(self, judge):
        assert judge(User={"rows": [row("x", first="A", last="Y")]})[0] == []
        (clash,), _ = judge(User={"rows": [row("x", first="A", last="Z")]})
        assert "User.(first, last)" in clash.message
        assert "A, Z" in clash.message
        (clash,), _ = judge(
            User={"rows": [row("x", first="q", last="q"), row("y", first="q", last="q")]}
        )
        assert (clash.row_id, clash.detail["other_id"]) == ("y", "x")

    def test_members_are_compared_one_by_one(self, judge):
        rows = [row("x", first="a,b", last="c"), row("y", first="a", last="b,c")]
        assert judge(User={"rows": rows})[0] == []

    def test_a_row_does_not_clash_with_itself(self, judge):
        assert judge(User={"rows": [row("ann", mail="a@x", first="A", last="Z")]})[0] == []

    def test_a_released_value_is_free(self, judge):
        assert judge(User={"rows": [row("ann"), row("x", mail="a@x")]})[0] == []
        swapped = [row("ann", mail="b@x"), row("bob", mail="a@x")]
        assert judge(User={"rows": swapped})[0] == []
        gone = {"rows": [row("x", label="vase")], "removed": ["t3"]}
        assert judge(Thing=gone)[0] == []
        assert judge(Thing={"rows": [row("x", label="lamp")], "replaced": True},
                     Owns={"rows": [], "replaced": True},
                     Made={"rows": [], "replaced": True},
                     User={"rows": [row("q")], "replaced": True},
                     Likes={"rows": [], "replaced": True})[0] == []  # fmt: skip

    def test_edges_by_their_ends(self, judge):
        (clash,), _ = judge(Owns={"rows": [edge("e", "bob", "t1")]})
        assert (clash.row_id, clash.detail["other_id"]) == ("e", "o3")
        assert "Owns.(dst, src)" in clash.message

    def test_every_group_of_every_table_reports(self, judge):
        found, _ = judge(
            User={"rows": [row("x", mail="a@x", first="A", last="Z")]},
            Thing={"rows": [row("y", label="lamp")]},
        )
        assert sorted(v.table_key for v in found) == ["node:Thing", "node:User", "node:User"]
        assert str(violation_error(found)).endswith("(and 2 more)")


class TestEndpoints:
    def test_an_end_that_is_nowhere(self, judge):
        found, relied = judge(Likes={"rows": [edge("e", "ann", "no"), edge("f", "bob", "ann")]})
        assert [(v.kind, v.row_id, v.record) for v in found] == [("endpoint", "e", 0)]
        for word in ("dst", "'no'", "User", "not found", "Likes"):
            assert word in found[0].message
        assert relied >= {"node:User"}
        assert violation_error(found).details["node_id"] == "no"

    def test_both_ends_are_looked_at(self, judge):
        found, _ = judge(Likes={"rows": [edge("e", "no", "no")]})
        assert [v.detail["endpoint"] for v in found] == ["src", "dst"]

    def test_an_end_that_comes_with_the_change(self, judge):
        change = {"User": {"rows": [row("new")]}, "Likes": {"rows": [edge("e", "new", "ann")]}}
        assert judge(**change)[0] == []

    def test_an_end_that_goes_with_the_change(self, judge):
        found, _ = judge(User={"removed": ["cid"]}, Likes={"rows": [edge("e", "ann", "cid")]})
        assert ids(found) == ["e"]
        found, _ = judge(
            User={"removed": ["cid"], "rows": [row("cid")]},
            Likes={"rows": [edge("e", "ann", "cid")]},
        )
        assert found == []

    def test_an_id_of_another_type_is_no_end(self, judge):
        found, _ = judge(Owns={"rows": [edge("e", "cid", "ann")]})
        assert [(v.detail["node_id"], v.detail["node_type"]) for v in found] == [("ann", "Thing")]

    def test_a_replaced_table_has_only_its_new_rows(self, judge):
        found, _ = judge(
            User={"rows": [row("ann")], "replaced": True},
            Likes={"rows": [edge("e", "ann", "bob")], "replaced": True},
        )
        assert ids(found) == ["e"]


class TestStranded:
    def test_a_node_goes_and_an_edge_would_stay(self, judge):
        found, relied = judge(User={"removed": ["bob"]}, Owns={"removed": ["o3"]})
        assert sorted((v.row_id, v.detail["endpoint"]) for v in found) == [
            ("l1", "dst"),
            ("l2", "dst"),
            ("l2", "src"),
        ]
        assert all("not found" in v.message and "'bob'" in v.message for v in found)
        assert relied >= {"edge:Likes", "edge:Owns", "edge:Made"}

    def test_its_edges_go_too_or_move_away(self, judge):
        change = {"Likes": {"removed": ["l1", "l2"]}, "Owns": {"removed": ["o3"]}}
        assert judge(User={"removed": ["bob"]}, **change)[0] == []
        moved = {
            "Likes": {"removed": ["l2"], "rows": [edge("l1", "ann", "cid")]},
            "Owns": {"removed": ["o3"]},
        }
        assert judge(User={"removed": ["bob"]}, **moved)[0] == []

    def test_a_node_put_back_keeps_its_edges(self, judge):
        assert judge(User={"removed": ["bob"], "rows": [row("bob")]})[0] == []

    def test_a_node_without_edges_may_go(self, judge):
        assert judge(User={"removed": ["cid"]})[0] == []

    def test_a_replaced_node_table_must_keep_every_end(self, judge):
        kept = [row("t1", label="1"), row("t2", label="2")]
        assert judge(Thing={"rows": kept, "replaced": True})[0] == []
        found, _ = judge(Thing={"rows": kept[:1], "replaced": True})
        assert ids(found) == ["o2"]
        assert found[0].detail["node_id"] == "t2"
        found, _ = judge(Thing={"rows": [], "replaced": True})
        assert sorted(ids(found)) == ["m1", "o1", "o2", "o3"]

    def test_replaced_edges_strand_nothing(self, judge):
        change = {"Owns": {"rows": [], "replaced": True}, "Made": {"rows": [], "replaced": True}}
        everything = {**change, "Likes": {"rows": [], "replaced": True}}
        assert judge(Thing={"rows": [], "replaced": True}, User={"rows": [], "replaced": True},
                     **everything)[0] == []  # fmt: skip


class TestCardinality:
    def test_too_many(self, judge):
        found, relied = judge(Owns={"rows": [edge("e", "ann", "t3")]})
        (over,) = found
        assert over.kind == "cardinality"
        for word in ("@card", "Owns", "'ann'", "3", "2"):
            assert word in over.message
        assert over.detail == {"source_id": "ann", "count": 3, "bound": "max", "limit": 2}
        assert "edge:Owns" in relied
        assert violation_error(found).details["violation"] == "cardinality"

    def test_too_few(self, judge):
        found, _ = judge(Owns={"removed": ["o3"]})
        (below,) = found
        assert below.detail == {"source_id": "bob", "count": 0, "bound": "min", "limit": 1}
        for word in ("@card", "Owns", "'bob'", "0", "1"):
            assert word in below.message

    def test_within_the_bounds(self, judge):
        assert judge(Owns={"rows": [edge("e", "bob", "t3")]})[0] == []
        assert judge(Owns={"removed": ["o1"]})[0] == []
        assert judge(Owns={"removed": ["o1"], "rows": [edge("e", "ann", "t3")]})[0] == []

    def test_a_source_whose_edges_do_not_change_is_not_judged(self, judge):
        # cid owns nothing, which is below the minimum.
        assert judge(User={"rows": [row("cid", mail="c@x")]})[0] == []
        assert judge(Likes={"rows": [edge("e", "cid", "ann")]})[0] == []

    def test_an_edge_that_moves_counts_for_both_sources(self, judge):
        found, _ = judge(Owns={"rows": [edge("o3", "cid", "t1")]})
        assert [(v.detail["source_id"], v.detail["count"]) for v in found] == [("bob", 0)]
        found, _ = judge(Owns={"rows": [edge("o3", "ann", "t3")]})
        counts = {v.detail["source_id"]: v.detail["count"] for v in found}
        assert counts == {"ann": 3, "bob": 0}

    def test_an_edge_that_stays_is_counted_once(self, judge):
        assert judge(Owns={"rows": [edge("o1", "ann", "t3"), edge("o2", "ann", "t2")]})[0] == []

    def test_a_source_that_goes_is_exempt(self, judge):
        gone = {"User": {"removed": ["bob"]}, "Likes": {"removed": ["l1", "l2"]}}
        assert judge(Owns={"removed": ["o3"]}, **gone)[0] == []
        back = {"User": {"removed": ["bob"], "rows": [row("bob")]}}
        found, _ = judge(Owns={"removed": ["o3"]}, **back)
        assert [v.detail["source_id"] for v in found] == ["bob"]

    def test_replaced_edges_leave_old_sources_with_what_is_new(self, judge):
        found, _ = judge(Owns={"rows": [edge("e", "ann", "t1")], "replaced": True})
        assert [(v.detail["source_id"], v.detail["count"]) for v in found] == [("bob", 0)]
        rows = [edge("e", "ann", "t1"), edge("f", "bob", "t2")]
        assert judge(Owns={"rows": rows, "replaced": True})[0] == []

    def test_replaced_sources_that_are_not_put_back_are_exempt(self, judge):
        found, _ = judge(
            User={"rows": [row("ann")], "replaced": True},
            Owns={"rows": [edge("e", "ann", "t1")], "replaced": True},
            Likes={"rows": [], "replaced": True},
        )
        assert found == []

    def test_an_upper_bound_alone(self, judge):
        found, _ = judge(Made={"rows": [edge("e", "t1", "ann"), edge("f", "t2", "ann")]})
        assert [(v.detail["source_id"], v.detail["count"]) for v in found] == [("t1", 2)]
        assert judge(Made={"removed": ["m1"]})[0] == []
        assert judge(Made={"removed": ["m1"], "rows": [edge("e", "t1", "bob")]})[0] == []
        assert judge(Made={"rows": [edge("m1", "t1", "bob")]})[0] == []


class TestOrder:
    def test_the_first_broken_rule_alone_is_reported(self, judge):
        found, _ = judge(
            User={"rows": [row("x", mail="a@x")]},
            Owns={"rows": [edge("e", "no", "t1")]},
            Made={"rows": [edge("f", "t1", "ann")]},
        )
        assert [v.kind for v in found] == ["unique"]
        found, _ = judge(
            Owns={"rows": [edge("e", "no", "t1")]}, Made={"rows": [edge("f", "t1", "ann")]}
        )
        assert [v.kind for v in found] == ["endpoint"]

    def test_no_more_than_twenty_instances(self, judge):
        rows = [edge(f"e{at:02}", "ann", f"no{at}") for at in range(30)]
        found, _ = judge(Likes={"rows": rows})
        assert [v.record for v in found] == list(range(20))

    def test_nothing_changed_breaks_nothing_and_rests_on_nothing(self, judge):
        assert judge() == ([], set())


TYPES = {
    "String": ["ß", "日本", "a\x00b", "'", "`", ""],
    "enum(a, b)": ["a", "b"],
    "Bool": [True, False],
    "I32": [-(2**31), 0],
    "I64": [-(2**63), 2**63 - 1],
    "U32": [2**32 - 1],
    "U64": [2**63, 2**64 - 1],
    "F32": [0.1, -0.0, 3.4e38],
    "F64": [0.1, 0.0, 5e-324],
    "Date": ["0001-01-01", "1969-12-31"],
    "DateTime": ["1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00.001Z"],
}


NAMES = ["select", "group", "userName", "rec", "other", "v0"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, "order") for kind in TYPES]
    + [(kind, name) for kind in ("String", "DateTime") for name in NAMES],
)
def test_every_type_and_name_a_unique_member_can_have(tmp_path, kind, name):
    """Each value meets its equal among committed and among incoming rows, and no other."""
    values = TYPES[kind]
    schema = f"node N {{ {name}: {kind}? other_one: {kind}? @unique({name}) @unique(other_one, {name}) }}"
    with init(tmp_path / "g", schema) as graph:
        entity = graph.schema.catalog.nodes["N"]
        prop = entity.properties[name].type
        stored = [from_json(prop, value) for value in values]
        fill(
            graph,
            PlainGraph({"N": {f"c{at}": {name: v, "other_one": v} for at, v in enumerate(stored)}}),
        )
        for in_memory in (True, False):
            runner = LocalRunner()
            rows = [row("null")] + [row(f"p{at}", **{name: v}) for at, v in enumerate(values)]
            pending = table_of(entity, rows, ["id", *needed_columns(entity)])
            order = pa.array(range(len(rows)), pa.int64())
            pending = pending.append_column(ORDER, order)
            data = pending if in_memory else pending.to_reader()
            changes = ChangeSet(
                graph.schema.catalog, {"node:N": TableDelta(entity, runner.frame(data))}
            )
            relied = Committed(runner, graph.snapshot().tables, workspace_of(graph).pinned)
            found = first_set_violations(changes, relied)
            runner.close()
            met = [(v.row_id, v.detail["other_id"]) for v in found]
            assert met == [(f"p{at}", f"c{at}") for at in range(len(values))]
