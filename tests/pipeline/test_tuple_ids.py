"""Edges that a tuple identifies: the same edge has one id, wherever and however it is stated."""

from __future__ import annotations

import hashlib
import json
import random
import re
import string

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import omnigraph as og
from omnigraph.errors import ConstraintError, MergeConflicts
from omnigraph.types import PropType, Scalar, TupleMember, tuple_id_column
from tests.sampling import runs_all
from tests.stored import read_back

SCHEMA = """
node Ship { imo: String @key }
edge Calls: Ship -> Ship { note: String?  n: I32?  @unique(src, dst) }
edge Books: Ship -> Ship {
  kind: String?  day: Date?  at: DateTime?  f: F64?  g: F32?  big: U64?  ok: Bool?  note: String?
  @unique(src, dst, kind, day, at, f, g, big, ok)
}
edge Both: Ship -> Ship { a: I32?  b: I32?  c: I32?  @unique(src, dst, b)  @unique(src, dst, a, c) }
edge Plain: Ship -> Ship { note: String? }
"""
ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
SHIPS = ["S1", "S2", 'quo"te', "back\\slash", "tab\tnew\n\x01", "Köln 東京 🛳", "\x7f\u2028", "1"]


# ------------------------------------------------------------------ the model


def expected_id(type_id, *members):
    """The id as the page of the schema says it, one edge at a time."""
    text = json.dumps(
        [type_id, *map(list, members)], ensure_ascii=False, separators=(",", ":"), sort_keys=True
    )
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest(), "big")
    number <<= 4  # 260 bits: 52 whole characters of five bits
    letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    digits = [letters[number >> shift & 31] for shift in range(255, -1, -5)]
    return "e_" + "".join(digits[:26])


def test_digests_made_by_hand():
    """These ids come from `printf %s TEXT | sha256sum`, `base32` and `tr` to Crockford's letters."""
    # [3,["src","a"],["dst","b"]]
    assert expected_id(3, ("src", "a"), ("dst", "b")) == "e_5261WFF91N2GTF07PCBXKKEVE6"
    # [4294967297,["src","quo\\"te"],["dst","Köln"],[7,"-12"]]
    odd = expected_id(2**32 + 1, ("src", 'quo"te'), ("dst", "Köln"), (7, "-12"))
    assert odd == "e_QNMKV228SDBHVD92M7T5R3R2R9"
    kind = PropType(Scalar.STRING)
    members = [TupleMember("src", kind, pa.array(["a"])), TupleMember("dst", kind, pa.array(["b"]))]
    assert tuple_id_column(3, members).to_pylist() == ["e_5261WFF91N2GTF07PCBXKKEVE6"]


def test_random_tuples_against_the_model():
    rnd = random.Random(31)
    kind = PropType(Scalar.STRING)
    letters = string.printable + '"\\\x00\x1f\x7fäß東🛳\u2028\ud7ff\uffff'
    for _ in range(60 if runs_all() else 15):
        count = rnd.randrange(0, 50)
        names = ["src", "dst", *rnd.sample(range(1, 99), rnd.randrange(3))]
        columns = [
            [
                None if rnd.random() < 0.1 else "".join(rnd.choices(letters, k=rnd.randrange(6)))
                for _ in range(count)
            ]
            for _ in names
        ]
        type_id = rnd.randrange(1, 2**40)
        arrays = [pa.array([None, *column, "x"], pa.utf8())[1:-1] for column in columns]
        found = tuple_id_column(
            type_id, [TupleMember(name, kind, one) for name, one in zip(names, arrays, strict=True)]
        )
        found.validate(full=True)
        rows = zip(*columns, strict=True)
        assert found.to_pylist() == [
            None if None in row else expected_id(type_id, *zip(names, row, strict=True))
            for row in rows
        ]


# ------------------------------------------------------------------ loads


@pytest.fixture
def graph(tmp_path):
    with made(tmp_path / "g") as graph:
        yield graph


def made(path):
    graph = og.init(path, SCHEMA)
    graph.load([{"type": "Ship", "data": {"imo": imo}} for imo in SHIPS])
    return graph


def record(src, dst, edge="Calls", **data):
    return {"edge": edge, "from": src, "to": dst, "data": data}


def by_ends(graph, edge="Calls", **target):
    rows = read_back(graph, **target).edges[edge]
    found = {(src, dst): row_id for row_id, src, dst, _ in rows}
    assert len(found) == len(rows) == len({row[0] for row in rows})
    return found


def wanted(graph, pairs, edge="Calls"):
    type_id = graph.schema.catalog.edges[edge].type_id
    return {pair: expected_id(type_id, ("src", pair[0]), ("dst", pair[1])) for pair in pairs}


PAIRS = [(a, b) for a in SHIPS for b in SHIPS[::2]]


def load_records(graph, mode, _path):
    graph.load([record(*pair) for pair in PAIRS], mode=mode)


def load_bytes(graph, mode, _path):
    graph.load("\n".join(json.dumps(record(*pair)) for pair in PAIRS).encode(), mode=mode)


def load_frame(graph, mode, _path):
    graph.load_edges("Calls", table(), mode=mode)


def load_file(graph, mode, path):
    parquet.write_table(table(), path / "e.parquet")
    graph.load_edges("Calls", path / "e.parquet", mode=mode)


def load_csv(graph, mode, path):
    csv.write_csv(table(), path / "e.csv")
    graph.load_edges("Calls", path / "e.csv", mode=mode)


def table():
    return pa.table({"from": [a for a, _ in PAIRS], "to": [b for _, b in PAIRS]})


@pytest.mark.parametrize("mode", ["merge", "patch", "append", "overwrite"])
@pytest.mark.parametrize("way", [load_records, load_bytes, load_frame, load_file, load_csv])
def test_every_way_and_mode_gives_the_ids_of_the_model(graph, tmp_path, way, mode):
    way(graph, mode, tmp_path)
    assert by_ends(graph) == wanted(graph, PAIRS)


def test_a_mutation_gives_them_too(graph):
    source = "query q($a: String, $b: String) { insert Calls { from: $a to: $b } }"
    for a, b in PAIRS[:5]:
        graph.mutate(source, params={"a": a, "b": b})
    two = (
        'query q() { insert Calls { from: "1" to: "S2" } insert Calls { from: "1" to: "S1" } '
        'insert Plain { from: "1" to: "S1" } }'
    )
    graph.mutate(two)
    pairs = [*PAIRS[:5], ("1", "S2"), ("1", "S1")]
    assert by_ends(graph) == wanted(graph, pairs)
    (plain,) = by_ends(graph, "Plain").values()
    assert ULID.fullmatch(plain)


def test_every_type_of_member(graph):
    data = {
        "kind": 'a "b"', "day": "1970-01-03", "at": "1970-01-01T00:00:01.5Z", "f": 1e21,
        "g": 0.1, "big": 2**64 - 1, "ok": True,
    }  # fmt: skip
    graph.load([record("S1", "S2", "Books", **data)])
    graph.load([record("S1", "S1", "Books", **data | {"f": -0.0, "ok": False})])
    graph.load([record("S2", "S2", "Books", **data | {"ok": None})])
    edge = graph.schema.catalog.edges["Books"]
    texts = {
        "kind": 'a "b"', "day": "2", "at": "1500", "f": "1000000000000000000000", "g": "0.1",
        "big": "18446744073709551615", "ok": "true",
    }  # fmt: skip

    def id_of(src, dst, **other):
        named = {edge.properties[name].property_id: text for name, text in (texts | other).items()}
        return expected_id(edge.type_id, ("src", src), ("dst", dst), *sorted(named.items()))

    found = by_ends(graph, "Books")
    assert found["S1", "S2"] == id_of("S1", "S2")
    assert found["S1", "S1"] == id_of("S1", "S1", f="0", ok="false")
    assert ULID.fullmatch(found["S2", "S2"])  # a null equals nothing


def test_the_smallest_group_decides(graph):
    graph.load([record("S1", "S2", "Both", a=1, b=2, c=3)])
    edge = graph.schema.catalog.edges["Both"]
    member = edge.properties["b"].property_id
    expected = expected_id(edge.type_id, ("src", "S1"), ("dst", "S2"), (member, "2"))
    assert by_ends(graph, "Both") == {("S1", "S2"): expected}


def test_renames_change_no_id(graph):
    graph.load([record("S1", "S2", "Both", a=1, b=2, c=3)])
    before = by_ends(graph, "Both")
    renamed = SCHEMA.replace(
        "edge Both: Ship -> Ship { a: I32?  b: I32?",
        'edge Pairs: Ship -> Ship @rename_from("Both") { a: I32?  bb: I32? @rename_from("b")',
    ).replace("@unique(src, dst, b)", "@unique(src, dst, bb)")
    graph.schema.apply(renamed)
    graph.load([record("S2", "S1", "Pairs", a=1, bb=2, c=3)])
    graph.load([record("S1", "S2", "Pairs", a=9, bb=2, c=3)])
    after = by_ends(graph, "Pairs")
    assert after["S1", "S2"] == before["S1", "S2"]
    edge = graph.schema.catalog.edges["Pairs"]
    member = edge.properties["bb"].property_id
    expected = expected_id(edge.type_id, ("src", "S2"), ("dst", "S1"), (member, "2"))
    assert after["S2", "S1"] == expected


# ------------------------------------------------------------------ who has which id


@pytest.mark.parametrize("mode", ["merge", "patch"])
def test_an_edge_that_is_there_keeps_its_id(graph, mode):
    graph.load([record("S1", "S2", id="own"), record("S1", "S1")])
    first = by_ends(graph)
    graph.load(
        [record("S1", "S2", n=1), record("S1", "S1", n=2), record("S1", "S2", n=3)], mode=mode
    )
    assert by_ends(graph) == first
    assert first["S1", "S2"] == "own"
    assert {row["n"] for *_, row in read_back(graph).edges["Calls"]} == {2, 3}


@pytest.mark.parametrize("mode", ["merge", "patch", "append"])
def test_an_id_whose_edge_has_moved_is_not_given_again(graph, mode):
    graph.load([record("S1", "S2"), record("S2", "S1")])
    old = by_ends(graph)
    graph.load([record("S2", "S2", id=old["S1", "S2"])])  # moves it
    again = [record("S1", "S2", n=1), record("1", "1")]
    if mode != "append":
        again += [record("S1", "S2", n=2)]
    graph.load(again, mode=mode)
    now = by_ends(graph)
    assert now["S2", "S2"] == old["S1", "S2"]
    assert ULID.fullmatch(now["S1", "S2"])
    assert now["S2", "S1"] == old["S2", "S1"]
    assert now["1", "1"] == wanted(graph, [("1", "1")])["1", "1"]
    graph.load([record("S1", "S2", n=4)])
    assert by_ends(graph) == now
    row = next(
        row for row_id, *_, row in read_back(graph).edges["Calls"] if row_id == now["S1", "S2"]
    )
    assert row["n"] == 4


def test_a_mutation_does_not_give_it_again_either(graph):
    graph.load([record("S1", "S2")])
    (old,) = by_ends(graph).values()
    graph.load([record("S2", "S2", id=old)])
    graph.mutate('query q() { insert Calls { from: "S1" to: "S2" n: 7 } }')
    now = by_ends(graph)
    assert (now["S2", "S2"], len(now)) == (old, 2)
    assert ULID.fullmatch(now["S1", "S2"])


@pytest.mark.parametrize("mode", ["merge", "patch", "append", "overwrite"])
@pytest.mark.parametrize("first", [True, False])
def test_an_id_that_another_record_names_is_not_given(graph, mode, first):
    (made_id,) = wanted(graph, [("S1", "S2")]).values()
    records = [record("S2", "S2", id=made_id), record("S1", "S2", n=5)]
    graph.load(records if first else records[::-1], mode=mode)
    now = by_ends(graph)
    assert now["S2", "S2"] == made_id
    assert ULID.fullmatch(now["S1", "S2"])


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_tuple_twice_breaks_the_rule_as_ever(graph, mode):
    with pytest.raises(ConstraintError, match=r"@unique Calls\.\(dst, src\)"):
        graph.load([record("S1", "S2"), record("S1", "S2")], mode=mode)
    graph.load([record("S1", "S2", n=1)])
    if mode == "append":
        with pytest.raises(ConstraintError, match=r"@unique Calls\.\(dst, src\)"):
            graph.load([record("S1", "S2")], mode=mode)
        skipped = graph.load([record("S1", "S2"), record("S2", "S1")], mode=mode, on_bad="skip")
        assert skipped.total_rows == 1
    insert = 'insert Calls { from: "S1" to: "S2" }'
    with pytest.raises(ConstraintError, match="@unique"):
        graph.mutate(f"query q() {{ {insert} }}")
    with pytest.raises(ConstraintError, match="@unique"):
        graph.mutate(
            'query q() { insert Calls { from: "1" to: "1" } insert Calls { from: "1" to: "1" } }'
        )


def test_two_graphs_give_one_id(tmp_path, graph):
    graph.load([record(*pair) for pair in PAIRS])
    with made(tmp_path / "other") as other:
        other.load([record(*pair) for pair in reversed(PAIRS)], mode="append")
        assert by_ends(other) == by_ends(graph)


def test_spellings_of_older_exports_give_the_id_of_the_node(tmp_path):
    schema = "node Day { on: Date @key }\nedge Next: Day -> Day { n: I32?  @unique(src, dst) }"
    with og.init(tmp_path / "days", schema) as graph:
        graph.load(
            [
                {"type": "Day", "data": {"id": "1970-01-02", "on": "1970-01-02"}},
                {"edge": "Next", "from": "1970-01-02", "to": "1970-01-02", "data": {}},
            ]
        )
        (found,) = by_ends(graph, "Next").items()
        assert found == (("1", "1"), wanted(graph, [("1", "1")], "Next")["1", "1"])


# ------------------------------------------------------------------ branches


class TestBranches:
    def test_edges_stated_on_two_branches_meet(self, graph):
        for name in ("one", "two"):
            graph.branches.create(name)
            graph.load([record("S1", "S2"), record("S2", "S1", n=1)], branch=name)
        graph.branches.merge("one")
        merged = graph.branches.merge("two")
        assert merged.outcome == "merged"
        assert by_ends(graph) == wanted(graph, [("S1", "S2"), ("S2", "S1")])

    def test_where_they_differ_resolve_decides(self, graph):
        for name, n in (("one", 1), ("two", 2)):
            graph.branches.create(name)
            graph.load([record("S1", "S2", n=n)], branch=name)
        graph.branches.merge("one")
        with pytest.raises(MergeConflicts, match="decide with `resolve`") as caught:
            graph.branches.merge("two")
        assert [one["kind"] for one in caught.value.details["conflicts"]] == ["divergent_insert"]
        graph.branches.merge("two", resolve="theirs")
        assert [row["n"] for *_, row in read_back(graph).edges["Calls"]] == [2]

    def test_what_resolve_cannot_decide_no_message_offers(self, graph):
        for name in ("one", "two"):
            graph.branches.create(name)
            graph.load([record("S1", "S2", id=name)], branch=name)
        graph.branches.merge("one")
        with pytest.raises(MergeConflicts, match="change one of the sides") as caught:
            graph.branches.merge("two")
        assert [one["kind"] for one in caught.value.details["conflicts"]] == ["unique_violation"]
        assert "resolve" not in str(caught.value)
