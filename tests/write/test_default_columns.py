"""A new required property with a `@default`: the rows that are there get the value, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError, SchemaViolation, UnsupportedMigration
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage
from tests.commit.synthetic import drifted
from tests.graphs import graph_of
from tests.opened import table_of, workspace_of
from tests.stored import read_back

SCHEMA = """
node Ship {
  imo: String @key
  name: String? @index
  tonnage: I32? @index
  vec: Vector(4)? @index
  papers: Blob?
}
node Port { code: String @key }
edge Calls: Ship -> Port { day: Date? }
"""
WITH = SCHEMA.replace(
    "papers: Blob?",
    """papers: Blob?
  flag: String @default("NO") @index
  state: enum(active, gone) @default(active)
  tags: [String] @default(["a", "b"])
  built: Date @default("2024-02-29")
  rate: F32 @default(0.5)
  note: String? @default("later")""",
).replace("day: Date?", "day: Date?  weight: I64 @default(-3)")
VALUES = {
    "flag": "NO",
    "state": "active",
    "tags": ["a", "b"],
    "built": 19782,
    "rate": 0.5,
    "note": None,
}
ONCE = "01JZZZZZZZZZZZZZZZZZZZZZZ1"
STAMPS = ["id", "_row_created_at_version", "_row_last_updated_at_version"]


def fill(graph):
    """Rows in several fragments, some changed, some deleted, with blobs and indexes."""
    ships = [
        {
            "type": "Ship",
            "data": {
                "imo": f"s{n}",
                "name": f"the ship {n}",
                "tonnage": n,
                "vec": [n, 1, 0, 0],
                "papers": "base64:AAEC" if n % 2 else None,
            },
        }
        for n in range(40)
    ]
    graph.load([*ships[:20], {"type": "Port", "data": {"code": "p"}}])
    graph.load(ships[20:], mode="append")
    graph.load([{"edge": "Calls", "from": f"s{n}", "to": "p"} for n in range(20, 40)])
    graph.mutate("query drop() { delete Ship where tonnage < 5 }")
    graph.mutate('query change() { update Ship set { name: "renamed" } where imo = "s30" }')
    graph.ensure_indices()


graph = graph_of(SCHEMA, fill)


def stamps(graph, key):
    table = table_of(graph, key)
    return sorted(table.read(STAMPS, with_row_id=True).to_pylist(), key=lambda row: row["id"])


def test_the_plan_says_which_value_the_rows_get(graph):
    steps = [step.to_json() for step in graph.schema.plan(WITH).steps]
    added = {step["property_name"]: step for step in steps if step["kind"] == "add_property"}
    assert added["flag"] == {
        "kind": "add_property",
        "type_kind": "node",
        "type_name": "Ship",
        "property_name": "flag",
        "property_type": "String",
        "default": "NO",
    }
    assert {name: step.get("default") for name, step in added.items()} == {
        "flag": "NO",
        "state": "active",
        "tags": ["a", "b"],
        "built": "2024-02-29",
        "rate": 0.5,
        "note": None,
        "weight": -3,
    }
    described = [step.describe() for step in graph.schema.plan(WITH).steps]
    assert 'add Ship.flag: String with "NO" in all rows' in described


def test_every_row_gets_the_value_and_keeps_all_others(graph):
    before = read_back(graph)
    done = graph.schema.apply(WITH, operation_id=ONCE)
    assert done.applied
    after = read_back(graph)
    assert after.nodes["Ship"] == {
        imo: {**values, **VALUES} for imo, values in before.nodes["Ship"].items()
    }
    assert len(after.nodes["Ship"]) == 35
    assert after.nodes["Port"] == before.nodes["Port"]
    assert sorted(after.edges["Calls"], key=repr) == sorted(
        ((*one[:3], {**one[3], "weight": -3}) for one in before.edges["Calls"]), key=repr
    )
    assert drifted(graph) == []
    again = graph.schema.apply(WITH, operation_id=ONCE)
    assert again.replayed
    assert again.steps == done.steps


def test_rows_keep_their_ids_and_stamps_and_no_index_is_lost(graph):
    before = {key: stamps(graph, key) for key in ("node:Ship", "edge:Calls")}
    table = table_of(graph, "node:Ship")
    graph.schema.apply(WITH)
    assert {key: stamps(graph, key) for key in before} == before
    now = table_of(graph, "node:Ship")
    delta = now.dataset.delta(compared_against=table.version)
    assert delta.get_inserted_rows().read_all().num_rows == 0
    assert delta.get_updated_rows().read_all().num_rows == 0
    for column, kind in (
        ("id", IndexKind.BTREE),
        ("tonnage", IndexKind.BTREE),
        ("name", IndexKind.FTS),
    ):
        assert coverage(now, column, kind) is coverage(table, column, kind) is Coverage.INDEXED
    assert graph.query('match { $s: Ship  search($s.name, "renamed") } return { $s.imo }').rows == [
        {"s.imo": "s30"}
    ]


def test_the_columns_are_required_and_go_on_as_any_other(graph):
    graph.schema.apply(WITH)
    schema = table_of(graph, "node:Ship").schema
    required = {name for name in VALUES if not schema.field(name).nullable}
    assert required == set(VALUES) - {"note"}
    for name in VALUES:
        prop = graph.schema.catalog.nodes["Ship"].properties[name]
        stable = schema.field(name).metadata[b"omnigraph.stable_property_id"]
        assert stable == str(prop.property_id).encode()
    graph.load([{"type": "Ship", "data": {"imo": "new"}}])
    graph.load([{"type": "Ship", "data": {"imo": "s9", "flag": "SE"}}], mode="patch")
    with pytest.raises(InputError, match=r"Ship\.flag"):
        graph.load([{"type": "Ship", "data": {"imo": "bad", "flag": None}}])
    found = read_back(graph).nodes["Ship"]
    assert found["new"]["flag"] == "NO"
    assert found["new"]["note"] == "later"
    assert (found["s9"]["flag"], found["s9"]["tonnage"]) == ("SE", 9)
    graph.ensure_indices()
    graph.optimize()
    query = 'match { $s: Ship { flag: "SE" } } return { $s.imo, $s.tags }'
    assert graph.query(query).rows == [{"s.imo": "s9", "s.tags": ["a", "b"]}]
    assert read_back(graph).nodes["Ship"] == found
    with og.open(graph.uri) as other:
        assert other.verify(deep=True).problems == ()


def test_the_state_before_is_read_as_it_was(graph):
    then = graph.snapshot().graph_commit_id
    before = graph.nodes("Ship").to_arrow()
    graph.schema.apply(WITH)
    past = graph.nodes("Ship", snapshot=then).to_arrow()
    assert past.select(before.column_names).equals(before)


def test_no_other_column_is_written_again(graph, tmp_path):
    root = Path(workspace_of(graph).root.path)
    held = {path for path in root.rglob("*.lance") if path.is_file()}
    graph.schema.apply(WITH)
    new = [path for path in root.rglob("*.lance") if path.is_file() and path not in held]
    assert new
    for path in new:
        content = path.read_bytes()
        assert b"the ship" not in content, path
        assert b"renamed" not in content, path


def test_a_table_without_rows_gets_the_column_too(tmp_path):
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.schema.apply(WITH)
        schema = table_of(graph, "node:Ship").schema
        assert not schema.field("flag").nullable
        graph.load([{"type": "Ship", "data": {"imo": "a"}}])
        assert read_back(graph).nodes["Ship"]["a"]["tags"] == ["a", "b"]


def test_names_that_were_used_before_get_the_value_and_not_what_was_there(graph):
    graph.schema.apply(
        SCHEMA.replace("name: String? @index", "").replace(
            "tonnage: I32?", 'weight: I32? @rename_from("tonnage")'
        )
    )
    graph.schema.apply(
        SCHEMA.replace("name: String? @index", "name: I32 @default(7)").replace(
            "tonnage: I32? @index", 'weight: I32? @index  tonnage: String @default("t")'
        )
    )
    found = read_back(graph).nodes["Ship"]
    assert {row["name"] for row in found.values()} == {7}
    assert {row["tonnage"] for row in found.values()} == {"t"}
    assert {imo: row["weight"] for imo, row in found.items()} == {f"s{n}": n for n in range(5, 40)}


def test_an_interface_gives_it_to_the_rows_of_its_nodes(tmp_path):
    source = "interface Named { name: String? }  node A implements Named { k: String @key }"
    with og.init(tmp_path / "g", source) as graph:
        graph.load([{"type": "A", "data": {"k": "a", "name": "x"}}])
        graph.schema.apply(source.replace("String?", "String?  rank: I32 @default(3)"))
        assert read_back(graph).nodes["A"] == {"a": {"k": "a", "name": "x", "rank": 3}}


def test_a_drop_and_the_same_property_again_with_a_default(graph):
    graph.schema.apply(WITH)
    graph.schema.apply(SCHEMA, allow_data_loss=True)
    graph.schema.apply(WITH.replace('"NO"', '"DK"'))
    assert {row["flag"] for row in read_back(graph).nodes["Ship"].values()} == {"DK"}


def test_a_hard_drop_in_the_same_apply(graph):
    target = WITH.replace("tonnage: I32? @index", "")
    graph.schema.apply(target, allow_data_loss=True)
    found = read_back(graph).nodes["Ship"]
    assert {row["flag"] for row in found.values()} == {"NO"}
    assert all("tonnage" not in row for row in found.values())
    assert found["s7"]["papers"] == b"\x00\x01\x02"
    assert drifted(graph) == []


def test_without_a_default_the_way_is_named(graph):
    with pytest.raises(UnsupportedMigration, match=r"OG-MF-103.*@default"):
        graph.schema.apply(SCHEMA.replace("papers: Blob?", "papers: Blob?  flag: String"))


def test_a_default_that_changes_touches_no_row(graph):
    graph.schema.apply(WITH)
    before, tables = read_back(graph), graph.snapshot().tables
    graph.schema.apply(WITH.replace('@default("NO")', '@default("SE")').replace("@default(-3)", ""))
    assert read_back(graph).nodes == before.nodes
    assert {key: pin.table_version for key, pin in graph.snapshot().tables.items()} == {
        key: pin.table_version for key, pin in tables.items()
    }
    graph.load([{"type": "Ship", "data": {"imo": "new"}}])
    assert read_back(graph).nodes["Ship"]["new"]["flag"] == "SE"
    with pytest.raises(InputError, match=r"Calls\.weight"):
        graph.load([{"edge": "Calls", "from": "new", "to": "p"}])


def test_a_unique_default_is_refused_where_there_are_several_rows(graph):
    unique = SCHEMA.replace("papers: Blob?", 'papers: Blob?  flag: String @default("NO") @unique')
    before = graph.snapshot().graph_commit_id
    with pytest.raises(SchemaViolation) as caught:
        graph.schema.apply(unique)
    (violation,) = caught.value.details["violations"]
    assert (violation["element"], violation["rows"]) == ("node:Ship.flag", 35)
    assert violation["row_ids"] == sorted(f"s{n}" for n in range(5, 40))[:20]
    assert graph.snapshot().graph_commit_id == before
    with pytest.raises(SchemaViolation):
        graph.schema.plan(unique, check=True)
    beside = SCHEMA.replace(
        "papers: Blob?", 'papers: Blob?  flag: String @default("NO")  @unique(tonnage, flag)'
    )
    graph.schema.apply(beside)
    assert {row["flag"] for row in read_back(graph).nodes["Ship"].values()} == {"NO"}


def test_a_unique_default_is_taken_where_there_is_one_row(tmp_path):
    with og.init(tmp_path / "g", "node A { k: String @key }") as graph:
        graph.load([{"type": "A", "data": {"k": "a"}}])
        graph.schema.apply("node A { k: String @key  n: I32 @default(1) @unique @range(n, 0..5) }")
        assert read_back(graph).nodes["A"] == {"a": {"k": "a", "n": 1}}
        with pytest.raises(ConstraintError, match="@unique"):
            graph.load([{"type": "A", "data": {"k": "b"}}])
