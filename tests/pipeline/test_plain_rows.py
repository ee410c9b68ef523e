"""Rows of one type as plain JSON objects: dicts of a program, and lines of files."""

from __future__ import annotations

import gzip
import json
from collections import deque
from datetime import date

import pyarrow as pa
import pytest

from omnigraph.errors import BadRequest, InputError, OmniGraphError
from omnigraph.pipeline.formats import json_lines
from omnigraph.pipeline.formats.json_lines import read_block
from omnigraph.pipeline.formats.plain_rows import PlainRows
from omnigraph.pipeline.frame_options import FrameOptions
from omnigraph.pipeline.sources.splits import LineBlock
from tests.graphs import graph_of
from tests.stored import read_back

SCHEMA = """
node Person { k: I64 @key  name: String?  born: Date?  tags: [String]?  photo: Blob? }
edge Knows: Person -> Person { since: I32?  @unique(src, dst) }
"""
PEOPLE = [
    {"k": 1, "name": "Ann", "born": "1970-01-02", "tags": ["a", "b"]},
    {"k": 2, "name": None},
    {"k": 3},
]
LINKS = [{"from": 1, "to": "2", "since": 5}, {"from": "2", "to": 3}]


graph = graph_of(SCHEMA)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def people(graph):
    return read_back(graph).nodes["Person"]


def expect_people(graph):
    found = people(graph)
    assert found.keys() == {"1", "2", "3"}
    assert (found["1"]["name"], found["1"]["tags"]) == ("Ann", ["a", "b"])
    assert (found["2"]["name"], found["3"]["name"]) == (None, None)


class TestPrograms:
    @pytest.mark.parametrize("of", [list, tuple, iter, deque, lambda rows: (row for row in rows)])
    def test_dicts_in_anything(self, graph, of):
        assert graph.load_nodes("Person", of(PEOPLE)).total_rows == 3
        expect_people(graph)
        graph.load_edges("Knows", of(LINKS))
        assert {(src, dst) for _, src, dst, _ in read_back(graph).edges["Knows"]} == {
            ("1", "2"),
            ("2", "3"),
        }

    def test_values_of_python_and_modes(self, graph):
        graph.load_nodes("Person", [{"k": 1, "born": date(1970, 1, 3), "photo": b"x", "name": "A"}])
        assert graph.blobs.read("node", "Person", "1", "photo") == b"x"
        graph.load_nodes("Person", [{"k": 1, "name": "B"}], mode="patch")
        row = people(graph)["1"]
        assert (row["name"], row["born"] is None) == ("B", False)
        with pytest.raises(OmniGraphError, match="1"):
            graph.load_nodes("Person", [{"k": 1}], mode="append")

    def test_names_of_columns_and_ends(self, graph):
        rows = [{"key": 7, "name": "x", "more": 1}]
        with pytest.raises(InputError, match=r'line 1.*no property "more"'):
            graph.load_nodes("Person", rows, columns={"key": "k"})
        graph.load_nodes("Person", rows, columns={"key": "k"}, ignore_extra=True)
        graph.load_edges("Knows", [{"a": 7, "b": 7}], from_col="a", to_col="b")
        assert [row[1:3] for row in read_back(graph).edges["Knows"]] == [("7", "7")]
        with pytest.raises(InputError, match="is a property"):
            graph.load_edges("Knows", [{"since": 7, "b": 7}], from_col="since", to_col="b")
        with pytest.raises(InputError, match="two values"):
            graph.load_nodes("Person", [{"key": 1, "k": 2}], columns={"key": "k"})

    def test_what_is_no_row_is_refused(self, graph):
        head = graph.snapshot().graph_commit_id
        for rows in ([{"k": 1}, 7], iter([7]), [{"k": 1}, "x"]):
            with pytest.raises(BadRequest, match=r"row [12] is a Python"):
                graph.load_nodes("Person", rows)
        with pytest.raises(InputError, match="line 2"):
            graph.load_nodes("Person", [{"k": 1}, {"k": "two"}])
        with pytest.raises(BadRequest, match="no node type"):
            graph.load_nodes("People", [{"k": 1}])
        with pytest.raises(BadRequest, match="CSV"):
            graph.load_nodes("Person", [{"k": 1}], delimiter=";")
        assert graph.snapshot().graph_commit_id == head

    def test_frames_are_frames_as_ever(self, graph):
        graph.load_nodes("Person", pa.table({"k": [1]}).to_reader())
        assert people(graph).keys() == {"1"}


class TestFiles:
    @pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst"])
    def test_lines_plain_and_packed(self, graph, tmp_path, suffix):
        path = tmp_path / f"rows{suffix}"
        data = ("// people\n\n" + lines(PEOPLE)).encode()
        if suffix.endswith(".gz"):
            data = gzip.compress(data)
        elif suffix.endswith(".zst"):
            data = pa.compress(data, codec="zstd", asbytes=True)
        path.write_bytes(data)
        graph.load_nodes("Person", path)
        expect_people(graph)
        (tmp_path / "links.jsonl").write_text(lines(LINKS))
        graph.load_edges("Knows", str(tmp_path / "links.jsonl"))
        assert len(read_back(graph).edges["Knows"]) == 2

    def test_errors_name_the_line(self, graph, tmp_path):
        path = tmp_path / "rows.jsonl"
        bad = ['{"k": 1}', '{"k": "1"}', '{"k": 2, "nam": "x"}', "[]", '{"k": 3', '{"k":4,"k":4}']
        path.write_text("\n".join(bad))
        with pytest.raises(InputError) as caught:
            graph.load_nodes("Person", path)
        found = caught.value.details["bad_records"]
        assert [one["line"] for one in found["first"]] == [2, 3, 4, 5, 6]
        assert "did you mean" in found["first"][1]["reason"]

    def test_rejects_load_again(self, graph, tmp_path):
        path, rejects = tmp_path / "rows.jsonl", tmp_path / "rejects.jsonl"
        path.write_text(lines([{"k": 1}, {"k": 2, "born": "soon"}]))
        graph.load_nodes("Person", path, on_bad="skip", rejects=rejects)
        mended = rejects.read_text().replace("soon", "1970-01-01")
        assert '"record":{"k":2' in mended.replace(" ", "")
        rejects.write_text(mended)
        graph.load_nodes("Person", rejects)
        assert people(graph).keys() == {"1", "2"}

    def test_files_beside_the_rows_are_taken_in(self, graph, tmp_path):
        (tmp_path / "rows").mkdir()
        (tmp_path / "rows" / "p.png").write_bytes(b"picture")
        path = tmp_path / "rows" / "rows.jsonl"
        path.write_text('{"k": 1, "photo": {"$file": "p.png"}}')
        graph.load_nodes("Person", path)
        assert graph.blobs.read("node", "Person", "1", "photo") == b"picture"

    def test_with_other_files_in_one_commit(self, graph, tmp_path):
        (tmp_path / "a.csv").write_text("k,name\n1,csv\n2,csv\n")
        (tmp_path / "b.jsonl").write_text('{"k": 2, "name": "json"}\n')
        graph.load_nodes("Person", [tmp_path / "a.csv", tmp_path / "b.jsonl"])
        assert {key: row["name"] for key, row in people(graph).items()} == {"1": "csv", "2": "json"}


ODD = [
    '{"k": 1}', ' {"k": 2, "name": "é\\n"}', '{"k":3,"tags":["x"],"born":"2024-02-29"}\r', "",
    "// no", '{"k": 4.0}', '{"k": 5, "name": 7}', '{"k": 6}{"k": 7}', '{"k": 8, "id": "8"}',
    '{"k": 9, "id": 9}', "{}", "null", '{"k": 1, "data": {}}', '{"type": "Person", "k": 1}',
    '{"k": 10, "photo": "base64:aGk="}', '{"k": 11, "photo": {"$file": "x"}}', '{"Kk": 12}',
    '{"k": 13, "Kk": 13}',
]  # fmt: skip


@pytest.mark.parametrize("options", [FrameOptions(), FrameOptions(columns={"Kk": "k"})])
def test_reading_by_columns_gives_what_reading_by_lines_gives(graph, options):
    catalog = graph.schema.catalog
    plain = PlainRows(catalog.nodes["Person"], options=options)
    for some in ([one] for one in ODD), (ODD[:3], ODD, [ODD[0]] * 200 + ODD):
        for texts in some:
            block = LineBlock(0, 0, "\n".join(texts).encode())
            fast, slow = (
                read_block(catalog, block, by_columns=flag, plain=plain) for flag in (True, False)
            )
            assert fast.bad.equals(slow.bad)
            assert [one.table_key for one in fast.batches] == [
                one.table_key for one in slow.batches
            ]
            for one, other in zip(fast.batches, slow.batches, strict=True):
                assert one.batch.equals(other.batch)


def test_usual_rows_are_read_by_columns(graph, monkeypatch):
    def none_expected(_catalog, _source, given, _cut, **_):
        assert list(given) == []
        return {}, []

    monkeypatch.setattr(json_lines, "read_lines", none_expected)
    catalog = graph.schema.catalog
    for entity, rows in ((catalog.nodes["Person"], PEOPLE), (catalog.edges["Knows"], LINKS[1:])):
        parsed = read_block(catalog, LineBlock(0, 0, lines(rows).encode()), plain=PlainRows(entity))
        assert parsed.batches[0].batch.num_rows == len(rows)
