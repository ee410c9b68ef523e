"""What callers hand in: refused with an error of ours that names it, never ignored."""

from __future__ import annotations

import gzip
import os
import time
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    InputError,
    OmniGraphError,
    StorageError,
)
from omnigraph.graph.arguments import check_retries
from omnigraph.pipeline.datasource.options import read_options, write_options
from tests.graphs import graph_of
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  born: Date?  seen: DateTime?  tags: [String]?  days: [Date]?
              photo: Blob?  age: I32? }
edge Knows: Person -> Person
"""
ALL = "query all() { match { $p: Person } return { $p.name } }"
ENDS = pa.table({"from": ["ada"], "to": ["ada"]})


graph = graph_of(SCHEMA)


def person(**data):
    return {"type": "Person", "data": {"name": "ada", **data}}


# ------------------------------------------------------------------ arguments of no use

ARRAY = np.array(["main", "node"])


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.mutate(ALL.replace("all", "d"), if_commit=ARRAY),
        lambda g: g.load([person()], if_commit=g.commits.list(limit=1)[0]),
        lambda g: g.load([person()], if_commit=7),
        lambda g: g.load([person()], if_commit="*"),
        lambda g: g.branches.merge("main", granularity=ARRAY),
        lambda g: g.edges("Knows", from_col=["from"]).to_arrow(),
        lambda g: g.edges("Knows", to_col=None).to_arrow(),
    ],
)
def test_a_value_of_another_kind_is_told_as_such(graph, call):
    with pytest.raises(BadRequest):
        call(graph)
    assert read_back(graph).nodes["Person"] == {}


@pytest.mark.parametrize("name", ["query", "explain", "nodes", "export", "snapshot"])
def test_a_read_names_the_argument_that_it_does_not_take(graph, name):
    given = {"query": [ALL], "explain": [ALL], "nodes": ["Person"], "export": ["out.jsonl"]}
    with pytest.raises(TypeError, match="takes no limit; what is read is named by branch, "):
        getattr(graph, name)(*given.get(name, []), limit=3)


# ------------------------------------------------------------------ init and open


class Lengths:
    model = "lengths"

    def embed(self, texts, dimension):
        return [[float(len(text))] * dimension for text in texts]


class NeverAsked:
    def check(self, question):
        raise AssertionError(question)


@pytest.mark.parametrize("policy", ["deny all", {}, 0, object(), NeverAsked])
def test_what_cannot_decide_is_refused(graph, tmp_path, policy):
    with pytest.raises(BadRequest, match="is no policy: it needs a method `check"):
        og.open(graph.uri, policy=policy)
    with pytest.raises(BadRequest, match="is no policy"):
        og.init(tmp_path / "h", SCHEMA, policy=policy)
    assert not (tmp_path / "h").exists()


def test_init_takes_an_embedder(tmp_path):
    embedder = Lengths()
    with og.init(
        tmp_path / "h", "node Note { text: String  v: Vector(2) @embed(text) }", embedder=embedder
    ) as notes:
        notes.load([{"type": "Note", "data": {"text": "four"}}])
        ((_, row),) = read_back(notes).nodes["Note"].items()
    assert list(row["v"]) == [4.0, 4.0]


@pytest.mark.parametrize("embedder", ["openai", 5, object()], ids=["text", "int", "object"])
def test_what_cannot_embed_is_refused(graph, tmp_path, embedder):
    for call in (
        lambda: og.open(graph.uri, embedder=embedder),
        lambda: og.init(tmp_path / "h", SCHEMA, embedder=embedder),
    ):
        with pytest.raises(BadRequest, match="is no embedder"):
            call()
    assert not (tmp_path / "h").exists()


def test_the_top_of_the_file_system_is_no_place_for_a_graph(tmp_path):
    (tmp_path / "link").symlink_to("/")
    for root in ("/", "//", Path("/"), "file:///", tmp_path / "link"):
        with pytest.raises(BadRequest, match="top of the file system"):
            og.init(root, SCHEMA)
    assert not os.path.lexists("/__manifest")


@pytest.mark.parametrize("root", ["s3://", "s3:///prefix", "s3://x"])
def test_a_bucket_is_needed(root):
    with pytest.raises(BadRequest, match="bucket"):
        og.init(root, SCHEMA)


# ------------------------------------------------------------------ retries


@pytest.mark.parametrize("retries", [None, 0, 1, 20, 10**30])
def test_retries(retries):
    assert check_retries(retries) == retries


@pytest.mark.parametrize("retries", [-1, True, False, 1.0, 2.5, "3", b"1", [1], float("nan")])
def test_retries_that_are_no_whole_number_are_refused(retries):
    with pytest.raises(BadRequest, match=r"retries is .* whole number"):
        check_retries(retries)


# ------------------------------------------------------------------ dates and bytes in records

DAY = date(2026, 1, 2)
MOMENT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    "data",
    [
        {"name": b"ada"},
        {"name": bytearray(b"ada")},
        {"name": memoryview(b"ada")},
        {"name": DAY},
        {"name": MOMENT},
        {"name": pd.Timestamp(MOMENT)},
        {"name": np.datetime64("2026-01-02")},
        {"tags": ["x", b"y"]},
        {"tags": [DAY]},
        {"tags": np.array(["2026-01-02"], "datetime64[D]")},
        {"age": DAY},
        {"born": b"2026-01-02"},
        {"photo": DAY},
        {"id": b"x"},
    ],
    ids=lambda record: " ".join(f"{key} {type(one).__name__}" for key, one in record.items()),
)
def test_a_record_with_a_date_or_bytes_for_something_else_is_refused(graph, data):
    ((name, _),) = data.items()
    with pytest.raises(InputError, match=rf"record 2: Person\.{name}.*got a Python"):
        graph.load([person(), person(**data)])
    assert len(graph.commits.list()) == 1


def test_bytes_for_the_end_of_an_edge_are_refused(graph):
    for end in ("from", "to"):
        edge = {"edge": "Knows", "from": "ada", "to": "ada", end: b"ada"}
        with pytest.raises(InputError, match=rf"record 1: Knows\.{end}"):
            graph.load([edge])


def test_where_they_belong_they_are_taken(graph):
    graph.load([person(born=DAY, seen=MOMENT, days=[DAY], photo=b"\x00")])
    asked = "query q() { match { $p: Person } return { $p.born as b, $p.seen as s, $p.days as d } }"
    (row,) = graph.query(asked).rows
    assert row == {"b": "2026-01-02", "s": "2026-01-02T03:04:00.000Z", "d": ["2026-01-02"]}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"ada"]),
        pa.array([b"ada"], pa.large_binary()),
        pa.array([b"ada"], pa.binary(3)),
        pa.array([DAY]),
        pa.array([MOMENT]),
        pa.array([3], pa.time32("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_of_dates_or_bytes_does_not_fit_a_string(graph, column):
    for frame in (pa.table({"name": column}), pa.table({"name": column}).to_pandas()):
        with pytest.raises(InputError, match=r"name"):
            graph.load_nodes("Person", frame)
    assert len(graph.commits.list()) == 1


def test_bytes_beside_texts_in_a_pandas_column_name_their_row(graph):
    mixed = pd.DataFrame({"name": pd.Series(["ada", b"bob", DAY], dtype=object)})
    with pytest.raises(InputError, match=r"row 2: Person\.name") as caught:
        graph.load_nodes("Person", mixed)
    assert caught.value.details["bad_records"]["total"] == 2


# ------------------------------------------------------------------ edges and their columns


@pytest.mark.parametrize(
    "columns",
    [(None, None), (None, "to"), ("from", None), (5, "to"), ("", "to"), (b"from", "to")],
    ids=repr,
)
@pytest.mark.parametrize("frame", [None, ENDS], ids=["no frame", "frame"])
def test_a_column_of_an_end_is_named_by_a_text(graph, frame, columns):
    with pytest.raises(BadRequest, match=r"(from|to)_col is "):
        graph.load_edges("Knows", frame, *columns)


def test_one_column_cannot_be_both_ends(graph):
    with pytest.raises(BadRequest, match="both name the column `from`"):
        graph.load_edges("Knows", ENDS, "from", "from")
    for options in (read_options, write_options):
        with pytest.raises(BadRequest, match="both name the column `a`"):
            options({"graph": "g", "type": "Knows", "from_col": "a", "to_col": "a"})


# ------------------------------------------------------------------ other arguments of loads


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rejects", 5),
        ("rejects", ""),
        ("rejects", b"x"),
        ("progress", 5),
        ("spark_master", 5),
        ("spark_master", " "),
        ("spark_conf", 5),
        ("spark_conf", {1: "x"}),
        ("spark", 5),
        ("mode", ["merge"]),
        ("engine", 5),
        ("branch", 5),
        ("from_branch", 5),
    ],
)
def test_arguments_of_a_wrong_kind(graph, argument, value):
    with pytest.raises(BadRequest):
        graph.load([person()], **{argument: value})
    assert len(graph.commits.list()) == 1


def test_a_session_beside_a_master_is_refused(graph):
    for more in ({"spark_master": "local[1]"}, {"spark_conf": {"spark.app.name": "x"}}):
        with pytest.raises(BadRequest, match="beside a session"):
            graph.load([person()], spark=object(), **more)


def test_the_branch_to_load_from_must_be_there_also_when_it_is_not_needed(graph):
    graph.branches.create("there")
    for branch in ("main", "there", "new"):
        with pytest.raises(BranchNotFound) as caught:
            graph.load([person()], branch=branch, from_branch="nowhere")
        assert caught.value.details["branch"] == "nowhere"
    assert graph.branches.list() == ["main", "there"]
    done = graph.load([person()], branch="there", from_branch="main")
    assert (done.base_branch, done.branch_created) == ("main", False)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_an_empty_file_is_no_archive(graph, tmp_path, suffix):
    lines, table = tmp_path / f"a.jsonl{suffix}", tmp_path / f"a.csv{suffix}"
    lines.touch()
    table.touch()
    with pytest.raises(InputError, match=rf"a\.jsonl{suffix}.*is empty"):
        graph.load(lines)
    with pytest.raises(InputError, match=rf"a\.csv{suffix}.*is empty"):
        graph.load_nodes("Person", table)
    assert len(graph.commits.list()) == 1


def test_an_archive_of_nothing_is_an_empty_load(graph, tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b""))
    assert graph.load(path).total_rows == 0


# ------------------------------------------------------------------ texts that are no Unicode

LONE = "x\ud800"
TEXTS = {
    "branch to make": lambda graph: graph.branches.create(LONE),
    "branch to make from": lambda graph: graph.branches.create("b", LONE),
    "branch to delete": lambda graph: graph.branches.delete(LONE),
    "branch to read": lambda graph: graph.query(ALL, branch=LONE),
    "branch to load": lambda graph: graph.load([], branch=LONE),
    "branch to load from": lambda graph: graph.load([], branch="b", from_branch=LONE),
    "branch of commits": lambda graph: graph.commits.list(LONE),
    "filter key": lambda graph: graph.commits.list(filter=f"{LONE}=x"),
    "commit": lambda graph: graph.commits.show(LONE),
    "snapshot": lambda graph: graph.snapshot(snapshot=LONE),
    "if_commit": lambda graph: graph.load([], if_commit=LONE),
    "query": lambda graph: graph.query(f"{ALL} // {LONE}"),
    "query name": lambda graph: graph.query(ALL, LONE),
    "param": lambda graph: graph.query(
        "query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }",
        params={"n": LONE},
    ),
    "param name": lambda graph: graph.query(ALL, params={LONE: 1}),
    "mutation param": lambda graph: graph.mutate(
        "query q($n: String) { insert Person { name: $n } }", params={"n": LONE}
    ),
    "record": lambda graph: graph.load([person(tags=[LONE])]),
    "record key": lambda graph: graph.load([person(**{LONE: 1})]),
    "record type": lambda graph: graph.load([{"type": LONE, "data": {}}]),
    "record end": lambda graph: graph.load([{"edge": "Knows", "from": LONE, "to": "ada"}]),
    "frame": lambda graph: graph.load_nodes("Person", pd.DataFrame({"name": [LONE]}, dtype=object)),
    "column": lambda graph: graph.load_nodes("Person", pd.DataFrame({LONE: ["x"]})),
    "type": lambda graph: graph.load_nodes(LONE, ENDS),
    "end": lambda graph: graph.load_edges("Knows", ENDS, from_col=LONE),
    "path": lambda graph: graph.load(f"{LONE}.jsonl"),
    "rejects": lambda graph: graph.load([], rejects=LONE),
    "root": lambda graph: og.open(LONE),
    "schema": lambda graph: og.init(f"{graph.uri}-2", f"node P {{ n: String @key }} // {LONE}"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_lone_surrogate_ends_in_an_error_that_can_be_printed(graph, text):
    with pytest.raises(OmniGraphError) as caught:
        TEXTS[text](graph)
    str(caught.value).encode()
    assert len(graph.commits.list()) == 1


# ------------------------------------------------------------------ a clock that is wrong


def test_a_clock_before_1970_stops_writes_and_not_reads(graph, tmp_path, monkeypatch):
    graph.load([person()])
    monkeypatch.setattr(time, "time_ns", lambda: -1_000_000_000)
    for write in (
        lambda: graph.load([person()]),
        lambda: graph.mutate('query q() { insert Knows { from: "ada", to: "ada" } }'),
        graph.ensure_indices,
        lambda: og.init(tmp_path / "h", SCHEMA),
    ):
        with pytest.raises(StorageError, match="clock of this machine stands before 1970"):
            write()
    assert graph.query(ALL).rows == [{"p.name": "ada"}]
    assert graph.query(
        "query q() { match { $p: Person } return { $p.name, now() as t } }"
    ).rows == [{"p.name": "ada", "t": "1969-12-31T23:59:59.000Z"}]
    monkeypatch.undo()
    assert len(graph.commits.list()) == 2
