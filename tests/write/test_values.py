"""Values of every type through a mutation: literals, parameters, now(), vectors and blobs."""

from __future__ import annotations

import base64
import time

import pytest

from omnigraph import failpoints
from omnigraph.embeddings.offline import mock_embedding
from omnigraph.errors import (
    ConstraintError,
    InputError,
    ParamError,
    ProviderError,
    TypeCheckError,
)
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.graphs import graph_of
from tests.stored import read_back
from tests.write.writing import counts, nodes, run, state

SCHEMA = """
node All {
  k: String @key
  text: String?
  kind: enum(red, green)?
  flag: Bool?
  i32: I32?
  i64: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  at: DateTime?
  list: [I32]?
  words: [String]?
  vec: Vector(2)?
  blob: Blob?
}
"""
KINDS = {
    "text": "String", "kind": "String", "flag": "Bool", "i32": "I32", "i64": "I64", "u32": "U32",
    "u64": "U64", "f32": "F32", "f64": "F64", "day": "Date", "at": "DateTime", "list": "[I32]",
    "words": "[String]", "vec": "Vector(2)", "blob": "Blob",
}  # fmt: skip


graph = graph_of(SCHEMA)


def put(graph, given, declared=None):
    """Insert one row whose properties all come from parameters of their own type."""
    kinds = {**KINDS, **(declared or {})}
    params = ", ".join(f"${name}: {kinds[name]}?" for name in given)
    body = ", ".join(f"{name}: ${name}" for name in given)
    return run(graph, f'insert All {{ k: "x", {body} }}', params, given)


def stored(graph, row_id="x"):
    return nodes(graph, "All")[row_id]


EXTREMES = [
    {"text": "", "kind": "red", "flag": False, "i32": -(2**31), "i64": -(2**63), "u32": 0, "u64": 0,
     "f32": -1.5, "f64": 5e-324, "list": [], "words": [], "vec": [0.0, -1.0]},
    {"text": "日本\x00\n", "kind": "green", "flag": True, "i32": 2**31 - 1, "i64": 2**63 - 1,
     "u32": 2**32 - 1, "u64": 2**64 - 1, "f64": 1.7976931348623157e308, "list": [1, -1],
     "words": ["", "ß"]},
]  # fmt: skip


class TestParameters:
    @pytest.mark.parametrize("given", EXTREMES, ids=["low", "high"])
    def test_the_ends_of_every_range_are_kept(self, graph, given):
        put(graph, given)
        assert stored(graph) == {"k": "x", **given}

    def test_integers_may_come_as_digits(self, graph):
        put(graph, {"u64": str(2**64 - 1), "i64": "-9223372036854775808", "i32": "+7"})
        assert stored(graph) == {"k": "x", "u64": 2**64 - 1, "i64": -(2**63), "i32": 7}

    def test_instants_before_1970_and_with_an_offset(self, graph):
        put(graph, {"day": "1969-12-31", "at": "1970-01-01T00:30:00.0019+01:00"})
        assert stored(graph) == {"k": "x", "day": -1, "at": -1_799_999}
        run(graph, 'update All set { flag: true } where at < datetime("1970-01-01")')
        run(graph, 'update All set { i32: 1 } where day = date("1969-12-31")')
        assert stored(graph)["flag"] is True
        assert stored(graph)["i32"] == 1

    def test_null_is_the_absence_of_a_value(self, graph):
        put(graph, dict.fromkeys(KINDS))
        assert stored(graph) == {"k": "x"}
        run(graph, 'update All set { text: "t" } where k = "x"')
        run(graph, 'update All set { text: $n } where k = "x"', "$n: String?", {"n": None})
        assert stored(graph) == {"k": "x"}

    def test_a_null_condition_matches_nothing(self, graph):
        put(graph, {"i32": 1})
        before = state(graph)
        for op in ("=", "!=", "<", ">="):
            result = run(graph, f"update All set {{ flag: true }} where i32 {op} $n", "$n: I32?")
            assert (counts(result), result.commit) == ((0, 0), None)
            result = run(graph, f"delete All where i32 {op} $n", "$n: I32?")
            assert (counts(result), result.commit) == ((0, 0), None)
        assert state(graph) == before

    def test_null_into_a_required_property_is_named(self, tmp_path):
        with init(tmp_path / "r", "node R { k: String @key  need: I32 }") as graph:
            with pytest.raises(ConstraintError, match="need"):
                run(graph, 'insert R { k: "a", need: $n }', "$n: I32?")
            run(graph, 'insert R { k: "a", need: 1 }')
            with pytest.raises(ConstraintError, match="need"):
                run(graph, 'update R set { need: $n } where k = "a"', "$n: I32?")
            assert nodes(graph, "R") == {"a": {"k": "a", "need": 1}}

    @pytest.mark.parametrize(
        ("name", "declared", "value"),
        [
            ("i32", "I64", 2**31), ("i64", "U64", 2**63), ("u32", "I64", -1), ("u64", "I64", -1),
            ("u32", "U64", 2**32), ("f32", "F64", 1e39), ("list", "[I64]", [1, 2**31]),
        ],
    )  # fmt: skip
    def test_what_does_not_fit_is_quoted(self, graph, name, declared, value):
        before = state(graph)
        with pytest.raises(ConstraintError) as caught:
            put(graph, {name: value}, {name: declared})
        assert f"`{name}`" in str(caught.value)
        shown = value[-1] if isinstance(value, list) else value
        assert str(shown) in str(caught.value)
        assert state(graph) == before

    def test_integers_become_floats_and_floats_no_integers(self, graph):
        put(graph, {"f32": 3, "f64": -4}, {"f32": "I32", "f64": "U64"} | {"f64": "I64"})
        assert stored(graph) == {"k": "x", "f32": 3.0, "f64": -4.0}
        with pytest.raises(TypeCheckError, match="T7"):
            put(graph, {"i32": 1.0}, {"i32": "F64"})

    def test_no_number_is_no_number(self, graph):
        for value in (float("nan"), float("inf"), -float("inf")):
            with pytest.raises((ParamError, ConstraintError)):
                put(graph, {"f64": value})
        assert nodes(graph, "All") == {}

    def test_an_enum_value_that_is_not_allowed(self, graph):
        with pytest.raises(ConstraintError, match="enum") as caught:
            put(graph, {"kind": "blue"})
        assert "'blue'" in str(caught.value)
        assert nodes(graph, "All") == {}


class TestLiterals:
    def test_literals_of_every_kind(self, graph):
        run(graph, 'insert All { k: "x", text: "\\"q\\"\\n", kind: "red", flag: true, i32: -1, '
                   'u64: 9223372036854775807, f32: 0.5, f64: 2, day: date("0001-01-01"), '
                   'at: datetime("9999-12-31T23:59:59.999Z"), list: [1, 2], words: ["a"], '
                   "vec: [1, 2.5] }")  # fmt: skip
        assert stored(graph) == {
            "k": "x", "text": '"q"\n', "kind": "red", "flag": True, "i32": -1, "u64": 2**63 - 1,
            "f32": 0.5, "f64": 2.0, "day": -719162, "at": 253402300799999, "list": [1, 2],
            "words": ["a"], "vec": [1.0, 2.5],
        }  # fmt: skip

    @pytest.mark.parametrize(
        "wrong",
        ["i32: 1.0", 'day: "2020-01-01"', 'kind: "blue"', "vec: [1]", "text: 1", "flag: 1"],
    )
    def test_what_does_not_suit_is_a_type_error(self, graph, wrong):
        with pytest.raises(TypeCheckError, match="T3"):
            run(graph, f'insert All {{ k: "x", {wrong} }}')

    @pytest.mark.parametrize("wrong", ["i32: 2147483648", "u32: -1", "u64: -1"])
    def test_what_does_not_fit_is_quoted(self, graph, wrong):
        with pytest.raises(ConstraintError) as caught:
            run(graph, f'insert All {{ k: "x", {wrong} }}')
        assert wrong.split()[1] in str(caught.value)


class TestKeys:
    @pytest.mark.parametrize(
        ("kind", "value", "row_id"),
        [
            ("Bool", True, "true"),
            ("U64", 2**64 - 1, "18446744073709551615"),
            ("I64", -5, "-5"),
            ("Date", "1969-12-31", "-1"),
            ("DateTime", "1969-12-31T23:59:59.999Z", "-1"),
            ("F32", 0.1, "0.1"),
            ("F64", -0.0, "0"),
            ("F64", 1e21, "1000000000000000000000"),
            ("enum(a, b)", "a", "a"),
            ("String", "ß", "ß"),
        ],
    )
    def test_the_canonical_text_of_a_key(self, tmp_path, kind, value, row_id):
        schema = f"node N {{ order: {kind} @key  group: I32? }}\nedge E: N -> N"
        declared = "String" if kind.startswith("enum") else kind
        with init(tmp_path / "k", schema) as graph:
            for group in (1, 2):
                run(graph, f"insert N {{ order: $v, group: {group} }}", f"$v: {declared}",
                    {"v": value})  # fmt: skip
            assert list(nodes(graph, "N")) == [row_id]
            run(
                graph, "update N set { group: 3 } where order = $v", f"$v: {declared}", {"v": value}
            )
            assert nodes(graph, "N")[row_id]["group"] == 3
            run(graph, "insert E { from: $i, to: $i }", "$i: String", {"i": row_id})
            result = run(graph, "delete N where order = $v", f"$v: {declared}", {"v": value})
            assert counts(result) == (1, 1)

    def test_two_spellings_of_zero_are_one_node(self, tmp_path):
        with init(tmp_path / "z", "node N { f: F64 @key  g: I32? }") as graph:
            run(graph, "insert N { f: 0.0 } insert N { f: -0.0, g: 1 }")
            assert nodes(graph, "N") == {"0": {"f": 0.0, "g": 1}}


def test_properties_may_be_called_anything(tmp_path):
    names = ["order", "select", "group", "from", "to", "where", "set", "match", "rec", "other",
             "userName", "username", "_x", "left", "table"]  # fmt: skip
    body = "\n".join(f"  {name}: String?" for name in names)
    unique = "\n".join(f"  @unique({name})" for name in names)
    schema = f"node N {{ k: String @key\n{body}\n{unique}\n}}\nedge E: N -> N {{ order: I32? }}"
    with init(tmp_path / "n", schema) as graph:
        values = ", ".join(f'{name}: "{name}"' for name in names)
        run(graph, f'insert N {{ k: "a", {values} }} insert N {{ k: "b" }}')
        for name in names:
            result = run(graph, f'update N set {{ {name}: "new" }} where {name} = "{name}"')
            assert counts(result) == (1, 0)
            with pytest.raises(ConstraintError, match=f"N.{name}"):
                run(graph, f'insert N {{ k: "c", {name}: "new" }}')
        assert nodes(graph, "N")["a"] == {"k": "a", **dict.fromkeys(names, "new")}
        run(graph, 'insert E { from: "a", to: "b", order: 1 }')
        assert counts(run(graph, "delete E where order = 1")) == (0, 1)
        for name in names:
            run(graph, f'update N set {{ {name}: "old" }} where {name} = "new"')
        assert counts(run(graph, 'delete N where to = "old"')) == (1, 0)


class TestNow:
    SCHEMA = "node N { k: String @key  a: DateTime?  b: DateTime? }"

    def test_it_is_one_instant_for_the_whole_query(self, tmp_path):
        with init(tmp_path / "n", self.SCHEMA) as graph:
            inserts = " ".join(f'insert N {{ k: "{at}", a: now() }}' for at in range(50))
            result = run(graph, f"{inserts} update N set {{ b: now() }} where a = now()")
            assert counts(result) == (100, 0)
            (instant,) = {v for row in nodes(graph, "N").values() for v in (row["a"], row["b"])}
            assert instant == result.commit.created_us // 1000

    def test_it_does_not_change_when_a_lost_race_is_run_again(self, tmp_path):
        with init(tmp_path / "n", self.SCHEMA) as graph:
            other = open_graph(tmp_path / "n")

            def overtaken(_):
                time.sleep(0.005)
                run(other, 'insert N { k: "other", a: now() }')

            # The other write lands between this one's look at the graph and its commit.
            with failpoints.arm("mutation.before_locks", overtaken, times=1):
                result = run(graph, 'insert N { k: "mine", a: now() }', retries=1)
            rows = nodes(graph, "N")
            assert rows["mine"]["a"] == result.commit.created_us // 1000
            assert rows["mine"]["a"] < rows["other"]["a"]
            assert graph.snapshot().commit == result.commit
            other.close()


class TestEmbeddings:
    SCHEMA = """
node Doc { slug: String @key  body: String?  vec: Vector(4) @embed(body) }
node Loose { slug: String @key  body: String?  vec: Vector(4)? @embed(body) }
"""

    @pytest.fixture
    def docs(self, tmp_path):
        with init(tmp_path / "d", self.SCHEMA) as graph:
            yield graph

    def test_a_vector_left_out_is_made_from_its_text(self, docs, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        run(docs, 'insert Doc { slug: "a", body: "some text" } '
                  'insert Loose { slug: "b", body: $t }', "$t: String", {"t": "other"})  # fmt: skip
        assert nodes(docs, "Doc")["a"]["vec"] == mock_embedding("some text", 4)
        assert nodes(docs, "Loose")["b"]["vec"] == mock_embedding("other", 4)

    def test_a_vector_that_is_given_is_kept(self, docs, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        run(docs, 'insert Doc { slug: "a", body: "some text", vec: [1, 0, 0, 0] }')
        assert nodes(docs, "Doc")["a"]["vec"] == [1.0, 0.0, 0.0, 0.0]

    def test_without_a_provider_a_required_vector_is_refused_before_any_work(self, docs):
        before = state(docs)
        with pytest.raises(ProviderError) as caught:
            run(docs, 'insert Loose { slug: "b", body: "t" } insert Doc { slug: "a", body: "t" }')
        for word in ("Doc.vec", "omnigraph.open(embedder=", "OMNIGRAPH_EMBED_PROVIDER=local"):
            assert word in str(caught.value)
        assert state(docs) == before

    def test_without_a_provider_a_nullable_vector_stays_null(self, docs):
        run(docs, 'insert Loose { slug: "b", body: "t" }')
        assert nodes(docs, "Loose")["b"] == {"slug": "b", "body": "t"}

    def test_without_text_there_is_nothing_to_embed(self, docs, monkeypatch):
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        run(docs, 'insert Loose { slug: "b", body: $t }', "$t: String?")
        assert nodes(docs, "Loose")["b"] == {"slug": "b"}
        with pytest.raises(InputError, match=r"Doc\.vec"):
            run(docs, 'insert Doc { slug: "a", body: $t }', "$t: String?")
        with pytest.raises(TypeCheckError, match="T12"):
            run(docs, 'insert Doc { slug: "a" }')

    def test_the_callers_own_embedder_is_asked(self, tmp_path):
        asked = []

        class Ones:
            model = "ones"

            def embed(self, texts, dimension):
                asked.extend(texts)
                return [[1.0] * dimension for _ in texts]

        init(tmp_path / "own", self.SCHEMA).close()
        with open_graph(tmp_path / "own", embedder=Ones()) as graph:
            run(graph, 'insert Doc { slug: "a", body: "x" } insert Doc { slug: "b", body: "y" }')
            assert nodes(graph, "Doc")["b"]["vec"] == [1.0] * 4
        assert asked == ["x", "y"]

    def test_a_bad_answer_of_the_embedder_changes_nothing(self, tmp_path):
        class Short:
            model = "short"

            def embed(self, texts, dimension):
                return [[1.0] for _ in texts]

        init(tmp_path / "bad", self.SCHEMA).close()
        with open_graph(tmp_path / "bad", embedder=Short()) as graph:
            before = state(graph)
            with pytest.raises(ProviderError, match=r"Doc\.vec"):
                run(graph, 'insert Doc { slug: "a", body: "x" }')
            assert state(graph) == before


class TestBlobs:
    def test_bytes_come_as_base64(self, graph):
        data = bytes(range(256)) * 300
        put(graph, {"blob": "base64:" + base64.b64encode(data).decode()})
        assert stored(graph)["blob"] == data

    def test_text_parameters_and_literals_hold_blobs_too(self, graph):
        put(graph, {"blob": "base64:aGk="}, {"blob": "String"})
        assert stored(graph)["blob"] == b"hi"
        run(graph, 'insert All { k: "y", blob: "base64:" }')
        assert read_back(graph).nodes["All"]["y"]["blob"] == b""

    def test_an_update_of_something_else_keeps_them(self, graph):
        big = b"\x00\xff" * 50_000
        put(graph, {"blob": "base64:" + base64.b64encode(big).decode()})
        run(graph, 'insert All { k: "empty", blob: "base64:" } insert All { k: "none" }')
        run(graph, 'update All set { i32: 1 } where k >= "a"')
        found = read_back(graph).nodes["All"]
        assert [found[k]["blob"] for k in ("x", "empty", "none")] == [big, b"", None]
        assert [found[k]["i32"] for k in ("x", "empty", "none")] == [1, 1, 1]
        run(graph, 'update All set { blob: $b } where k = "x"', "$b: Blob?")
        assert read_back(graph).nodes["All"]["x"]["blob"] is None

    def test_an_external_place_is_refused(self, graph):
        before = state(graph)
        uri = "s3://bucket/key"
        with pytest.raises(ConstraintError, match="external") as caught:
            put(graph, {"blob": uri})
        assert uri in str(caught.value)
        with pytest.raises(ConstraintError, match="external"):
            run(graph, f'insert All {{ k: "x", blob: "{uri}" }}')
        assert state(graph) == before

    def test_what_is_no_base64_is_refused(self, graph):
        with pytest.raises(ConstraintError, match="base64"):
            put(graph, {"blob": "base64:%%%"})
