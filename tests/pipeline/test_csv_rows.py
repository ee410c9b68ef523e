"""CSV: which rows are bad, and that the others keep their numbers."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import InputError
from omnigraph.pipeline.formats import csv_rows
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import InputSource
from tests.graphs import graph_of
from tests.sampling import examples
from tests.stored import read_back

SCHEMA = "node P { name: String @key  n: I32?  tags: [String]? }\nedge E: P -> P"


graph = graph_of(SCHEMA)


@pytest.fixture
def refused(graph, tmp_path):
    """Load a CSV that has bad rows; all of them by number."""

    def load(data):
        path, rejects = tmp_path / "p.csv", tmp_path / "rejects.jsonl"
        path.write_bytes(data)
        with pytest.raises(InputError) as caught:
            graph.load_nodes("P", path, rejects=rejects)
        entries = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
        assert read_back(graph).nodes["P"] == {}
        assert str(caught.value).startswith(f"input error: {path}, row {entries[0]['row']}: ")
        return {entry["row"]: entry["reason"] for entry in entries}

    return load


def test_ragged_rows_are_bad_records_among_others(refused):
    bad = refused(b"name,n\na,1\nb\n\nc,x\nd,1,2\ne,5\n,6\n")
    assert list(bad) == [2, 3, 4, 6]
    assert "1 values for 2 columns" in bad[2]
    assert '"x"' in bad[3]
    assert "3 values for 2 columns" in bad[4]
    assert "required" in bad[6]


def test_texts_that_are_not_utf8_are_bad_records(refused):
    bad = refused(b"name,n\na,1\nb\xff,2\nc,\xff\n")
    assert list(bad) == [2, 3]
    assert "P.name (String): not UTF-8 text (invalid start byte at byte 2)" in bad[2]
    assert "P.n (I32?): not UTF-8" in bad[3]


def test_a_header_that_is_not_utf8(graph, tmp_path):
    (tmp_path / "p.csv").write_bytes(b"name,\xff\na,b\n")
    with pytest.raises(InputError, match=r"header.*UTF-8"):
        graph.load_nodes("P", tmp_path / "p.csv")


def test_a_quote_that_never_ends(refused):
    assert list(refused(b'name,n\na,1\n"b,2\n')) == [2]


def test_a_row_of_many_megabytes(graph, tmp_path):
    (tmp_path / "p.csv").write_text(f"name,n\na,1\n{'x' * (5 << 20)},2\n", "utf-8")
    graph.load_nodes("P", tmp_path / "p.csv")
    assert {name[:1] for name in read_back(graph).nodes["P"]} == {"a", "x"}


def test_a_row_that_is_too_long_is_told_as_that(graph, tmp_path):
    long = "x" * (3 * csv_rows.BLOCK_BYTES)
    (tmp_path / "p.csv").write_text(f"name,n\na,1\n{long},2\n", "utf-8")
    with pytest.raises(InputError, match=r"row of more than 16 MB.*JSON lines"):
        graph.load_nodes("P", tmp_path / "p.csv")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["ok", "short", "long"]), max_size=40), st.integers(40, 200))
def test_every_row_keeps_its_number_whatever_the_blocks(rows, block):
    """Rows that fit come out in their order, and each bad one where it stands in the file."""
    lines = {"ok": "name{n},{n}", "short": "name{n}", "long": "name{n},{n},{n}"}
    text = "name,n\n" + "".join(lines[kind].format(n=at) + "\n" for at, kind in enumerate(rows))
    found = list(_read(text.encode(), block))
    assert found == [None if kind != "ok" else f"name{at}" for at, kind in enumerate(rows)]


def _read(data, block):
    with ExitStack() as stack:
        source = InputSource(0, "p.csv", InMemory(data), len(data), unit="row")
        names, pieces = csv_rows.open_csv(["name", "n"], source, stack, block)
        assert names == ["name", "n"]
        for piece in pieces:
            if isinstance(piece, csv_rows.BadRow):
                yield None
            else:
                yield from piece.column("name").to_pylist()


def test_frames_of_texts_that_are_not_utf8(graph):
    raw = pa.array([b"a", b"b\xff"]).view(pa.utf8())
    with pytest.raises(InputError, match=r"row 2: P\.name \(String\): not UTF-8"):
        graph.load_nodes("P", pa.table({"name": raw}))
    tags = pa.ListArray.from_arrays([0, 1, 2], raw)
    with pytest.raises(InputError, match=r"row 2: P\.tags .*element 1: not UTF-8"):
        graph.load_nodes("P", pa.table({"name": ["a", "b"], "tags": tags}))
    with pytest.raises(InputError, match=r'row 2: "to" of E: not UTF-8'):
        graph.load_edges("E", pa.table({"from": ["a", "a"], "to": raw}))


def test_a_message_does_not_repeat_a_whole_header(graph):
    table = pa.table({"name": ["a"], "y" * 5_000_000: [1], **{f"c{n}": [n] for n in range(500)}})
    with pytest.raises(InputError, match=r"c0.*and 493 more") as caught:
        graph.load_nodes("P", table)
    assert len(str(caught.value)) < 2000
