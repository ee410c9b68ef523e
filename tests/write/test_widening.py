"""Columns that get a larger type, or lose their values: with every kind of index and a blob beside."""

from __future__ import annotations

import base64
import math

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintError, InputError, SchemaConflict, UnsupportedMigration
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage, list_indexes
from tests.commit.synthetic import drifted
from tests.opened import row_ids, table_of
from tests.write.writing import nodes, run, state

SCHEMA = """
node Ship {
  imo: String @key
  tons: I32? @index
  crew: U32 @index
  seats: U32?
  draft: F32? @index
  marks: [I32]?
  flag: String? @index
  built: Date? @index
  text: String
  vec: Vector(4)? @embed(text) @index
  doc: Blob?
}
node Port { no: I32 @key }
edge Calls: Ship -> Port { times: I32? @index }
"""
WIDE = (
    SCHEMA.replace("tons: I32?", "tons: I64?")
    .replace("crew: U32", "crew: U64")
    .replace("seats: U32?", "seats: I64?")
    .replace("draft: F32?", "draft: F64?")
    .replace("marks: [I32]?", "marks: [I64]?")
    .replace("no: I32", "no: I64")
    .replace("times: I32?", "times: I64?")
)
WIDENED = {"tons", "crew", "seats", "draft", "marks"}
STAMPS = ["_row_created_at_version", "_row_last_updated_at_version"]
DOC = "base64:" + base64.b64encode(b"bill of lading").decode()


def ship(number):
    return {
        "imo": f"S{number:03}",
        "tons": None if number % 7 == 0 else 2_147_483_000 + number,
        "crew": number,
        "seats": 4_000_000_000 + number,
        "draft": number / 8,
        "marks": [number, None] if number % 2 else [],
        "flag": "blue and white",
        "built": "2020-01-02",
        "text": f"ship {number}",
        "vec": [float(number), 1.0, 0.0, 0.0],
        "doc": DOC if number % 2 else None,
    }


@pytest.fixture
def graph(tmp_path):
    with og.init(tmp_path / "g", SCHEMA, upkeep="off") as graph:
        for numbers in (range(1, 60), range(60, 100)):
            graph.load(
                [{"type": "Ship", "data": ship(number)} for number in numbers], mode="append"
            )
        graph.load(
            [
                {"type": "Port", "data": {"no": 7}},
                *({"edge": "Calls", "from": f"S{n:03}", "to": "7", "data": {"times": n}} for n in range(1, 9)),
            ],
            mode="append",
        )  # fmt: skip
        run(graph, 'delete Ship where imo = "S050"')
        run(graph, 'update Ship set { crew: 9 } where imo = "S003"')
        graph.ensure_indices()
        yield graph


def stamps(graph, key="node:Ship"):
    return sorted(table_of(graph, key).read(["id", *STAMPS], with_row_id=True).to_pylist(), key=lambda row: row["id"])  # fmt: skip


def covered(graph, key="node:Ship"):
    return {(one.column, one.kind): one.coverage for one in list_indexes(table_of(graph, key))}


def test_values_rows_stamps_indexes_and_blobs_stay(graph):
    before, rows, known, indexes = (
        nodes(graph, "Ship"),
        stamps(graph),
        graph.snapshot(),
        covered(graph),
    )
    ids = row_ids(table_of(graph, "node:Ship"))
    done = graph.schema.apply(WIDE)

    assert {(step.kind, step.type_name) for step in done.steps} == {
        ("widen_property", "Ship"), ("widen_property", "Port"), ("widen_property", "Calls"),
    }  # fmt: skip
    assert nodes(graph, "Ship") == before
    assert stamps(graph) == rows
    assert row_ids(table_of(graph, "node:Ship")) == ids
    assert covered(graph) == indexes
    assert set(indexes.values()) == {Coverage.INDEXED}
    assert {kind for _, kind in indexes} == {IndexKind.BTREE, IndexKind.FTS, IndexKind.VECTOR}
    types = {field.name: str(field.type) for field in table_of(graph, "node:Ship").schema}
    assert {name: types[name] for name in WIDENED} == {
        "tons": "int64", "crew": "uint64", "seats": "int64", "draft": "double",
        "marks": "list<item: int64>",
    }  # fmt: skip
    schema = table_of(graph, "node:Ship").schema
    assert {field.name for field in schema if not field.nullable} == {"id", "imo", "crew", "text"}
    assert graph.blobs.read("node", "Ship", "S001", "doc") == b"bill of lading"
    assert covered(graph, "edge:Calls")["times", IndexKind.BTREE] is Coverage.INDEXED
    assert drifted(graph) == []
    # No row is among the changes since.
    found = table_of(graph, "node:Ship").delta(known.tables["node:Ship"].table_version)
    assert found.inserted().read_all().num_rows == found.updated().read_all().num_rows == 0
    assert graph.diff(f"commit:{known.graph_commit_id}", "main").changes == ()


def test_a_past_state_reads_as_before_in_the_larger_type(graph):
    past = graph.snapshot().graph_commit_id
    text = "query q() { match { $s: Ship  $s.tons > 2147483090 } return { $s.imo, $s.tons, $s.draft } order { $s.imo } }"
    before = graph.query(text).to_arrow()
    graph.schema.apply(WIDE)
    assert graph.query(text).to_arrow().to_pylist() == before.to_pylist()
    old = graph.query(text, snapshot=past).to_arrow()
    assert old.to_pylist() == before.to_pylist()
    assert [str(kind) for kind in old.schema.types] == ["string", "int64", "double"]


TWO_HOPS = """query q($t: I64) {
  match { $s: Ship  $s calls $p  $o calls $p  $s.tons = $t }
  return { $s.imo, $s.tons, $o.crew, $o.draft } order { $o.crew }
}"""


def test_a_warm_handle_goes_on(graph):
    """What it has in memory is of the smaller type; rows change before and after."""
    with og.open(graph.uri) as warm:
        tons = 2_147_483_002
        before = warm.query(TWO_HOPS, {"t": tons}).rows
        assert len(before) == 8
        graph.schema.apply(WIDE)
        assert warm.query(TWO_HOPS, {"t": tons}).rows == before
        assert warm.query(TWO_HOPS, {"t": 1 << 40}).rows == []
        run(graph, 'update Ship set { tons: 1099511627776 } where imo = "S002"')
        assert warm.query(TWO_HOPS, {"t": tons}).rows == []
        found = warm.query(TWO_HOPS, {"t": 1 << 40}).rows
        assert found == [{**row, "s.tons": 1 << 40} for row in before]
        run(graph, 'update Ship set { draft: 0.1 } where imo = "S005"')
        assert min(row["o.draft"] for row in warm.query(TWO_HOPS, {"t": 1 << 40}).rows) == 0.1


@pytest.mark.parametrize("op", ["=", ">", "<", "!="])
def test_a_past_state_is_asked_for_values_that_its_column_cannot_hold(graph, op):
    past = graph.snapshot().graph_commit_id
    graph.schema.apply(WIDE)
    text = (
        f"query q() {{ match {{ $s: Ship  $s.tons {op} 5000000000 }} return {{ count($s) as n }} }}"
    )
    with_tons = sum(1 for row in nodes(graph, "Ship").values() if "tons" in row)
    assert with_tons == 84
    wanted = {"=": 0, ">": 0, "<": with_tons, "!=": with_tons}[op]
    assert graph.query(text, snapshot=past).rows == [{"n": wanted}]
    assert graph.query(text).rows == [{"n": wanted}]


def test_what_was_written_before_is_compared_and_reverted_afterwards(graph):
    first = f"commit:{graph.snapshot().graph_commit_id}"
    made = run(graph, 'update Ship set { tons: 5, draft: 0.5 } where imo = "S001"').commit
    graph.schema.apply(WIDE)
    (change,) = graph.diff(first, "main").changes
    assert (change.id, change.op) == ("S001", "update")
    graph.commits.revert(made.graph_commit_id)
    found = nodes(graph, "Ship")["S001"]
    assert (found["tons"], found["draft"]) == (2_147_483_001, 0.125)
    assert graph.diff(first, "main").changes == ()


def test_larger_values_are_written_and_found(graph):
    with pytest.raises(InputError, match=r"Ship\.tons"):
        graph.load([{"type": "Ship", "data": {**ship(1), "tons": 1 << 40}}])
    graph.schema.apply(WIDE)
    graph.load([{"type": "Ship", "data": {**ship(1), "tons": 1 << 40, "marks": [1 << 50]}}])
    graph.load([{"type": "Ship", "data": {"imo": "S002", "draft": 0.1}}], mode="patch")
    run(
        graph,
        'update Ship set { crew: $c } where imo = "S003"',
        "$c: U64",
        {"c": (1 << 64) - 1},
    )
    found = nodes(graph, "Ship")
    assert (found["S001"]["tons"], found["S001"]["marks"]) == (1 << 40, [1 << 50])
    assert (found["S002"]["draft"], found["S003"]["crew"]) == (0.1, (1 << 64) - 1)
    text = "query q($t: I64) { match { $s: Ship  $s.tons = $t } return { $s.imo } }"
    assert graph.query(text, {"t": 1 << 40}).to_arrow().to_pylist() == [{"s.imo": "S001"}]
    graph.optimize()
    assert graph.query(text, {"t": 1 << 40}).to_arrow().to_pylist() == [{"s.imo": "S001"}]
    assert nodes(graph, "Ship") == found


def test_ids_of_a_widened_key_stay(graph):
    graph.schema.apply(WIDE)
    graph.load(
        [
            {"type": "Port", "data": {"no": 7}},
            {"type": "Port", "data": {"no": 5_000_000_000}},
            {"edge": "Calls", "from": "S001", "to": 5_000_000_000},
        ]
    )
    assert sorted(nodes(graph, "Port")) == ["5000000000", "7"]


def test_a_branch_made_afterwards_merges(graph):
    graph.schema.apply(WIDE)
    graph.branches.create("b")
    run(graph, 'update Ship set { tons: 5000000000 } where imo = "S001"', branch="b")
    run(graph, 'update Ship set { tons: 6 } where imo = "S002"')
    assert graph.branches.merge("b").stats.updates == 1
    found = nodes(graph, "Ship")
    assert (found["S001"]["tons"], found["S002"]["tons"]) == (5_000_000_000, 6)


def test_widening_with_a_rename_a_drop_an_addition_and_a_rule(graph):
    before = nodes(graph, "Ship")
    graph.schema.apply(
        WIDE.replace("tons: I64? @index", 'weight: I64? @index @rename_from("tons")')
        .replace("  flag: String? @index\n", "  heft: String?\n  @range(weight, 0..)\n")
        .replace("draft: F64?", "draft: F64")
    )
    found = nodes(graph, "Ship")
    assert {key: row.get("weight") for key, row in found.items()} == {
        key: row.get("tons") for key, row in before.items()
    }
    assert all(row.get("heft") is None and "flag" not in row for row in found.values())
    assert coverage(table_of(graph, "node:Ship"), "weight", IndexKind.BTREE) is Coverage.INDEXED
    with pytest.raises((ConstraintError, InputError), match="@range"):
        graph.load([{"type": "Ship", "data": {"imo": "S001", "weight": -1}}], mode="patch")


def test_widening_beside_a_hard_drop(graph):
    before, rows = nodes(graph, "Ship"), stamps(graph)
    graph.schema.apply(WIDE.replace("  flag: String? @index\n", ""), allow_data_loss=True)
    found = nodes(graph, "Ship")
    assert found == {
        key: {n: v for n, v in row.items() if n != "flag"} for key, row in before.items()
    }
    assert stamps(graph) == rows
    assert covered(graph)["tons", IndexKind.BTREE] is Coverage.INDEXED
    assert covered(graph)["vec", IndexKind.VECTOR] is Coverage.INDEXED
    assert graph.blobs.read("node", "Ship", "S001", "doc") == b"bill of lading"


def test_an_empty_table_is_widened(tmp_path):
    with og.init(tmp_path / "g", "node A { k: String @key  x: I32 }") as graph:
        graph.schema.apply("node A { k: String @key  x: I64 }")
        graph.load([{"type": "A", "data": {"k": "a", "x": 1 << 40}}])
        assert nodes(graph, "A")["a"]["x"] == 1 << 40


def test_a_number_that_became_required_is_widened_though_deleted_rows_had_none(tmp_path):
    with og.init(tmp_path / "g", "node A { k: String @key  x: I32? }", upkeep="off") as graph:
        graph.load([{"type": "A", "data": {"k": str(n), "x": n or None}} for n in range(9)])
        run(graph, 'delete A where k = "0"')
        graph.schema.apply("node A { k: String @key  x: I32 }")
        graph.schema.apply("node A { k: String @key  x: I64 }")
        assert {key: row["x"] for key, row in nodes(graph, "A").items()} == {str(n): n for n in range(1, 9)}  # fmt: skip
        graph.optimize()
        assert len(nodes(graph, "A")) == 8
        with pytest.raises(InputError, match=r"A\.x"):
            graph.load([{"type": "A", "data": {"k": "z"}}])


def test_a_key_of_floats_is_not_widened(tmp_path):
    with (
        og.init(tmp_path / "g", "node A { k: F32 @key }") as graph,
        pytest.raises(UnsupportedMigration, match="ids of the nodes are made of it"),
    ):
        graph.schema.apply("node A { k: F64 @key }")


# ------------------------------------------------------------------ another embedding


OTHER = SCHEMA.replace("@embed(text)", "@embed(flag)")


def test_another_embedding_needs_consent(graph):
    before = state(graph)
    for attempt in (graph.schema.apply, lambda source: graph.schema.plan(source, check=True)):
        with pytest.raises(SchemaConflict, match=r"98 vectors of node:Ship\.vec") as caught:
            attempt(OTHER)
        assert caught.value.details["vectors"] == {"node:Ship.vec": 98}
    assert state(graph) == before


def test_another_embedding_sets_vectors_to_null_and_pending(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    before, known = nodes(graph, "Ship"), graph.snapshot()
    done = graph.schema.apply(OTHER, allow_data_loss=True)
    assert [step.kind for step in done.steps] == ["change_embed"]
    assert any("Ship.vec" in text for text in done.warnings)
    found = nodes(graph, "Ship")
    assert all(row.get("vec") is None for row in found.values())
    assert [{**row, "vec": 0} for row in found.values()] == [
        {**row, "vec": 0} for row in before.values()
    ]
    # Every row has changed, and a reader of changes sees it.
    delta = table_of(graph, "node:Ship").delta(known.tables["node:Ship"].table_version)
    assert (delta.inserted().read_all().num_rows, delta.updated().read_all().num_rows) == (0, 98)
    embedded = graph.embed()
    assert (embedded.filled, embedded.pending) == (98, 0)
    vectors = {tuple(row["vec"]) for row in nodes(graph, "Ship").values()}
    assert len(vectors) == 1  # all flags are the same text
    assert all(math.isfinite(number) for number in vectors.pop())


def test_another_embedding_without_vectors_needs_no_consent(tmp_path):
    first = "node A { k: String @key  t: String  v: Vector(2)? @embed(t) }"
    with og.init(tmp_path / "g", first) as graph:
        graph.load([{"type": "A", "data": {"k": "a", "t": "x"}}])
        if nodes(graph, "A")["a"].get("v") is None:
            graph.schema.apply(first.replace("@embed(t)", '@embed(t, model="m")'))
        assert graph.schema.catalog.nodes["A"].embeds["v"].model == "m"
