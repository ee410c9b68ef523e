"""Input is read in bounded memory, however little of it there seems to be, and however it is packed."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import omnigraph as og
from omnigraph.pipeline.formats.batch_pieces import arrow_pieces, row_bytes
from omnigraph.pipeline.formats.casts import plain
from omnigraph.pipeline.formats.csv_rows import MAX_COLUMNS
from omnigraph.pipeline.sources.locations import InMemory
from omnigraph.pipeline.sources.sources import InputSource
from omnigraph.pipeline.sources.splits import (
    MAX_LINE_BYTES,
    LongLine,
    numbered_texts,
    plan_splits,
    read_blocks,
)
from tests.memory import in_a_process, needs_proc, peak_of
from tests.sampling import examples

MB = 1 << 20
SCHEMA = "node Note { no: I64 @key  text: String? }"
LINE = {"type": "Note", "data": {"no": 2, "text": "short"}}

LINES = st.lists(st.integers(0, 12).map(lambda size: b"x" * size), max_size=12).map(b"\n".join)


def source_of(data):
    return InputSource(0, "given", InMemory(data), len(data))


@settings(max_examples=examples(400), deadline=None)
@given(LINES, st.integers(1, 40), st.integers(1, 9), st.integers(1, 8))
def test_lines_up_to_the_limit_come_and_longer_ones_are_told(data, split, block, limit):
    source = source_of(data)
    found = []
    for part in plan_splits([source], split):
        for read in read_blocks(source, part, block, limit):
            if isinstance(read, LongLine):
                found.append((read.offset, None))
                continue
            offset = read.offset
            for line in read.data.removesuffix(b"\n").split(b"\n"):
                found.append((offset, line))
                offset += len(line) + 1
    offset, expected = 0, []
    for line in data.removesuffix(b"\n").split(b"\n") if data else []:
        expected.append((offset, line if len(line) <= limit else None))
        offset += len(line) + 1
    assert found == expected


def test_a_line_of_exactly_the_limit_is_a_record_and_one_byte_more_is_not(tmp_path):
    empty = len(json.dumps({"type": "Note", "data": {"no": 1, "text": ""}}))
    fits = json.dumps({"type": "Note", "data": {"no": 1, "text": "x" * (MAX_LINE_BYTES - empty)}})
    assert len(fits) == MAX_LINE_BYTES
    over = fits.replace('"no": 1', '"no": 13')
    path = tmp_path / "notes.jsonl"
    path.write_text(f"{fits}\n{over}\n{json.dumps(LINE)}\n")
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        result = graph.load(path, on_bad="skip", rejects=tmp_path / "bad.jsonl")
        assert result.total_rows == 2
        (bad,) = result.bad_records["first"]
        assert (bad["line"], bad["source"]) == (2, str(path))
        assert "longer than 64 MiB" in bad["reason"]
        (reject,) = (tmp_path / "bad.jsonl").read_text().splitlines()
        assert len(reject) < 2000
        with pytest.raises(og.errors.InputError, match=r"line 2: the line is longer than 64 MiB"):
            graph.load(path)


def test_the_text_of_a_record_is_there_up_to_the_limit():
    long = b"y" * (3 * MB)
    source = source_of(b"a\n" + long + b"\nb")
    texts = numbered_texts(source, [(2, "it"), (3 + len(long), "last")])
    assert list(texts) == [(2, "it", long), (3, "last", b"b")]


def _packed(kind, path):
    """A file of a few MB that holds a line of 512 MB, and a record behind it."""
    parts = [b'{"type": "Note", "data": {"no": 1, "text": "', *[b"x" * MB] * 512, b'"}}\n']
    parts.append(json.dumps(LINE).encode())
    if kind == "gz":
        with gzip.open(path, "wb", compresslevel=1) as out:
            out.writelines(parts)
    else:
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
            for part in parts:
                out.write(part)


def _load_long_line(directory, kind):
    with og.init(directory / "graph", SCHEMA) as graph:
        graph.load([LINE])
        source = directory / f"notes.jsonl.{kind}"
        if kind == "stream":
            with gzip.open(directory / "notes.jsonl.gz") as stream:
                from omnigraph.graph import writes
                from omnigraph.graph.session import access_of

                def gather(inputs):
                    return inputs.stream(stream, "<stdin>")

                return peak_of(
                    lambda: writes.load_gathered(access_of(graph), gather, on_bad="skip").to_json()
                )
        return peak_of(lambda: graph.load(source, on_bad="skip").to_json())


@needs_proc
@pytest.mark.parametrize("kind", ["gz", "zst", "stream"])
def test_a_long_line_in_a_small_file_is_never_held(tmp_path, kind, record_property):
    packed = "gz" if kind == "stream" else kind
    _packed(packed, tmp_path / f"notes.jsonl.{packed}")
    result, peak = in_a_process(_load_long_line, tmp_path, kind)
    record_property("measured", f"{peak >> 20} MiB over idle for a line of 512 MiB")
    assert (result["total_rows"], result["skipped"]) == (1, 1)
    assert result["bad_records"]["first"][0]["line"] == 1
    assert peak < 256 * MB


ROWS, TEXT = 20_000, "n" * 40_000
"""Rows of one long text: 763 MiB once they are decoded."""


def _repeated():
    places = pa.array(np.zeros(ROWS, np.int32))
    return pa.table(
        {"no": range(ROWS), "text": pa.DictionaryArray.from_arrays(places, pa.array([TEXT]))}
    )


def _frame_of(kind, directory):
    if kind == "arrow":
        return _repeated()
    if kind == "runs":
        ends = pa.array([ROWS], pa.int32())
        runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array([TEXT]))
        return pa.table({"no": range(ROWS), "text": runs})
    if kind == "polars":
        polars = pytest.importorskip("polars")
        return polars.DataFrame(
            {"no": range(ROWS), "text": polars.Series([TEXT]).new_from_index(0, ROWS)}
        )
    if kind in {"pandas", "categories"}:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"no": range(ROWS), "text": [TEXT] * ROWS})
        return frame.astype({"text": "category" if kind == "categories" else object})
    if kind == "plain parquet":
        with parquet.ParquetWriter(
            directory / "p.parquet",
            pa.schema({"no": pa.int64(), "text": pa.utf8()}),
            use_dictionary=False,
        ) as out:
            chunks = [pa.array([TEXT] * 1000)] * (ROWS // 1000)
            table = pa.table({"no": range(ROWS), "text": pa.chunked_array(chunks)})
            out.write_table(table, row_group_size=ROWS)
        return directory / "p.parquet"
    if kind == "parquet":
        parquet.write_table(_repeated(), directory / "p.parquet")
        return directory / "p.parquet"
    with pa.ipc.new_file(directory / "p.arrow", _repeated().schema) as out:
        out.write_table(_repeated())
    return directory / "p.arrow"


def _load_frame(directory, frame):
    with og.init(directory / "graph", SCHEMA) as graph:
        graph.load_nodes("Note", pa.table({"no": [-1]}))
        data = frame if not isinstance(frame, str) else _frame_of(frame, directory)
        result, peak = peak_of(lambda: graph.load_nodes("Note", data, check=True).total_rows)
        return result, peak


@needs_proc
@pytest.mark.parametrize(
    "kind",
    [
        "arrow",
        "runs",
        "polars",
        "pandas",
        "categories",
        "arrow file",
        "parquet",
        "plain parquet",
    ],
)
def test_frames_are_read_by_what_their_rows_hold(tmp_path, kind, record_property):
    frame = kind
    if "parquet" in kind or kind == "arrow file":
        frame = _frame_of(kind, tmp_path)
    rows, peak = in_a_process(_load_frame, tmp_path, frame)
    record_property("measured", f"{peak >> 20} MiB over idle for rows of 763 MiB")
    assert rows == ROWS
    assert peak < 600 * MB  # allocators keep some of what was freed, now more, now less


def _merge_long_texts(directory, rows, text):
    with og.init(directory / "graph", SCHEMA) as graph:
        graph.load_nodes("Note", pa.table({"no": range(0, rows, 2)}))
        places = pa.array(np.zeros(rows, np.int32))
        texts = pa.DictionaryArray.from_arrays(places, pa.array([text]))
        frame = pa.table({"no": range(rows), "text": texts})
        total, peak = peak_of(lambda: graph.load_nodes("Note", frame).total_rows)
        source = """query q($text: String) {
            match { $n: Note { text: $text } } return { count($n) as notes }
        }"""
        return total, graph.query(source, {"text": text}).rows, peak


@needs_proc
def test_a_merge_of_few_rows_with_long_texts_holds_only_some_of_them(tmp_path, record_property):
    rows = 2_000
    total, found, peak = in_a_process(_merge_long_texts, tmp_path, rows, "m" * 300_000)
    record_property("measured", f"{peak >> 20} MiB over idle for rows of 572 MiB")
    assert (total, found) == (rows, [{"notes": rows}])
    assert peak < 600 * MB


COLUMNS = {
    "texts": pa.array(["a" * 5, None, "", "b" * 900]),
    "large": pa.array([b"a" * 5, None, b"", b"b" * 900], pa.large_binary()),
    "views": pa.array(["a" * 5, None, "", "b" * 900], pa.string_view()),
    "dictionary": pa.array(["a" * 5, None, "a" * 5, "b" * 900]).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays(
        pa.array([3, 4], pa.int32()), pa.array(["c" * 70, "b" * 900])
    ),
    "lists": pa.array([["a", "bb"], None, [], ["c" * 800]]),
    "vectors": pa.array([[1.0, 2.0], None, [3.0, 4.0], None], pa.list_(pa.float32(), 2)),
    "structs": pa.array([{"a": "x" * 40}, None, {"a": None}, {"a": "y"}]),
    "numbers": pa.array([1, 2, None, 4]),
    "nothing": pa.nulls(4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_row_counts_what_it_has_once_decoded(name):
    column = COLUMNS[name]
    for start in range(len(column)):
        part = column.slice(start)
        sizes = row_bytes(part)
        assert len(sizes) == len(part)
        for row, size in enumerate(sizes):
            value = part[row].as_py()
            texts = value if isinstance(value, list) else [value]
            texts = list(value.values()) if isinstance(value, dict) else texts
            held = sum(len(text) for text in texts if isinstance(text, str | bytes))
            assert held <= size <= held + 16 * (1 + len(texts))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(0, 30), max_size=40),
    st.integers(1, 12),
    st.integers(1, 120),
    st.booleans(),
)
def test_pieces_have_all_rows_in_order_and_are_small(lengths, rows, size, encoded):
    texts = pa.array(["x" * length for length in lengths], pa.utf8())
    column = texts.dictionary_encode() if encoded else texts
    pieces = list(arrow_pieces(pa.record_batch({"t": column}), rows, size))
    joined = [text for piece in pieces for text in plain(piece.column(0)).to_pylist()]
    assert joined == texts.to_pylist()
    for piece in pieces:
        assert piece.num_rows <= rows
        assert piece.num_rows <= 1 or plain(piece.column(0)).nbytes <= size + 8 * rows


@needs_proc
@pytest.mark.parametrize("how", ["header", "names", "gz"])
def test_a_csv_file_with_a_million_columns_is_refused_at_once(tmp_path, how):
    path = tmp_path / ("wide.csv.gz" if how == "gz" else "wide.csv")
    row = ",".join(f"c{number}" for number in range(1_000_000)).encode()
    path.write_bytes(gzip.compress(row) if how == "gz" else row)
    options = {"header": False, "names": ["no", "text"]} if how == "names" else {}
    message, peak = in_a_process(_refused, tmp_path, path, options)
    assert f"more than {MAX_COLUMNS:,} columns" in message
    assert peak < 32 * MB


def _refused(directory, path, options):
    with og.init(directory / "graph", SCHEMA) as graph:
        narrow = directory / "narrow.csv"
        narrow.write_text("no,text\n1,a\n")
        graph.load_nodes("Note", narrow)

        def load():
            with pytest.raises(og.errors.InputError) as caught:
                graph.load_nodes("Note", path, ignore_extra=True, **options)
            return str(caught.value)

        return peak_of(load)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zst"])
def test_a_csv_file_may_have_as_many_columns_as_are_allowed(tmp_path, suffix):
    names = ["no", "text", *(f'"c,{number}"' for number in range(MAX_COLUMNS - 2))]
    data = ("\n" + ",".join(names) + "\n1,a" + "," * (MAX_COLUMNS - 2) + "\n").encode()
    path = tmp_path / f"wide.{suffix}"
    if suffix == "csv.zst":
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
            out.write(data)
    else:
        path.write_bytes(gzip.compress(data) if suffix == "csv.gz" else data)
    with og.init(tmp_path / "graph", SCHEMA) as graph:
        assert graph.load_nodes("Note", path, ignore_extra=True).total_rows == 1


def _pandas_afterwards(directory):
    with og.init(directory / "graph", SCHEMA) as graph:
        graph.load([LINE])
        import pandas as pd

        texts = pd.Series(["a", "b"], index=[5, 6], dtype="category")
        days = pd.DataFrame({"no": pd.Series([1, 2], index=[5, 6]), "text": texts})
        return graph.load_nodes("Note", days).total_rows


def test_pandas_may_be_imported_after_a_graph_was_opened(tmp_path):
    pytest.importorskip("pandas")
    assert in_a_process(_pandas_afterwards, tmp_path) == 2
