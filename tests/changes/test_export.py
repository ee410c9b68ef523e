"""Exports: what they write, in which order, of which state, and what is there if they fail."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.clock import now_us
from omnigraph.errors import BadRequest, HistoryReclaimed, StorageError
from omnigraph.graph.graph import state_of
from omnigraph.storage.locks.read_leases import live_leases
from omnigraph.storage.objects.store_errors import PermissionDenied
from tests.graphs import exported, graph_of
from tests.measured import MEASURED

EVERY_TYPE = """
node Thing {
  key: String @key
  text: String?
  flag: Bool?
  i32: I32?
  i64: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  at: DateTime?
  word: enum(red, green)?
  texts: [String]?
  flags: [Bool]?
  numbers: [U64]?
  floats: [F64]?
  days: [Date]?
  times: [DateTime]?
  vector: Vector(3)?
  first: Blob?
  between: String?
  second: Blob?
}
node Area { name: String }
edge Near: Thing -> Area { weight: F64?  photo: Blob? }
edge Area: Area -> Area
"""
FAR = "s3://far/away"
MANY = bytes(range(256)) * 300  # more than fits in the data file
LARGE = bytes(range(255, -1, -1)) * 10_000


def thing(key, **values):
    return {"type": "Thing", "data": {"key": key, **values}}


RECORDS = [
    thing(
        "full",
        text='"\\\x00\x1f\u2028é😀\n',
        flag=True,
        i32=-(2**31),
        i64=-(2**63),
        u32=2**32 - 1,
        u64=2**64 - 1,
        f32=0.1,
        f64=-0.0,
        day="0001-01-01",
        at="9999-12-31T23:59:59.999Z",
        word="red",
        texts=["", "a,b", None],
        flags=[True, None],
        numbers=[0, 2**64 - 1],
        floats=[1e-7, 1e16, 5e-324, None],
        days=["2024-02-29"],
        times=["1969-12-31T23:59:59.999Z"],
        vector=[1, -0.5, 1e-30],
        first=MANY,
        between="x",
        second=b"",
    ),
    thing("none"),
    thing("empty", text="", texts=[], numbers=[], first=b"", second=FAR),
    thing("é", i64=2**63 - 1, f64=1.7976931348623157e308, first=LARGE, second=b"\0"),
    thing("\U0001f600", flag=False, second=LARGE),
    thing("Z", f64=1.0, f32=-0.0, vector=[0, -0.0, 3]),
    {"type": "Area", "data": {"id": "a2", "name": "south"}},
    {"type": "Area", "data": {"id": "a1", "name": "north"}},
    {"edge": "Near", "from": "none", "to": "a1", "data": {"id": "n2", "weight": 0.25}},
    {"edge": "Near", "from": "full", "to": "a2", "data": {"id": "n1", "photo": b"p"}},
    {"edge": "Area", "from": "a1", "to": "a2", "data": {"id": "x"}},
]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A graph with values of every type; tests read it only."""
    place = tmp_path_factory.mktemp("everything") / "g"
    with og.init(place, EVERY_TYPE, external_blobs=["s3://far/"]) as graph:
        # Several fragments, none of them in order of ids.
        for start in range(0, 6, 3):
            graph.load(RECORDS[start : start + 3], mode="append")
        graph.load(RECORDS[6:], mode="append")
        yield graph


def lines(graph, **options):
    return [json.loads(line) for line in exported(graph, **options).splitlines()]


def expected():
    """The bytes of the export, by the words of the manual: record by record with `json.dumps`."""
    names = [
        line.split(":")[0].strip() for line in EVERY_TYPE.split("}", maxsplit=1)[0].splitlines()[2:]
    ]
    found = []
    for record in RECORDS:
        kind, name = next(pair for pair in record.items() if pair[0] in {"type", "edge"})
        data = dict(record["data"])
        if name == "Thing":
            data = {"id": data["key"], **{key: data.get(key) for key in names if key}}
            data["f32"] = None if data["f32"] is None else float_of(data["f32"])
            data["vector"] = data["vector"] and [float_of(value) for value in data["vector"]]
        elif name == "Near":
            data = {"id": data["id"], "weight": data.get("weight"), "photo": data.get("photo")}
        for key, value in data.items():
            if isinstance(value, bytes):
                data[key] = "base64:" + base64.b64encode(value).decode()
        ends = {end: record[end] for end in ("from", "to") if end in record}
        shown = json.dumps(
            {kind: name, **ends, "data": data}, ensure_ascii=False, separators=(",", ":")
        )
        found.append(((kind == "edge", name, data["id"]), shown))
    return "".join(f"{line}\n" for _, line in sorted(found)).encode()


def float_of(value):
    """The double that has the value of a float of single precision."""
    return float(np.float32(value))


def test_every_value_is_written_as_json_dumps_writes_it_in_a_fixed_order(everything):
    assert exported(everything) == expected()


def test_an_export_loads_into_a_fresh_graph_and_exports_the_same_bytes(everything, tmp_path):
    before = tmp_path / "before.jsonl"
    result = everything.export(before)
    assert (result.records, result.leased, result.engine) == (len(RECORDS), True, "local")
    assert result.graph_commit_id == everything.snapshot().graph_commit_id
    with og.init(tmp_path / "again", EVERY_TYPE, external_blobs=["s3://far/"]) as again:
        again.load(before, mode="overwrite")
        assert exported(again) == before.read_bytes()
        ids = {commit.graph_commit_id for commit in again.commits.list()}
        assert not ids & {commit.graph_commit_id for commit in everything.commits.list()}


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.JSONL.GZ", "x.jsonl.zst"])
def test_a_packed_export_is_what_its_name_says_and_loads_again(everything, tmp_path, name):
    plain, packed = tmp_path / "plain.jsonl", tmp_path / name
    whole = everything.export(plain)
    result = everything.export(packed)
    assert result.stats.bytes_written == whole.stats.bytes_written == plain.stat().st_size
    data = packed.read_bytes()
    if name.endswith("zst"):
        unpacked = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    else:
        unpacked = gzip.decompress(data)
    assert unpacked == plain.read_bytes()
    everything.export(packed)
    assert packed.read_bytes() == data
    with og.init(tmp_path / "copy", EVERY_TYPE, external_blobs=["s3://far/"]) as copy:
        copy.load(packed, mode="overwrite")
        copy.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl.zst"])
def test_a_packed_export_of_nothing_loads_again(tmp_path, name):
    with og.init(tmp_path / "none", "node P { k: String @key }") as graph:
        graph.export(tmp_path / name)
        assert graph.load(tmp_path / name).total_rows == 0


def test_the_stats_say_what_was_read_and_written(everything, tmp_path):
    out = tmp_path / "out.jsonl"
    stats = everything.export(out).stats
    assert stats.records == stats.rows_read == len(RECORDS)
    assert stats.bytes_written == out.stat().st_size
    # The blobs were read, and not only described.
    assert stats.bytes_read > len(LARGE) * 2
    assert set(stats.to_json()) == {
        "inserts", "updates", "deletes", "candidates", "rows_read", "bytes_read", "tables_skipped",
        "tables_adopted", "ms", "records", "bytes_written",
    }  # fmt: skip
    assert (stats.inserts, stats.updates, stats.deletes, stats.candidates) == (0, 0, 0, 0)


def test_types_choose_nodes_and_edges_by_name(everything):
    whole = lines(everything)
    areas = [one for one in whole if "Area" in (one.get("type"), one.get("edge"))]
    assert lines(everything, types=["Area"]) == areas
    assert [next(iter(one)) for one in areas] == ["type", "type", "edge"]
    assert lines(everything, types=[]) == whole
    near = lines(everything, types=["Near", "Area", "Near"])
    assert [one["data"]["id"] for one in near] == ["a1", "a2", "x", "n1", "n2"]


SMALL = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


graph = graph_of(
    SMALL,
    [
        *({"type": "Person", "data": {"name": name, "age": 7}} for name in ("bob", "ann")),
        {"edge": "Knows", "from": "ann", "to": "bob", "data": {"id": "k"}},
    ],
)


def ids(graph, **options):
    return [one["data"]["id"] for one in lines(graph, **options)]


class TestRefusals:
    def test_nothing_is_touched_before_everything_is_checked(self, graph, tmp_path):
        out = tmp_path / "out.jsonl"
        for wrong in (
            {"types": ["Persn"]}, {"types": "Person"}, {"engine": "abacus"}, {"branch": "none"},
            {"snapshot": "01J0ABCDEFGHJKMNPQRSTVWXYZ"}, {"version": 99}, {"progress": 3},
        ):  # fmt: skip
            with pytest.raises((BadRequest, og.errors.OmniGraphError)):
                graph.export(out, **wrong)
        assert not out.exists()
        assert list(tmp_path.iterdir()) == [tmp_path / "g"]
        assert leases(graph) == []
        with pytest.raises(BadRequest, match="Person"):
            graph.export(out, types=["Persn"])

    @pytest.mark.parametrize(
        "out",
        [3, None, b"x", "", "gs://bucket/x", "missing/x.jsonl", ".", "a\0b", "\ud800"],
        ids=repr,
    )
    def test_what_is_no_place_for_an_export(self, graph, out, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(BadRequest):
            graph.export(out)

    def test_a_closed_handle(self, graph):
        graph.close()
        with pytest.raises(BadRequest, match="closed"):
            graph.export(io.BytesIO())


def leases(graph):
    return live_leases(state_of(graph).workspace.store, now_us())


class Interrupting:
    """A file that does something when the first bytes arrive."""

    def __init__(self, act):
        self.act = act
        self.data = b""

    def write(self, piece):
        self.data += piece
        if piece and self.act is not None:
            act, self.act = self.act, None
            act()
        return len(piece)


class TestPinned:
    def test_commits_during_an_export_do_not_show(self, graph):
        before = exported(graph)

        def write():
            graph.load([{"type": "Person", "data": {"name": "zoe"}}], mode="merge")
            graph.load(
                [{"type": "Person", "data": {"name": name}} for name in ("ann", "bob")],
                mode="overwrite",
            )

        out = Interrupting(write)
        graph.export(out)
        assert out.data == before
        assert [one["data"].get("age") for one in lines(graph)] == [None, None, None]

    def test_a_lease_names_what_is_read_from_before_the_first_byte_to_the_last(self, graph):
        graph.branches.create("side")
        graph.load([{"type": "Person", "data": {"name": "zoe"}}], mode="merge", branch="side")
        held = []
        out = Interrupting(lambda: held.extend(leases(graph)))
        assert graph.export(out, branch="side", types=["Person"]).leased
        (lease,) = held
        person = graph.snapshot(branch="side").tables["node:Person"]
        (table,) = lease.tables
        assert (table.table_key, table.table_branch) == ("node:Person", "side")
        assert (table.location, table.table_version) == (person.location, person.table_version)
        assert table.table_branch_id == person.table_branch_id
        assert lease.operation == "export"
        assert leases(graph) == []

    def test_a_failed_export_gives_its_lease_back(self, graph):
        def fail():
            raise RuntimeError("the caller's own")

        with pytest.raises(RuntimeError, match="the caller's own"):
            graph.export(Interrupting(fail))
        assert leases(graph) == []
        assert not [one for one in threading.enumerate() if one.name == "read lease"]

    def test_without_the_right_to_write_there_is_no_lease_and_the_same_bytes(
        self, graph, monkeypatch
    ):
        with og.open(graph.uri, mode="r") as reader:
            out = io.BytesIO()
            held = []
            assert not reader.export(Interrupting(lambda: held.extend(leases(graph)))).leased
            assert held == []
            assert not reader.export(out).leased
        assert out.getvalue() == exported(graph)

        def refuse(*_args):
            raise PermissionDenied("no")

        monkeypatch.setattr(state_of(graph).workspace.store, "write_text_if_absent", refuse)
        assert not graph.export(out).leased


class TestPast:
    def test_types_and_properties_of_then_under_the_names_of_now(self, tmp_path):
        first = """
        node Person { name: String @key  age: I32?  city: String? }
        node Gone { title: String @key }
        edge Knows: Person -> Person { since: Date? }
        """
        second = """
        node Human @rename_from("Person") { name: String @key  years: I32? @rename_from("age")  mail: String? }
        edge Knows: Human -> Human { since: Date? }
        """
        with og.init(tmp_path / "g", first) as graph:
            graph.load(
                [
                    {"type": "Person", "data": {"name": "ann", "age": 7, "city": "Oslo"}},
                    {"type": "Gone", "data": {"title": "t"}},
                    {"edge": "Knows", "from": "ann", "to": "ann", "data": {"id": "k"}},
                ]
            )
            then = graph.snapshot().graph_commit_id
            graph.schema.apply(second)
            assert [json.dumps(one) for one in lines(graph, snapshot=then)] == [
                json.dumps({"type": "Gone", "data": {"id": "t", "title": "t"}}),
                json.dumps(
                    {
                        "type": "Human",
                        "data": {"id": "ann", "name": "ann", "years": 7, "city": "Oslo"},
                    }
                ),
                json.dumps(
                    {
                        "edge": "Knows",
                        "from": "ann",
                        "to": "ann",
                        "data": {"id": "k", "since": None},
                    }
                ),
            ]
            assert lines(graph, snapshot=then, types=["Gone"]) == lines(graph, snapshot=then)[:1]
            with pytest.raises(BadRequest, match="Person"):
                exported(graph, snapshot=then, types=["Person"])
            assert lines(graph)[0]["data"] == {"id": "ann", "name": "ann", "years": 7, "mail": None}

    def test_a_name_that_two_types_or_properties_would_share(self, tmp_path):
        first = "node A { key: String @key  x: I32?  y: I32? }\nnode B { key: String @key }"
        second = 'node A @rename_from("B") { key: String @key }'
        third = 'node C @rename_from("A") { key: String @key  y: I32? @rename_from("x") }'
        with og.init(tmp_path / "g", first) as graph:
            graph.load(
                [
                    {"type": "A", "data": {"key": "a", "x": 1, "y": 2}},
                    {"type": "B", "data": {"key": "b"}},
                ]
            )
            then, before = graph.snapshot().graph_commit_id, lines(graph)
            graph.schema.apply("node B { key: String @key }")
            graph.schema.apply(second)
            assert lines(graph, snapshot=then) == before
        with og.init(tmp_path / "h", first) as graph:
            graph.load([{"type": "A", "data": {"key": "a", "x": 1, "y": 2}}])
            then = graph.snapshot().graph_commit_id
            graph.schema.apply("node A { key: String @key  x: I32? }\nnode B { key: String @key }")
            graph.schema.apply(f"{third}\nnode B {{ key: String @key }}")
            assert lines(graph, snapshot=then) == [
                {"type": "C", "data": {"id": "a", "key": "a", "x": 1, "y": 2}}
            ]

    def test_versions_branches_and_what_was_reclaimed(self, graph):
        then = graph.snapshot()
        graph.branches.create("side")
        graph.load([{"type": "Person", "data": {"name": "zoe"}}], mode="merge", branch="side")
        graph.load([{"type": "Person", "data": {"name": "new"}}], mode="merge")
        assert ids(graph, branch="side") == ["ann", "bob", "zoe", "k"]
        assert ids(graph, version=then.manifest_version) == ["ann", "bob", "k"]
        gone = graph.snapshot(branch="side").graph_commit_id
        graph.branches.delete("side")
        with pytest.raises((HistoryReclaimed, og.errors.CommitNotFound)):
            exported(graph, snapshot=gone)


class TestOutput:
    def test_a_file_appears_when_it_is_complete_and_a_failure_leaves_the_old_one(
        self, graph, tmp_path, monkeypatch
    ):
        out = tmp_path / "out.jsonl"
        out.write_bytes(b"old")
        out.chmod(0o640)
        link = tmp_path / "link.jsonl"
        link.symlink_to(out)
        seen = []

        def look(records, total):
            seen.append((records, total, out.read_bytes()))
            if len(seen) == 2 and fails:
                raise RuntimeError("stop")

        fails = True
        with pytest.raises(RuntimeError, match="stop"):
            graph.export(out, progress=look)
        assert out.read_bytes() == b"old"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "link.jsonl", "out.jsonl"]
        fails = False
        graph.export(str(link), progress=look)
        assert [one[:2] for one in seen] == [(2, 3), (3, 3)] * 2
        assert {one[2] for one in seen} == {b"old"}
        assert out.read_bytes() == exported(graph)
        assert link.is_symlink()
        assert out.stat().st_mode & 0o777 == 0o640
        assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "link.jsonl", "out.jsonl"]

    def test_files_of_bytes_and_of_text_stay_open(self, graph, tmp_path):
        whole = exported(graph)
        text = io.StringIO()
        graph.export(text)
        assert text.getvalue() == whole.decode()
        with (tmp_path / "t").open("w", encoding="utf-8", newline="") as file:
            graph.export(file)
            graph.export(file)
        assert (tmp_path / "t").read_bytes() == whole * 2
        with (tmp_path / "b").open("wb", buffering=0) as file:
            graph.export(file)
            assert not file.closed
        assert (tmp_path / "b").read_bytes() == whole

        class Words:
            said = ""

            def write(self, text):
                self.said += text

        words = Words()
        graph.export(words)
        assert words.said == whole.decode()

    def test_a_raw_file_may_take_a_part_at_a_time(self, graph):
        class Slow(io.RawIOBase):
            def __init__(self):
                self.data = b""

            def writable(self):
                return True

            def write(self, piece):
                self.data += bytes(piece[:7])
                return min(7, len(piece))

        slow = Slow()
        graph.export(slow)
        assert slow.data == exported(graph)

    def test_devices_are_written_to_and_not_replaced(self, graph):
        assert graph.export("/dev/null").records == 3
        assert os.path.exists("/dev/null")
        assert not os.path.isfile("/dev/null")
        with pytest.raises(StorageError, match="/dev/full"):
            graph.export("/dev/full")

    def test_a_graph_without_rows_gives_an_empty_file(self, tmp_path):
        with og.init(tmp_path / "g", SMALL) as graph:
            result = graph.export(tmp_path / "out.jsonl")
        assert (tmp_path / "out.jsonl").read_bytes() == b""
        assert (result.records, result.stats.bytes_written) == (0, 0)


MEASURE = """
import sys
from pathlib import Path
import omnigraph as og

def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) // 1024

with og.open(sys.argv[1]) as graph:
    graph.export("/dev/null", types=["Word"])
    idle = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    result = graph.export("/dev/null")
    print(memory("VmHWM") - idle, result.stats.bytes_written >> 20)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="peaks are read on Linux")
def test_memory_is_bounded_whatever_is_exported(tmp_path, record_property):
    schema = (
        "node Word { key: String @key }\nnode Page { key: String @key  text: String?  scan: Blob? }"
    )
    chance = np.random.default_rng(1)
    with og.init(tmp_path / "g", schema) as graph:
        graph.load([{"type": "Word", "data": {"key": "w"}}])
        keys = [f"page {number:06}" for number in chance.permutation(30_000)]
        pages = pa.table({"key": keys, "text": ["long text " * 200] * len(keys)})
        graph.load_nodes("Page", pages, mode="append")
        piece = chance.bytes(4 << 20)
        graph.blobs.write("node", "Page", keys[0], "scan", iter([piece] * 40))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "g")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    held, written = map(int, done.stdout.split())
    record_property(MEASURED, f"{held} MB over idle for an export of {written} MB")
    assert written > 260
    assert held < 250
