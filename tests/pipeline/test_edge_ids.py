"""Edges that are loaded again: records without an id take that of the edge they describe."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import ConstraintError
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.pipeline.edge_ids import EdgeIds
from omnigraph.pipeline.local.local_engine import LocalEngine
from omnigraph.pipeline.rows.stored_rows import TakenIds
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.tables.table import open_table
from omnigraph.validate import committed as looking_up
from omnigraph.validate.committed import Committed
from tests.graphs import graph_of
from tests.opened import workspace_of
from tests.pipeline.load_helpers import load_gathered
from tests.stored import read_back

SCHEMA = """
node Ship { imo: String @key }
node Port { code: I64 @key }
edge CallsAt: Ship -> Port @card(0..2) {
  visits: I32?
  note: String?
  @unique(src, dst)
}
edge Books: Ship -> Port {
  day: Date?
  kind: enum(fuel, freight)?
  share: F64?
  berth: U64?
  note: String?
  @unique(src, dst, day, kind)
}
edge Trails: Ship -> Ship { metres: I32? }
"""

SHIPS = ("S1", "S2", "S3")
PORTS = (1, 2, 3)


def nodes():
    ships = [{"type": "Ship", "data": {"imo": imo}} for imo in SHIPS]
    return ships + [{"type": "Port", "data": {"code": code}} for code in PORTS]


graph = graph_of(SCHEMA, nodes())


def calls(src, dst, **data):
    return {"edge": "CallsAt", "from": src, "to": str(dst), "data": data}


def books(src, dst, **data):
    return {"edge": "Books", "from": src, "to": str(dst), "data": data}


def edges(graph, name="CallsAt", branch="main"):
    """By id: both ends and the properties that are not null."""
    return {
        row_id: (src, dst, {key: value for key, value in row.items() if value is not None})
        for row_id, src, dst, row in read_back(graph, branch).edges[name]
    }


def by_ends(graph, name="CallsAt", branch="main"):
    return {(src, dst): row_id for row_id, (src, dst, _) in edges(graph, name, branch).items()}


def row_ids(graph, name="CallsAt"):
    table = open_table(workspace_of(graph).pinned(graph.snapshot().tables[f"edge:{name}"]))
    found = table.read(["id"], with_row_id=True)
    return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))


# ------------------------------------------------------------------ which group decides


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], None),
        ([("dst",), ("src", "w")], None),
        ([("dst", "src")], ("dst", "src")),
        ([("a", "dst", "src"), ("dst", "src")], ("dst", "src")),
        ([("day", "dst", "src"), ("berth", "dst", "src")], ("berth", "dst", "src")),
        ([("a", "b", "dst", "src"), ("dst", "src", "z"), ("x",)], ("dst", "src", "z")),
    ],
)
def test_the_smallest_group_with_both_ends_decides(groups, expected):
    assert EdgeType("E", 1, 1, {}, unique=tuple(groups)).identity == expected


# ------------------------------------------------------------------ loading again


def test_a_file_loaded_twice_gives_the_same_edges(graph, tmp_path):
    file = tmp_path / "calls.jsonl"
    file.write_text(
        "".join(json.dumps(calls(s, p, visits=p)) + "\n" for s in SHIPS for p in PORTS[:2]), "utf-8"
    )
    graph.load(file)
    first, places = edges(graph), row_ids(graph)
    assert len(first) == 6
    again = graph.load(file)
    assert again.tables == [{"table_key": "edge:CallsAt", "rows_loaded": 6}]
    assert edges(graph) == first
    assert row_ids(graph) == places, "updated in place"


def test_other_properties_are_replaced_and_new_edges_added(graph):
    graph.load([calls("S1", 1, visits=3, note="first"), calls("S1", 2, visits=1)])
    held = by_ends(graph)
    graph.load([calls("S1", 1, visits=4), calls("S2", 1, visits=9)])
    now = by_ends(graph)
    assert {ends: now[ends] for ends in held} == held
    assert edges(graph) == {
        held["S1", "1"]: ("S1", "1", {"visits": 4}),
        held["S1", "2"]: ("S1", "2", {"visits": 1}),
        now["S2", "1"]: ("S2", "1", {"visits": 9}),
    }


def test_the_id_of_a_committed_edge_is_taken_whoever_gave_it(graph):
    graph.load([calls("S1", 1, id="c1", visits=3)])
    graph.load([calls("S1", 1, visits=4)])
    assert edges(graph) == {"c1": ("S1", "1", {"visits": 4})}


def test_types_without_such_a_group_get_new_edges(graph):
    trail = {"edge": "Trails", "from": "S1", "to": "S2"}
    graph.load([trail])
    graph.load([trail, trail])
    assert len(edges(graph, "Trails")) == 3


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_other_modes_refuse_a_tuple_that_comes_twice(graph, mode):
    graph.load([calls("S1", 1, id="c1")])
    before = graph.snapshot()
    with pytest.raises(ConstraintError, match=r"@unique CallsAt\.\(dst, src\): 2, S1"):
        graph.load([calls("S1", 2), calls("S1", 2)], mode=mode)
    assert graph.snapshot() == before
    if mode == "append":
        with pytest.raises(ConstraintError, match=r"@unique CallsAt\.\(dst, src\): 1, S1"):
            graph.load([calls("S1", 1)], mode=mode)


# ------------------------------------------------------------------ within one load


def test_of_records_that_mean_one_edge_the_last_counts(graph):
    result = graph.load(
        [calls("S1", 1, visits=1, note="a"), calls("S2", 1), calls("S1", 1, visits=2)]
    )
    assert result.tables == [{"table_key": "edge:CallsAt", "rows_loaded": 2}]
    found = edges(graph)
    assert sorted(found.values(), key=repr) == [("S1", "1", {"visits": 2}), ("S2", "1", {})]


def test_a_record_takes_the_id_that_an_earlier_one_gives(graph):
    graph.load([calls("S1", 1, id="n1", visits=5, note="b"), calls("S1", 1, visits=6)])
    assert edges(graph) == {"n1": ("S1", "1", {"visits": 6})}


def test_an_id_given_later_is_another_edge_and_is_refused(graph):
    before = graph.snapshot()
    with pytest.raises(ConstraintError, match=r"line 2: @unique CallsAt.* is held by both .*'n1'"):
        graph.load([calls("S1", 1, visits=5), calls("S1", 1, id="n1", visits=6)])
    assert graph.snapshot() == before


def test_two_given_ids_of_one_tuple_are_refused(graph):
    graph.load([calls("S1", 1, id="c1")])
    with pytest.raises(ConstraintError, match="held by both 'c1' and 'c2'"):
        graph.load([calls("S1", 1, visits=7), calls("S1", 1, id="c2")])
    with pytest.raises(ConstraintError, match="held by both 'd2' and 'd1'"):
        graph.load([calls("S2", 1, id="d1"), calls("S2", 1, id="d2"), calls("S2", 1)])
    assert edges(graph) == {"c1": ("S1", "1", {})}


def test_ids_come_from_the_pinned_edges_whatever_the_load_does_to_them(graph):
    """`c1` moves away and is still the edge that the second record means: the last record wins."""
    graph.load([calls("S1", 1, id="c1", visits=1)])
    graph.load([calls("S1", 2, id="c1", visits=2), calls("S1", 1, visits=3)])
    assert edges(graph) == {"c1": ("S1", "1", {"visits": 3})}
    graph.load([calls("S1", 1, visits=4), calls("S1", 2, id="c1", visits=5)])
    assert edges(graph) == {"c1": ("S1", "2", {"visits": 5})}


def test_records_with_and_without_ids_in_one_load(graph):
    graph.load([calls("S1", 1, id="c1"), calls("S2", 2, id="c2")])
    graph.load([calls("S1", 1, visits=1), calls("S2", 2, id="c2", visits=2), calls("S3", 3)])
    new = by_ends(graph)["S3", "3"]
    assert edges(graph) == {
        "c1": ("S1", "1", {"visits": 1}),
        "c2": ("S2", "2", {"visits": 2}),
        new: ("S3", "3", {}),
    }


# ------------------------------------------------------------------ properties in the group


def test_members_of_every_kind_are_compared_as_stored(tmp_path):
    """Both zeros are one value, as they are to `@unique`."""
    schema = """
    node N { k: String @key }
    edge E: N -> N {
      day: Date
      at: DateTime
      kind: enum(a, b)
      f: F64
      g: F32
      i: I32
      u: U64
      userName: String
      username: Bool
      v: I32?
      @unique(src, dst, day, at, kind, f, g, i, u, userName, username)
    }
    """
    data = {
        "day": "2024-02-29",
        "at": "2024-02-29T10:00:00Z",
        "kind": "a",
        "f": 0.0,
        "g": 0.1,
        "i": -1,
        "u": 2**64 - 1,
        "userName": "ß",
        "username": True,
    }
    others = {"day": "2024-03-01", "at": "2024-02-29T10:00:00.001Z", "kind": "b", "f": 0.5,
              "g": 0.2, "i": 0, "u": 2**64 - 2, "userName": "ss", "username": False}  # fmt: skip

    def edge(**changed):
        return {"edge": "E", "from": "x", "to": "x", "data": {**data, **changed}}

    with og.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "N", "data": {"k": "x"}}, edge(id="e1", v=1)])
        graph.load([edge(v=2, f=-0.0, at=1709200800000), edge(v=3)])
        assert {row_id: row[2]["v"] for row_id, row in edges(graph, "E").items()} == {"e1": 3}
        graph.load([edge(**{name: value}) for name, value in others.items()])
        assert len(edges(graph, "E")) == 1 + len(others)
        graph.load([edge(**{name: value}, v=4) for name, value in others.items()])
        assert sorted(row[2]["v"] for row in edges(graph, "E").values()) == [3] + [4] * len(others)


def test_a_tuple_with_a_null_means_no_other_edge(graph):
    booked = [
        books("S1", 1, day="2026-05-01", kind="fuel"),
        books("S1", 1, day="2026-05-01"),
        books("S1", 1, day="2026-05-01", kind=None),
        books("S1", 1, kind="fuel"),
    ]
    graph.load(booked)
    assert len(edges(graph, "Books")) == 4
    graph.load(booked)
    assert len(edges(graph, "Books")) == 7


def test_other_groups_are_judged_as_rules(tmp_path):
    schema = """
    node N { k: String @key }
    edge E: N -> N { a: I32? b: I32? c: I32? @unique(src, dst, b) @unique(src, dst, a) @unique(c) }
    """

    def edge(**data):
        return {"edge": "E", "from": "x", "to": "x", "data": data}

    with og.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "N", "data": {"k": "x"}}, edge(id="1", a=1, b=1), edge(id="2", b=2)])
        graph.load([edge(a=1, b=9, c=5)])
        assert edges(graph, "E")["1"] == ("x", "x", {"a": 1, "b": 9, "c": 5})
        before = graph.snapshot()
        with pytest.raises(ConstraintError, match=r"@unique E\.\(b, dst, src\): 2, x, x"):
            graph.load([edge(a=1, b=2)])
        with pytest.raises(ConstraintError, match=r"@unique E\.\(b, dst, src\): 2, x, x"):
            graph.load([edge(b=2)])
        with pytest.raises(ConstraintError, match=r"@unique E\.c: 5"):
            graph.load([edge(a=7, c=5)])
        assert graph.snapshot() == before


# ------------------------------------------------------------------ other rules, other states


def test_cardinality_counts_an_edge_that_is_loaded_again_once(graph):
    both = [calls("S1", 1), calls("S1", 2)]
    graph.load(both)
    graph.load([*both, *both])
    assert len(edges(graph)) == 2
    with pytest.raises(ConstraintError, match=r"@card of CallsAt.* would have 3 edges"):
        graph.load([*both, calls("S1", 3)])


def test_a_deleted_edge_is_a_new_one_when_it_comes_again(graph):
    graph.load([calls("S1", 1, id="c1"), calls("S1", 2, id="c2")])
    graph.mutate('query q() { delete CallsAt where to = "1" }')
    graph.load([calls("S1", 1), calls("S1", 2)])
    found = by_ends(graph)
    assert found["S1", "2"] == "c2"
    assert found["S1", "1"] != "c1"
    assert len(found) == 2


def test_a_branch_looks_at_its_own_edges(graph):
    graph.load([calls("S1", 1, id="c1")])
    graph.load([calls("S2", 1, id="c2"), calls("S1", 1, visits=1)], branch="b", from_branch="main")
    graph.load([calls("S2", 1, visits=2)])
    graph.load([calls("S2", 1, visits=3), calls("S1", 1, visits=4)], branch="b")
    assert edges(graph, branch="b") == {
        "c1": ("S1", "1", {"visits": 4}),
        "c2": ("S2", "1", {"visits": 3}),
    }
    assert edges(graph)["c1"] == ("S1", "1", {})
    assert by_ends(graph)["S2", "1"] != "c2"


def test_a_load_that_lost_a_race_takes_the_ids_of_the_winner(graph):
    """The other writer adds one edge that the load was going to add, and replaces another."""
    graph.load([calls("S1", 1, id="old")])

    def overtake(_):
        graph.mutate('query q() { delete CallsAt where from = "S1" }')
        graph.load([calls("S1", 1, id="newer"), calls("S2", 2, id="won")])

    with failpoints.arm("load.before_locks", overtake, times=1):
        graph.load([calls("S1", 1, visits=7), calls("S2", 2, visits=8)])
    assert edges(graph) == {
        "newer": ("S1", "1", {"visits": 7}),
        "won": ("S2", "2", {"visits": 8}),
    }


def test_a_record_that_lost_to_another_before_the_race_is_written_after_it(graph):
    """Both records mean `c1` at first; once it is deleted the first one is an edge of its own."""
    graph.load([calls("S1", 1, id="c1")])
    delete = 'query q() { delete CallsAt where from = "S1" }'
    with failpoints.arm("load.before_locks", lambda _: graph.mutate(delete), times=1):
        result = graph.load([calls("S1", 1, visits=1), calls("S1", 2, id="c1", visits=2)])
    assert result.total_rows == 2
    found = by_ends(graph)
    assert found.keys() == {("S1", "1"), ("S1", "2")}
    assert found["S1", "2"] == "c1"


# ------------------------------------------------------------------ frames and files


def frame(**columns):
    return pa.table({"ship": ["S1", "S2"], "port": ["1", "1"], **columns})


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "parquet", "csv", "ipc"])
def test_frames_and_files_loaded_twice(graph, tmp_path, kind):
    def given(visits):
        table = frame(visits=pa.array(visits, pa.int32()))
        path = tmp_path / f"calls-{visits[0]}.{kind}"
        match kind:
            case "pandas":
                return table.to_pandas()
            case "polars":
                return pytest.importorskip("polars").from_arrow(table)
            case "parquet":
                parquet.write_table(table, path)
            case "csv":
                csv.write_csv(table, path)
            case "ipc":
                path = path.with_suffix(".arrow")
                with pa.ipc.new_file(str(path), table.schema) as file:
                    file.write_table(table)
            case "arrow":
                return table
        return path

    graph.load_edges("CallsAt", given([1, 2]), "ship", "port")
    first = by_ends(graph)
    result = graph.load_edges("CallsAt", given([3, 4]), "ship", "port")
    assert result.total_rows == 2
    assert edges(graph) == {
        first["S1", "1"]: ("S1", "1", {"visits": 3}),
        first["S2", "1"]: ("S2", "1", {"visits": 4}),
    }


def test_a_frame_with_some_ids(graph):
    graph.load([calls("S1", 1, id="c1"), calls("S2", 1, id="c2")])
    graph.load_edges("CallsAt", frame(id=[None, "c2"], visits=[5, 6]), "ship", "port")
    assert edges(graph) == {
        "c1": ("S1", "1", {"visits": 5}),
        "c2": ("S2", "1", {"visits": 6}),
    }


def test_sources_of_one_load_share_their_edges(graph):
    def gather(inputs):
        inputs.json([calls("S1", 1, visits=1)])
        inputs.edges("CallsAt", frame(visits=[2, 3]), "ship", "port")
        inputs.json([calls("S2", 1, visits=4)])

    result = load_gathered(graph, gather)
    assert result.total_rows == 2
    assert sorted(edges(graph).values()) == [
        ("S1", "1", {"visits": 2}),
        ("S2", "1", {"visits": 4}),
    ]


def test_ends_in_another_spelling_mean_the_same_edge(tmp_path):
    """Edges that use an older spelling of a key are led to its id before they are compared."""
    schema = """
    node Day { day: Date @key }
    edge Before: Day -> Day { n: I32? @unique(src, dst) }
    """
    days = [{"type": "Day", "data": {"id": f"2024-01-0{n}", "day": date(2024, 1, n)}}
            for n in (1, 2)]  # fmt: skip

    def before(**data):
        return {"edge": "Before", "from": "2024-01-01", "to": "2024-01-02", "data": data}

    with og.init(tmp_path / "g", schema) as graph:
        graph.load([*days, before(n=1)])
        first = by_ends(graph, "Before")
        graph.load([*days, before(n=2), before(n=3)])
        assert by_ends(graph, "Before") == first
        assert [row[2] for row in edges(graph, "Before").values()] == [{"n": 3}]


# ------------------------------------------------------------------ many


@pytest.mark.parametrize(
    ("few", "limit"), [(100_000, 10_000), (-1, 10_000), (-1, 40), (-1, 3)],
    ids=["in memory", "in the database", "one end looked up", "scanned"],
)  # fmt: skip
def test_many_edges_wherever_they_are_kept_and_looked_up(tmp_path, monkeypatch, few, limit):
    """With a limit of 40 the 30 sources are looked up, and the 50 targets are not."""
    monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "1")
    monkeypatch.setattr(LocalEngine, "few_rows", few)
    monkeypatch.setattr(looking_up, "KEY_LIMIT", limit)
    schema = """
    node A { k: I64 @key }
    edge E: A -> A { n: I32 @unique(src, dst) }
    """
    pairs = [(str(a), str(b)) for a in range(30) for b in range(50)]

    def table(numbers, chosen):
        ends = {"a": [a for a, _ in chosen], "b": [b for _, b in chosen]}
        return pa.table({**ends, "n": pa.array(numbers, pa.int32())})

    with og.init(tmp_path / "g", schema) as graph:
        graph.load_nodes("A", pa.table({"k": list(range(50))}))
        graph.load_edges("E", table(range(1000), pairs[:1000]), "a", "b")
        first = by_ends(graph, "E")
        assert len(first) == 1000
        # Every third of the old ones, all new ones, and some of both again.
        chosen = pairs[:1000:3] + pairs[1000:] + pairs[900:1100]
        result = graph.load_edges("E", table(range(5000, 5000 + len(chosen)), chosen), "a", "b")
        assert result.total_rows == len(set(chosen))
        now = by_ends(graph, "E")
        assert len(now) == len(edges(graph, "E")) == 1500
        assert {pair: now[pair] for pair in first} == first
        expected = dict(zip(pairs, range(1000), strict=False))
        expected |= dict(zip(chosen, range(5000, 5000 + len(chosen)), strict=True))
        stored = {(src, dst): row["n"] for src, dst, row in edges(graph, "E").values()}
        assert stored == expected


def test_a_second_call_starts_from_the_ids_as_read(graph, monkeypatch):
    """What a load does that is tried again on another head; the answer says what is changed by it."""
    pins = {"none": graph.snapshot().tables}
    graph.load([calls("S1", 1, id="c1")])
    pins["one"] = graph.snapshot().tables
    graph.mutate('query q() { delete CallsAt where from = "S1" }')
    graph.load([calls("S1", 1, id="c9")])
    pins["other"] = graph.snapshot().tables
    told = []

    assign_once = EdgeIds.assign

    def assign(self, incoming):
        runner = self.runner

        def ids():
            column = incoming["edge:CallsAt"].frame(runner, ["id"])
            return runner.collect(column).column("id").to_pylist()

        read = ids()
        for name in ("none", "one", "one", "other", "none", "none", "one"):
            looked = Committed(runner, pins[name], workspace_of(graph).pinned)
            changed = assign_once(replace(self, committed=looked), incoming)
            told.append((name, changed, [None if a == b else b for a, b in zip(read, ids(), strict=True)]))  # fmt: skip
        return changed

    monkeypatch.setattr(EdgeIds, "assign", assign)
    with pytest.raises(ConstraintError):  # the last assignment is not that of the head
        graph.load([calls("S1", 1), calls("S2", 1), calls("S3", 3, id="c3")])
    table = {"edge:CallsAt"}
    assert told == [
        ("none", set(), [None, None, None]),
        ("one", table, ["c1", None, None]),
        ("one", set(), ["c1", None, None]),
        ("other", table, ["c9", None, None]),
        ("none", table, [None, None, None]),
        ("none", set(), [None, None, None]),
        ("one", table, ["c1", None, None]),
    ]


def test_taken_ids_are_given_to_rows_in_any_order(tmp_path):
    runner = LocalRunner()
    taken = runner.frame(pa.table({"0rec": [7, 3, 5], "id": ["seven", "three", "five"]}))
    ids = TakenIds.of(runner, taken, tmp_path / "ids")
    runner.close()

    def given(*orders):
        rows = pa.record_batch(
            {"id": [f"own {n}" for n in orders], "0rec": pa.array(orders, pa.int64())}
        )
        return ids.apply_to(rows).column("id").to_pylist()

    assert given(9, 3, 4, 7, 1) == ["own 9", "three", "own 4", "seven", "own 1"]
    assert given(5) == ["five"]
    assert given(1, 2) == ["own 1", "own 2"]
    assert given() == []
