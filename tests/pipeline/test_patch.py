"""Patch loads: what a record leaves out stays, whatever the input and the size."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import ConstraintError, InputError
from omnigraph.pipeline.formats import json_lines
from omnigraph.pipeline.formats.typed_batch import GIVEN, given_masks
from omnigraph.pipeline.local import patched_rows
from omnigraph.pipeline.local.patched_rows import PatchSizes, complete_here, divide, hash_texts
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.read_helpers import block_of
from tests.stored import read_back

SCHEMA = """
node Buoy { code: String @key  colour: String  depth: F64?  lamp: String?  seen: DateTime? }
node Note { text: String  day: I32? }
edge Near: Buoy -> Buoy { metres: I32?  note: String? }
"""
BUOYS = [
    {"type": "Buoy", "data": {"code": "a", "colour": "red", "depth": 1.5, "lamp": "on"}},
    {"type": "Buoy", "data": {"code": "b", "colour": "green", "seen": "2024-02-29T00:00:00Z"}},
    {"edge": "Near", "from": "a", "to": "b", "data": {"id": "e", "metres": 5, "note": "n"}},
]


graph = graph_of(SCHEMA, BUOYS)


def buoys(graph, branch="main"):
    return read_back(graph, branch).nodes["Buoy"]


FRAME = {"code": ["a", "b"], "depth": [2.5, None], "lamp": [None, "off"]}


def of_rows(graph, tmp_path):
    return pa.table(FRAME)


def of_pandas(graph, tmp_path):
    return pd.DataFrame(FRAME)


def of_parquet(graph, tmp_path):
    pq.write_table(pa.table(FRAME), tmp_path / "buoys.parquet")
    return tmp_path / "buoys.parquet"


def of_csv(graph, tmp_path):
    (tmp_path / "buoys.csv").write_text("code,depth,lamp\na,2.5,\nb,,off\n")
    return tmp_path / "buoys.csv"


@pytest.mark.parametrize("given", [of_rows, of_pandas, of_parquet, of_csv])
def test_every_column_of_a_frame_is_given_and_no_other(graph, tmp_path, given):
    result = graph.load_nodes("Buoy", given(graph, tmp_path), mode="patch")
    assert result.tables == [{"table_key": "node:Buoy", "rows_loaded": 2}]
    stored = buoys(graph)
    assert stored["a"] | {"seen": 0} == {
        "code": "a", "colour": "red", "depth": 2.5, "lamp": None, "seen": 0,
    }  # fmt: skip
    assert stored["b"]["colour"] == "green"
    assert stored["b"]["lamp"] == "off"
    assert stored["b"]["seen"] is not None


def test_frames_of_edges_may_leave_the_ends_out(graph):
    graph.load_edges("Near", pa.table({"id": ["e"], "metres": [9]}), mode="patch")
    assert read_back(graph).edges["Near"] == [("e", "a", "b", {"metres": 9, "note": "n"})]
    with pytest.raises(InputError, match='row 2: Near needs "from"'):
        graph.load_edges("Near", pa.table({"id": ["e", "f"], "metres": [9, 1]}), mode="patch")


def test_a_null_end_that_is_written_is_refused(graph):
    for record in ({"edge": "Near", "from": None, "data": {"id": "e"}},):
        with pytest.raises(InputError, match='needs "from"'):
            graph.load([record], mode="patch")


def test_records_without_an_id_are_new_rows_that_must_be_whole(graph):
    graph.load([{"type": "Note", "data": {"text": "x"}}] * 2, mode="patch")
    assert len(read_back(graph).nodes["Note"]) == 2
    with pytest.raises(InputError, match=r"line 1: Note.text"):
        graph.load([{"type": "Note", "data": {"day": 1}}], mode="patch")


def test_a_node_with_a_key_is_found_by_its_id_too(graph):
    graph.load(
        [
            {"type": "Buoy", "data": {"id": "a", "lamp": "off"}},
            {"type": "Buoy", "data": {"code": "a", "depth": 3.0}},
        ],
        mode="patch",
    )
    stored = buoys(graph)
    assert set(stored) == {"a", "b"}
    assert [stored["a"][name] for name in ("code", "lamp", "depth")] == ["a", "off", 3.0]
    with pytest.raises(InputError, match=r"code.*required"):
        graph.load([{"type": "Buoy", "data": {"id": "new", "colour": "red"}}], mode="patch")
    with pytest.raises(InputError, match="a key cannot be null"):
        graph.load([{"type": "Buoy", "data": {"id": "a", "code": None}}], mode="patch")
    with pytest.raises(InputError, match="leave the id out"):
        graph.load([{"type": "Buoy", "data": {"id": "a", "code": "b"}}], mode="patch")
    assert buoys(graph) == stored


def test_patches_of_many_parts_are_those_of_one(graph, tmp_path, monkeypatch):
    """Parts, and chunks within them, are a matter of memory alone."""
    random = np.random.default_rng(7)
    codes = random.integers(0, 400, 2_000)
    fields = ["colour", "depth", "lamp"]
    records, expected = [], {code: dict(row) for code, row in buoys(graph).items()}
    for at, number in enumerate(codes.tolist()):
        name = fields[at % 3]
        value = {"colour": f"c{at}", "depth": at / 2, "lamp": None if at % 5 else f"l{at}"}[name]
        code = f"k{number}"
        first = {} if code in expected else {"colour": "new"}
        row = expected.setdefault(code, dict.fromkeys(("depth", "lamp", "seen")) | {"code": code})
        row |= first | {name: value}
        records.append({"type": "Buoy", "data": {"code": code, **first, name: value}})
    sizes = PatchSizes(part_bytes=20_000, first_ids=5, ids=16)
    monkeypatch.setattr(complete_here, "__kwdefaults__", {"sizes": sizes})
    for half in (records[:1_000], records[1_000:]):
        graph.load(half, mode="patch")
    assert buoys(graph) == expected


def test_few_wide_rows_are_in_memory_at_a_time(tmp_path, monkeypatch):
    """Narrow records change rows that are a thousand times as wide, of which few are read at once."""
    sizes = PatchSizes(stored_bytes=100_000, first_ids=4, ids=64)
    read, real = [], patched_rows._stored

    def noted(*asked):
        stored = real(*asked)
        read.append(stored.rows.nbytes)
        return stored

    with og.init(
        str(tmp_path / "graph"), "node Doc { k: String @key  text: String  n: I32? }"
    ) as graph:
        rows = [{"k": f"{at:03}", "text": "x" * (10 if at < 150 else 20_000)} for at in range(300)]
        graph.load([{"type": "Doc", "data": row} for row in rows])
        monkeypatch.setattr(complete_here, "__kwdefaults__", {"sizes": sizes})
        monkeypatch.setattr(patched_rows, "_stored", noted)
        graph.load([{"type": "Doc", "data": {"k": row["k"], "n": 7}} for row in rows], mode="patch")
        after = read_back(graph, "main").nodes["Doc"]
    assert after == {row["k"]: {**row, "n": 7} for row in rows}
    # The first wide rows come with the last narrow ones, before their width is known.
    assert sorted(read)[-2] <= 2 * sizes.stored_bytes


def test_the_part_of_an_id_depends_on_its_text_alone():
    ids = pa.array([f"{'x' * (at % 7)}{at}" for at in range(500)] + ["", "é"])
    batch = pa.RecordBatch.from_pydict({"id": ids})
    whole = {text: part for part, rows in divide(batch, 7) for text in rows["id"].to_pylist()}
    sliced = pa.RecordBatch.from_pydict({"id": ids.slice(100, 50)})
    for part, rows in divide(sliced, 7):
        assert all(whole[text] == part for text in rows["id"].to_pylist())
    assert len(set(hash_texts(ids).tolist())) == len(ids)
    assert len(set(whole.values())) == 7


WIDE = og.parse_schema(
    "node W { " + "  ".join(f"p{at}: I32?" for at in range(70)) + "  data: String?  s: String? }"
).catalog


def wide(**data):
    return {"type": "W", "data": data}


@pytest.mark.parametrize("by_columns", [True, False])
def test_given_is_what_the_record_has(by_columns):
    """Both readers agree, also on texts that look like keys, and beyond 64 properties."""
    records = [
        wide(p0=1, p69=None),
        wide(p68=2, s='"p1":null'),
        wide(s="null", p1=None),
        wide(data=None, p2=3),
        '{"type":"W","data":{"\\u0070\\u0033":null,"p4" :  null}}',
        '{"type":"W","data":null}',
        {"type": "W"},
    ] * 40
    wanted = [
        {"p0", "p69"}, {"p68", "s"}, {"s", "p1"}, {"data", "p2"}, {"p3", "p4"}, set(), set(),
    ] * 40  # fmt: skip
    parsed = json_lines.read_block(WIDE, block_of(*records), by_columns=by_columns, patch=True)
    (typed,) = parsed.batches
    masks = given_masks(WIDE.nodes["W"], typed.batch.column(GIVEN))
    found = [{name for name in masks if masks[name][row]} for row in range(len(records))]
    assert found == wanted
    assert parsed.bad.num_rows == 0


def test_a_patch_that_lost_a_race_is_applied_to_what_won(graph):
    """The rows are made again of what is stored then; the records are not read again."""

    def rival(_point):
        with og.open(graph.uri) as other:
            other.load([{"type": "Buoy", "data": {"code": "a", "depth": 9.0}}], mode="patch")

    with failpoints.arm("load.before_locks", rival, times=1):
        result = graph.load([{"type": "Buoy", "data": {"code": "a", "lamp": "off"}}], mode="patch")
    assert result.total_rows == 1
    assert buoys(graph)["a"] | {"seen": 0} == {
        "code": "a", "colour": "red", "depth": 9.0, "lamp": "off", "seen": 0,
    }  # fmt: skip


def test_a_patch_on_a_branch_leaves_others_alone(graph):
    patch = [{"type": "Buoy", "data": {"code": "a", "colour": "blue"}}]
    graph.load(patch, mode="patch", branch="b", from_branch="main")
    graph.load([{"type": "Buoy", "data": {"code": "a", "depth": 7}}], mode="patch", branch="b")
    assert buoys(graph, "b")["a"]["colour"] == "blue"
    assert buoys(graph, "b")["a"]["depth"] == 7
    assert buoys(graph)["a"]["colour"] == "red"


def test_rows_keep_their_row_ids(graph):
    """A patch is an update: whatever refers to rows by their row ids stays right."""

    def row_ids():
        table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Buoy"]))
        found = table.read(["id"], with_row_id=True).to_pylist()
        return {row["id"]: row["_rowid"] for row in found}

    before = row_ids()
    records = [{"code": "b", "depth": 3}, {"code": "c", "colour": "new"}]
    graph.load([{"type": "Buoy", "data": data} for data in records], mode="patch")
    after = row_ids()
    assert before == {code: row_id for code, row_id in after.items() if code != "c"}


def test_blobs_that_are_not_given_keep_their_bytes(tmp_path):
    schema = "node Doc { name: String @key  body: Blob?  title: String? }"
    big = bytes(range(256)) * 1_000
    with og.init(tmp_path / "g", schema) as graph:
        frame = pa.table({"name": ["big", "small", "none"], "body": [big, b"x", None]})
        graph.load_nodes("Doc", frame)
        records = [
            {"type": "Doc", "data": {"name": name, "title": "t"}} for name in ("big", "none")
        ]
        records.append({"type": "Doc", "data": {"name": "small", "body": "base64:eQ=="}})
        graph.load(records, mode="patch")
        stored = read_back(graph).nodes["Doc"]
        assert stored["big"] == {"name": "big", "body": big, "title": "t"}
        assert stored["small"] == {"name": "small", "body": b"y", "title": None}
        assert stored["none"] == {"name": "none", "body": None, "title": "t"}


class Counting:
    """An embedder that notes what it is asked."""

    model = "counting"

    def __init__(self):
        self.texts = []

    def embed(self, texts, dimension):
        self.texts += texts
        return [[float(len(text))] * dimension for text in texts]


def test_a_vector_follows_its_text(tmp_path):
    embedder = Counting()
    schema = "node Doc { name: String @key  body: String?  vec: Vector(2)? @embed(body)  n: I32? }"
    with og.init(tmp_path / "g", schema, embedder=embedder) as graph:
        names = ["same", "text", "both", "null", "later"]
        frame = pa.table({"name": names, "body": ["abc"] * 5, "vec": [[7.0, 7.0]] * 5})
        graph.load_nodes("Doc", frame)
        assert embedder.texts == []
        patches = [
            {"name": "same", "n": 1},
            {"name": "same", "body": "abc"},
            {"name": "text", "body": "abcd"},
            {"name": "both", "body": "abcde", "vec": [1.0, 2.0]},
            {"name": "null", "body": None},
            {"name": "later", "vec": [3.0, 3.0]},
            {"name": "later", "body": "abcdef"},
        ]
        graph.load([{"type": "Doc", "data": data} for data in patches], mode="patch")
        stored = read_back(graph).nodes["Doc"]
    assert sorted(embedder.texts) == ["abcd", "abcdef"]
    assert {name: row["vec"] for name, row in stored.items()} == {
        "same": [7, 7], "text": [4, 4], "both": [1, 2], "null": None, "later": [6, 6],
    }  # fmt: skip


def test_the_row_that_is_made_is_judged(tmp_path):
    schema = """
    node P { k: String @key  kind: enum(a, b)  n: I32?  mail: String? @unique  @range(n, 0..9) }
    """
    with og.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "P", "data": {"k": "x", "kind": "a", "mail": "m"}}])

        def patch(*rows):
            return graph.load([{"type": "P", "data": row} for row in rows], mode="patch")

        # A value that a later record replaces is never judged.
        patch({"k": "x", "n": 77}, {"k": "x", "kind": "z"}, {"k": "x", "kind": "b", "n": 7})
        assert read_back(graph).nodes["P"]["x"]["kind"] == "b"
        # The record that gave the value is named, not the last one of the row.
        with pytest.raises(ConstraintError, match=r"line 1: P.n is 77.*@range"):
            patch({"k": "x", "n": 77}, {"k": "x", "kind": "a"})
        with pytest.raises(ConstraintError, match=r"@unique P.mail"):
            patch({"k": "y", "kind": "a"}, {"k": "y", "mail": "m"})
        with pytest.raises(InputError, match=r"line 2: P.kind") as caught:
            patch({"k": "z", "n": 1}, {"k": "z", "n": 2})
        assert json.loads(json.dumps(caught.value.body()))["bad_records"]["total"] == 1
        assert set(read_back(graph).nodes["P"]) == {"x"}
