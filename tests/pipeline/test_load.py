"""Loads: many records, one commit, or nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import omnigraph as og
from omnigraph import failpoints
from omnigraph.commit.audit import read_audit
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ConstraintError,
    ExpectedVersionMismatch,
    InputError,
    KeyConflict,
    PreconditionFailed,
    ProviderError,
)
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage
from omnigraph.storage.tables.table import open_table
from tests.graphs import graph_of, person
from tests.opened import workspace_of
from tests.pipeline.load_helpers import load_gathered
from tests.stored import read_back

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  mail: String? @unique
  rank: enum(junior, senior)?
  @range(age, 0..150)
}
node Memo { text: String }
node Day { day: Date @key }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge On: Memo -> Day
"""


graph = graph_of(SCHEMA)


def knows(src, dst, **data):
    return {"edge": "Knows", "from": src, "to": dst, "data": data}


def people(graph, branch="main"):
    rows = read_back(graph, branch).nodes["Person"]
    return {name: row["age"] for name, row in rows.items()}


def edges(graph, branch="main"):
    return sorted((src, dst) for _, src, dst, _ in read_back(graph, branch).edges["Knows"])


def head(graph):
    return graph.snapshot().graph_commit_id


def test_records_of_several_types_are_one_commit(graph):
    result = graph.load([person("a", age=3), person("b"), knows("a", "b")], actor="ada")
    assert people(graph) == {"a": 3, "b": None}
    assert edges(graph) == [("a", "b")]
    assert result.total_rows == 3
    assert result.tables == [
        {"table_key": "edge:Knows", "rows_loaded": 1},
        {"table_key": "node:Person", "rows_loaded": 2},
    ]
    assert (result.engine, result.mode, result.branch) == ("local", "merge", "main")
    assert result.commit == graph.snapshot().commit
    assert (result.commit.actor_id, result.commit.operation) == ("ada", "load")
    assert len(graph.commits.list()) == 2
    json.dumps(result.to_json())


def test_sources_of_every_kind_are_one_commit(graph, tmp_path):
    plain = tmp_path / "a.jsonl"
    plain.write_text("// people\n\n" + json.dumps(person("a")) + "\n", "utf-8")
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(person("b")).encode()))
    data = json.dumps(person("c")).encode()
    graph.load([plain, str(packed), data, person("d"), knows("a", "d")])
    assert sorted(people(graph)) == ["a", "b", "c", "d"]
    assert len(graph.commits.list()) == 2


@pytest.mark.parametrize("nothing", [b"", [], ()])
def test_an_empty_load_makes_a_commit(graph, nothing):
    result = graph.load(nothing)
    assert result.total_rows == 0
    assert result.commit == graph.snapshot().commit
    assert len(graph.commits.list()) == 2


def test_merge_keeps_the_last_record_of_an_id(graph):
    result = graph.load([person("a", age=1), person("b", age=5), person("a", age=2)])
    assert people(graph) == {"a": 2, "b": 5}
    assert result.total_rows == 2
    graph.load([person("a", rank="senior")])
    row = read_back(graph).nodes["Person"]["a"]
    assert (row["age"], row["rank"]) == (None, "senior")


def test_merge_updates_keep_their_row_ids(graph):
    graph.load([person("a", age=1), person("b", age=2)])

    def row_ids():
        table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Person"]))
        found = table.read(["id"], with_row_id=True)
        return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))

    before = row_ids()
    graph.load([person("a", age=9), person("c")])
    after = row_ids()
    assert {name: after[name] for name in "ab"} == before


def test_append_is_strict(graph):
    graph.load([person("a", age=1)], mode="append")
    before = graph.snapshot()
    with pytest.raises(KeyConflict) as caught:
        graph.load([person("b"), person("a", age=2)], mode="append")
    assert caught.value.details == {"table_key": "node:Person", "entity_id": "a"}
    with pytest.raises(ConstraintError, match=r"line 2.*@unique.*'c'"):
        graph.load([person("c"), person("c")], mode="append")
    assert graph.snapshot() == before


def test_overwrite_replaces_the_touched_tables_only(graph):
    graph.load([person("a", age=1), {"type": "Memo", "data": {"text": "x"}}])
    graph.load([person("b", age=2)], mode="overwrite")
    assert people(graph) == {"b": 2}
    assert len(read_back(graph).nodes["Memo"]) == 1


def test_overwrite_must_not_strand_edges(graph):
    graph.load([person("a"), person("b"), knows("a", "b")])
    before = graph.snapshot()
    with pytest.raises(ConstraintError, match=r"'b'.*Person not found"):
        graph.load([person("a")], mode="overwrite")
    assert graph.snapshot() == before
    graph.load([person("a"), person("c"), knows("a", "c")], mode="overwrite")
    assert edges(graph) == [("a", "c")]


@pytest.mark.parametrize(
    ("records", "error", "words"),
    [
        ([person("a", age="x")], InputError, ["line 1", "age"]),
        ([person("a"), {"type": "Persn", "data": {}}], InputError, ["line 2", "Persn", "Person"]),
        ([person("a", age=300)], ConstraintError, ["line 1", "@range", "Person.age", "300"]),
        ([person("a", rank="boss")], ConstraintError, ["enum", "boss", "Person.rank", "junior"]),
        ([person("a", mail="m"), person("b", mail="m")], ConstraintError,
         ["@unique", "Person.mail", "m", "'a'", "'b'"]),
        ([person("a"), knows("a", "z")], ConstraintError, ["line 2", "dst", "z", "Person", "not found"]),
        ([person("a"), knows("a", "a"), knows("a", "a"), knows("a", "a")], ConstraintError,
         ["@card", "Knows", "'a'", "3", "2"]),
        ([person("a", id="b")], InputError, ["a", "b"]),
    ],
)  # fmt: skip
def test_a_refused_load_changes_nothing(graph, records, error, words):
    before = graph.snapshot()
    with pytest.raises(error) as caught:
        graph.load(records)
    for word in words:
        assert word in str(caught.value)
    assert graph.snapshot() == before
    graph.load([person("ok")])
    assert list(people(graph)) == ["ok"]


@pytest.mark.parametrize("values", [(-0.0, 0.0), (0.0, -0.0)])
def test_zero_is_named_without_a_sign_whichever_record_an_engine_takes_it_from(tmp_path, values):
    with og.init(tmp_path / "g", "node N { w: F64 @unique }") as graph:
        given = [{"type": "N", "data": {"w": value}} for value in values]
        with pytest.raises(ConstraintError, match=r"@unique N\.w: 0\.0 is held"):
            graph.load(given, mode="append")


def test_rules_look_at_committed_rows(graph):
    graph.load([person("a", mail="m"), person("b"), knows("a", "b"), knows("a", "a")])
    with pytest.raises(ConstraintError, match="@unique"):
        graph.load([person("c", mail="m")])
    with pytest.raises(ConstraintError, match="@card"):
        graph.load([knows("a", "b")])
    graph.load([person("a"), person("c", mail="m")])
    graph.load([knows("c", "a")], mode="append")


def test_the_report_lists_twenty_and_the_total(graph, tmp_path):
    lines = [json.dumps(person(f"p{n}", age="old" if n % 2 else 1)) for n in range(60)]
    path = tmp_path / "people.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    rejects = tmp_path / "rejects.jsonl"
    with pytest.raises(InputError, match=r"people\.jsonl, line 2: .*29 more") as caught:
        graph.load(path, rejects=rejects)
    told = caught.value.body()["bad_records"]
    assert told["total"] == 30
    assert [entry["line"] for entry in told["first"]] == list(range(2, 42, 2))
    written = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
    assert [entry["line"] for entry in written] == list(range(2, 62, 2))
    assert all(entry["source"].endswith("people.jsonl") for entry in written)


def test_broken_rules_are_counted_by_record(graph):
    records = [person(f"p{n}", age=900, rank="boss") for n in range(50)]
    with pytest.raises(ConstraintError, match="49 more") as caught:
        graph.load(records)
    told = caught.value.details["bad_records"]
    assert told["total"] == 50
    assert [entry["line"] for entry in told["first"]] == list(range(1, 21))


def test_keyless_rows_and_edges_get_fresh_ids(graph):
    graph.load([{"type": "Memo", "data": {"text": "x"}}, {"type": "Memo", "data": {"text": "x"}}])
    ids = list(read_back(graph).nodes["Memo"])
    assert len(set(ids)) == 2
    assert all(len(one) == 26 for one in ids)
    graph.load([{"type": "Memo", "data": {"id": "m", "text": "y"}}])
    assert read_back(graph).nodes["Memo"]["m"]["text"] == "y"


def test_edges_follow_a_node_whose_id_is_spelled_as_its_value(graph):
    graph.load(
        [
            {"edge": "On", "from": "m", "to": "2024-01-01"},
            {"type": "Memo", "data": {"id": "m", "text": "x"}},
            {"type": "Day", "data": {"id": "2024-01-01", "day": "2024-01-01"}},
        ]
    )
    plain = read_back(graph)
    assert list(plain.nodes["Day"]) == ["19723"]
    assert [(src, dst) for _, src, dst, _ in plain.edges["On"]] == [("m", "19723")]


# ------------------------------------------------------------------ branches and races


def test_a_missing_branch_is_an_error_and_from_makes_it(graph):
    with pytest.raises(BranchNotFound):
        graph.load([person("a")], branch="x")
    result = graph.load([person("a")], branch="x", from_branch="main")
    assert (result.branch_created, result.base_branch) == (True, "main")
    assert people(graph, "x") == {"a": None}
    assert people(graph) == {}
    again = graph.load([person("b")], branch="x", from_branch="main")
    assert again.branch_created is False
    assert sorted(people(graph, "x")) == ["a", "b"]


def test_a_refused_load_takes_its_new_branch_back(graph):
    with pytest.raises(InputError):
        graph.load([person("a", age="x")], branch="x", from_branch="main")
    assert graph.branches.list() == ["main"]


def test_if_commit(graph):
    first = head(graph)
    graph.load([person("a")], if_commit=first)
    with pytest.raises(PreconditionFailed) as caught:
        graph.load([person("b")], if_commit=first)
    assert caught.value.details == {"branch": "main", "expected": first, "actual": head(graph)}
    assert list(people(graph)) == ["a"]


@pytest.fixture
def rival(graph):
    """Another writer that gets in between a load's validation and its commit, once."""

    def overtake(_):
        with og.open(graph.uri) as other:
            other.mutate('query q() { insert Person { name: "rival" } }')

    with failpoints.arm("load.before_locks", overtake, times=1):
        yield


@pytest.mark.usefixtures("rival")
def test_a_lost_race_is_handed_over_where_that_is_asked_for(graph):
    with pytest.raises(ExpectedVersionMismatch) as caught:
        graph.load([person("a")], retries=0)
    assert caught.value.details == {"table_key": "node:Person", "expected": 1, "actual": 2}
    assert list(people(graph)) == ["rival"]


@pytest.mark.usefixtures("rival")
@pytest.mark.parametrize("options", [{}, {"retries": 1}])
def test_a_lost_race_is_run_again(graph, options):
    graph.load([person("a")], **options)
    assert sorted(people(graph)) == ["a", "rival"]


@pytest.mark.usefixtures("rival")
def test_a_lost_race_under_a_precondition_says_so(graph):
    with pytest.raises(PreconditionFailed):
        graph.load([person("a")], if_commit=head(graph), retries=3)
    assert list(people(graph)) == ["rival"]


class TestWhatWasWrittenBefore:
    """A load that lost a race keeps the files it wrote, as long as they are right."""

    MANY = 10_500  # more than are upserted by Lance itself

    def overtaken(self, graph, body, load):
        """The files there are when the load is overtaken, and after it is through."""
        files = []

        def overtake(_):
            with og.open(graph.uri) as other:
                other.mutate(f"query q() {{ {body} }}")
            files.append(self.files(graph))

        with failpoints.arm("load.before_locks", overtake, times=1):
            load()
        (before,) = files
        return before, self.files(graph)

    def files(self, graph):
        place = Path(graph.uri) / graph.snapshot().tables["node:Person"].location / "data"
        return {path.name for path in place.iterdir()}

    def many(self, age):
        return pa.table({"name": [f"p{n}" for n in range(self.MANY)], "age": [age] * self.MANY})

    @pytest.mark.parametrize("mode", ["append", "overwrite", "merge"])
    def test_new_rows_are_written_once(self, graph, mode):
        before, after = self.overtaken(
            graph,
            'insert Person { name: "rival" }',
            lambda: graph.load_nodes("Person", self.many(1), mode=mode),
        )
        assert after == before
        rows = people(graph)
        assert len(rows) == self.MANY + (mode != "overwrite")
        assert rows["p7"] == 1

    def test_images_are_written_once_while_the_same_rows_are_replaced(self, graph):
        graph.load_nodes("Person", self.many(1).slice(0, 5_000))
        row_ids = self.row_ids(graph)
        before, after = self.overtaken(
            graph,
            'update Person set { age: 50 } where name = "p3" insert Person { name: "rival" }',
            lambda: graph.load_nodes("Person", self.many(2)),
        )
        assert after == before
        rows = people(graph)
        assert {age for name, age in rows.items() if name != "rival"} == {2}
        assert len(rows) == self.MANY + 1
        assert row_ids.items() <= self.row_ids(graph).items()

    @pytest.mark.parametrize(
        "body",
        ['delete Person where name = "p3"', f'insert Person {{ name: "p{MANY - 1}", age: 50 }}'],
        ids=["one is gone", "one has come"],
    )
    def test_images_are_written_anew_when_other_rows_are_there(self, graph, body):
        graph.load_nodes("Person", self.many(1).slice(0, 5_000))
        before, after = self.overtaken(
            graph, body, lambda: graph.load_nodes("Person", self.many(2))
        )
        assert after > before
        rows = people(graph)
        assert len(rows) == self.MANY
        assert set(rows.values()) == {2}

    def row_ids(self, graph):
        table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Person"]))
        rows = table.read(["id"], with_row_id=True)
        return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))


@pytest.mark.parametrize("mode", ["replace", None, ""])
def test_unknown_modes(graph, mode):
    with pytest.raises(BadRequest, match="mode"):
        graph.load([person("a")], mode=mode)


def test_misspelled_options_are_no_options(graph):
    with pytest.raises(TypeError, match="mod"):
        graph.load([person("a")], mod="append")
    assert people(graph) == {}


def test_a_read_only_handle_cannot_load(graph):
    with og.open(graph.uri, mode="r") as reader, pytest.raises(BadRequest, match="read-only"):
        reader.load([person("a")])


# ------------------------------------------------------------------ indexes, vectors, crashes


def test_a_large_load_builds_indexes_in_its_own_commit(graph, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "10")
    result = graph.load([person(f"p{n}", age=n) for n in range(12)])
    assert ("node:Person", "id") in result.indexes_built
    assert len(graph.commits.list()) == 2
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Person"]))
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.INDEXED
    assert coverage(table, "mail", IndexKind.BTREE) is Coverage.INDEXED
    graph.load([person(f"p{n}", age=1) for n in range(12)], mode="overwrite")
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables["node:Person"]))
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.INDEXED


def test_vectors_are_filled_from_their_text(tmp_path, monkeypatch):
    schema = 'node Note { slug: String @key  body: String?  vec: Vector(3) @embed("body") }'
    records = [
        {"type": "Note", "data": {"slug": "a", "body": "tide"}},
        {"type": "Note", "data": {"slug": "b", "body": "x", "vec": [1, 0, 0]}},
    ]
    with og.init(tmp_path / "notes", schema) as graph:
        with pytest.raises(ProviderError, match="embedder=…"):
            graph.load(records)
        assert len(graph.commits.list()) == 1
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        graph.load(records)
        notes = read_back(graph).nodes["Note"]
        assert notes["b"]["vec"] == [1.0, 0.0, 0.0]
        assert sum(value * value for value in notes["a"]["vec"]) == pytest.approx(1.0, abs=1e-6)


def test_nullable_vectors_without_a_provider_are_counted(tmp_path):
    schema = 'node Note { slug: String @key  body: String  vec: Vector(3)? @embed("body") }'
    with og.init(tmp_path / "notes", schema) as graph:
        result = graph.load([{"type": "Note", "data": {"slug": "a", "body": "tide"}}])
        assert result.embeddings_pending == 1
        assert read_back(graph).nodes["Note"]["a"]["vec"] is None


def test_blobs_arrive_as_bytes(tmp_path):
    schema = "node Scan { slug: String @key  image: Blob? }"
    with og.init(tmp_path / "scans", schema) as graph:
        graph.load(
            [
                {"type": "Scan", "data": {"slug": "a", "image": "base64:SGVsbG8="}},
                {"type": "Scan", "data": {"slug": "b", "image": "base64:"}},
                {"type": "Scan", "data": {"slug": "c"}},
            ]
        )
        rows = read_back(graph).nodes["Scan"]
        assert {slug: row["image"] for slug, row in rows.items()} == {
            "a": b"Hello",
            "b": b"",
            "c": None,
        }


@pytest.mark.parametrize("mode", ["merge", "append", "overwrite"])
@pytest.mark.parametrize(
    ("moment", "lands"),
    [
        ("before_phase_a", False),
        ("before_phase_b", False),
        ("after_table_commit", False),
        ("after_phase_b_before_phase_c", True),
        ("after_phase_c_before_phase_d", True),
    ],
)
def test_an_interrupted_load_is_whole_or_not_there(graph, mode, moment, lands):
    graph.load([person("old")])
    new = [person("old", age=7), person("new")] if mode != "append" else [person("new")]
    new.append(knows("new", "new"))
    with (
        failpoints.arm(f"load.{moment}", RuntimeError("stop"), times=1),
        pytest.raises(RuntimeError),
    ):
        graph.load(new, mode=mode)
    with og.open(graph.uri) as reopened:
        after = {"old": None if mode == "append" else 7, "new": None}
        assert people(reopened) == (after if lands else {"old": None})
        assert edges(reopened) == ([("new", "new")] if lands else [])
        for pin in reopened.snapshot().tables.values():
            assert open_table(workspace_of(reopened).pinned(pin)).is_head()
        expected = 0 if moment == "before_phase_a" else 1
        assert len(read_audit(workspace_of(reopened))) == expected
        reopened.load([person("next")])
        assert "next" in people(reopened)


# ------------------------------------------------------------------ frames


def test_frames_of_nodes_and_edges(graph):
    table = pa.table({"name": ["a", "b"], "age": pa.array([1, None], pa.int64())})
    result = graph.load_nodes("Person", table, mode="append")
    assert people(graph) == {"a": 1, "b": None}
    assert result.total_rows == 2
    graph.load_edges("knows", pa.table({"x": ["a"], "y": ["b"]}), "x", "y")
    assert edges(graph) == [("a", "b")]


def test_files_of_frames(graph, tmp_path):
    parquet.write_table(pa.table({"name": ["a", "b"]}), tmp_path / "p.parquet")
    (tmp_path / "k.csv").write_text("from,to,since\na,b,2020-01-01\n", "utf-8")
    graph.load_nodes("Person", tmp_path / "p.parquet")
    graph.load_edges("Knows", str(tmp_path / "k.csv"))
    assert edges(graph) == [("a", "b")]


def test_a_bad_row_of_a_frame_is_named(graph):
    with pytest.raises(ConstraintError, match=r"row 2: .*@range"):
        graph.load_nodes("Person", pa.table({"name": ["a", "b"], "age": [1, 200]}))
    with pytest.raises(InputError, match="agee"):
        graph.load_nodes("Person", pa.table({"name": ["a"], "agee": [1]}))
    with pytest.raises(BadRequest, match="Person"):
        graph.load_nodes("Persn", pa.table({"name": ["a"]}))
    assert people(graph) == {}


def test_json_and_frames_are_one_commit(graph):
    def gather(inputs):
        inputs.json([knows("a", "b")])
        inputs.nodes("Person", pa.table({"name": ["a", "b"]}))

    load_gathered(graph, gather)
    assert edges(graph) == [("a", "b")]
    assert len(graph.commits.list()) == 2
