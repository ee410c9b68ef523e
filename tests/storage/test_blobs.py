"""Blob columns: null, empty, inline, packed, dedicated and external values through every kind of write."""

import io
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.tables.blobs import carry
from omnigraph.storage.tables.blobs.blob_columns import (
    as_blobs,
    blob_array,
    blob_columns,
    blob_field,
    plain_schema,
    stored_form,
)
from omnigraph.storage.tables.blobs.carry import BlobSizes, batch_rows, blob_sizes, read_rows
from omnigraph.storage.tables.blobs.reading import PIECE_BYTES, find_blob, open_blob, read_at
from omnigraph.storage.tables.staging import (
    RowCounts,
    stage_append,
    stage_delete_ids,
    stage_overwrite,
    stage_upsert,
    write_fragments,
)
from omnigraph.storage.tables.table import PRIMARY_KEY, create_table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef
from tests.opened import row_ids
from tests.storage.table_places import compact

SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("n", pa.int64()),
        blob_field("b"),
    ]
)
PACKED = bytes(range(256)) * 1_000  # above 64 KiB
DEDICATED = b"0123456789abcdef" * 400_000  # above 4 MiB


@pytest.fixture
def table(tmp_path):
    return create_table(TableRef(str(tmp_path / "table")), SCHEMA)


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "outside.bin"
    path.write_bytes(b"kept elsewhere")
    return path.as_uri()


def rows(values, start=0):
    """id -> bytes, or an address, or None."""
    data = [None if isinstance(value, str) else value for value in values.values()]
    uris = [value if isinstance(value, str) else None for value in values.values()]
    blobs = blob_array(pa.array(data, pa.large_binary()), pa.array(uris, pa.utf8()))
    numbers = [start + number for number in range(len(values))]
    return pa.table([pa.array(list(values), pa.utf8()), numbers, blobs], schema=SCHEMA)


def taken_in(path: Path, position=0, size=None):
    """The value of a blob whose bytes are to be taken in."""
    size = path.stat().st_size if size is None else size
    return {"uri": path.as_uri(), "position": position, "size": size}


def mixed_rows(values, schema=SCHEMA):
    """id -> the value of each Blob column, as a struct."""
    plain = plain_schema(schema)
    columns = [pa.array(list(values), pa.utf8()), pa.array(range(len(values)), pa.int64())]
    for at, name in enumerate(blob_columns(schema)):
        structs = [value[at] for value in values.values()]
        columns.append(pa.array(structs, plain.field(name).type))
    return pa.Table.from_arrays(columns, schema=plain)


def blobs(table, column="b"):
    """id -> bytes or None."""
    found = table.read(["id"], with_row_address=True)
    values = read_at(table, column, found["_rowaddr"].to_pylist())
    return dict(zip(found["id"].to_pylist(), values, strict=True))


def facts(table, entity_id, column="b"):
    return find_blob(table, column, entity_id).facts


VALUES = {"null": None, "empty": b"", "inline": b"hello", "packed": PACKED, "large": DEDICATED}


@pytest.mark.parametrize("stage", [stage_append, stage_upsert, stage_overwrite])
def test_values_of_every_size_come_back_and_null_is_not_empty(table, stage):
    written = commit_staged(stage(table, rows(VALUES)))
    assert blobs(written) == VALUES
    assert blobs(open_table(written.ref)) == VALUES
    kinds = [found and found["kind"] for found in written.read(["b"])["b"].to_pylist()]
    assert kinds == [None, 0, 0, 1, 2], "the sizes above stand for all kinds of managed blobs"


def test_upsert_changes_and_keeps_blobs(table):
    table = commit_staged(stage_append(table, rows(VALUES)))
    changes = {"null": b"now", "inline": None, "packed": b"", "new": b"n"}
    staged = stage_upsert(table, rows(changes))
    assert staged.rows == RowCounts(1, 3, 0)
    merged = commit_staged(staged)
    assert blobs(merged) == {**VALUES, **changes}


def test_plain_binary_columns_are_stored_as_blobs(table):
    plain = pa.table(
        {"id": ["a", "b"], "n": [1, 2], "b": pa.array([b"x", None], pa.large_binary())}
    )
    assert blob_columns(stored_form(plain, SCHEMA).schema) == ["b"]
    table = commit_staged(stage_append(table, plain))
    assert blobs(table) == {"a": b"x", "b": None}
    merged = commit_staged(stage_upsert(table, plain.slice(0, 1)))
    assert blobs(merged) == {"a": b"x", "b": None}


def test_external_blobs_are_referenced_not_copied(table, outside):
    written = commit_staged(stage_append(table, rows({"far": outside, "near": b"x"})))
    assert blobs(written) == {"far": b"kept elsewhere", "near": b"x"}
    assert (facts(written, "far").size, facts(written, "far").external_uri) == (None, outside)
    assert facts(written, "far").etag is None
    assert (facts(written, "near").size, facts(written, "near").external_uri) == (1, None)


def test_an_upsert_takes_external_blobs(table, outside):
    table = commit_staged(stage_append(table, rows(VALUES)))
    before = row_ids(table)
    data = rows({"new": outside, "inline": outside, "null": b"now"}, 50)
    staged = stage_upsert(table, data)
    assert staged.rows == RowCounts(inserted=1, updated=2, deleted=0)
    merged = commit_staged(staged)
    far = b"kept elsewhere"
    assert blobs(merged) == {**VALUES, "new": far, "inline": far, "null": b"now"}
    assert {name: row_ids(merged)[name] for name in VALUES} == before
    numbers = {row["id"]: row["n"] for row in merged.read(["id", "n"]).to_pylist()}
    assert (numbers["new"], numbers["inline"], numbers["null"]) == (50, 51, 52)


def test_an_external_blob_that_is_gone_fails_when_it_is_read(table, tmp_path):
    address = (tmp_path / "never").as_uri()
    written = commit_staged(stage_append(table, rows({"far": address, "near": b"x"})))
    places = written.read(["id"], with_row_address=True)["_rowaddr"].to_pylist()
    assert read_at(written, "b", places[1:]) == [b"x"]
    with pytest.raises(StorageError, match="never"):
        read_at(written, "b", places[:1])
    assert facts(written, "far").external_uri == address


def test_compaction_keeps_external_addresses(table, outside):
    for values in ({"far": outside}, VALUES):
        table = commit_staged(stage_append(table, rows(values)))
    done = compact(table)
    assert len(done.fragments()) == 1
    assert blobs(done) == {**VALUES, "far": b"kept elsewhere"}
    assert facts(done, "far").external_uri == outside


# ------------------------------------------------------------------ taking in files


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a file with ü%20" / "source.bin"
    path.parent.mkdir()
    path.write_bytes(DEDICATED)
    return path


@pytest.mark.parametrize("as_stream", [False, True])
def test_files_and_ranges_of_them_are_taken_in(table, source, outside, as_stream):
    data = mixed_rows(
        {
            "bytes": [{"data": b"near"}],
            "whole": [taken_in(source)],
            "far": [{"uri": outside}],
            "range": [taken_in(source, 5, 100_000)],
            "null": [None],
            "small": [taken_in(source, 1, 3)],
        }
    )
    if as_stream:
        stored = stored_form(data, SCHEMA)
        data = pa.RecordBatchReader.from_batches(SCHEMA, stored.to_batches(max_chunksize=2))
    written = commit_staged(stage_append(table, data))
    source.unlink()
    assert blobs(written) == {
        "bytes": b"near",
        "whole": DEDICATED,
        "far": b"kept elsewhere",
        "range": DEDICATED[5:100_005],
        "null": None,
        "small": DEDICATED[1:4],
    }
    assert facts(written, "far").external_uri == outside
    assert facts(written, "whole").size == len(DEDICATED)


def test_rows_written_apart_keep_their_row_ids(table, source, outside):
    table = commit_staged(stage_append(table, rows(dict.fromkeys("abcd", b"old"))))
    before = row_ids(table)
    data = mixed_rows(
        {"c": [taken_in(source)], "a": [{"data": b"new"}], "e": [taken_in(source)],
         "b": [{"uri": outside}], "f": [None]}
    )  # fmt: skip
    staged = stage_upsert(table, data)
    assert staged.rows == RowCounts(inserted=2, updated=3, deleted=0)
    merged = commit_staged(staged)
    assert {name: row_ids(merged)[name] for name in "abcd"} == before
    assert blobs(merged) == {
        "a": b"new", "b": b"kept elsewhere", "c": DEDICATED, "d": b"old", "e": DEDICATED, "f": None,
    }  # fmt: skip
    assert {row["id"]: row["n"] for row in merged.read(["id", "n"]).to_pylist()} == {
        "a": 1, "b": 3, "c": 0, "d": 3, "e": 2, "f": 4,
    }  # fmt: skip


TWO = pa.schema([*SCHEMA, blob_field("c", nullable=False)])


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_one_row_may_have_an_address_and_a_file_to_take_in(tmp_path, source, outside, mode):
    table = create_table(TableRef(str(tmp_path / "two")), TWO)
    table = commit_staged(stage_append(table, mixed_rows({"old": [None, {"data": b""}]}, TWO)))
    far = {"uri": outside}
    data = mixed_rows(
        {"x": [taken_in(source), far], "y": [far, taken_in(source, 2, 70_000)], "z": [far, far]},
        TWO,
    )
    stage = stage_append if mode == "append" else stage_overwrite
    written = commit_staged(stage(table, stored_form(data, TWO)))
    kept = b"kept elsewhere"
    old = {"old": (None, b"")} if mode == "append" else {}
    expected = {**old, "x": (DEDICATED, kept), "y": (kept, DEDICATED[2:70_002]), "z": (kept, kept)}

    def both(table):
        first, second = blobs(table, "b"), blobs(table, "c")
        return {name: (first[name], second[name]) for name in first}

    assert both(written) == expected
    assert facts(written, "x", "c").external_uri == outside
    done = compact(written)
    assert len(done.fragments()) == 1 < len(written.fragments())
    assert both(done) == expected
    again = commit_staged(stage_upsert(done, read_rows(done)))
    assert both(again) == expected


def test_a_file_that_is_gone_fails_the_write_and_changes_nothing(table, tmp_path):
    missing = {"uri": (tmp_path / "gone").as_uri(), "position": 0, "size": 9}
    with pytest.raises(StorageError, match="gone"):
        write_fragments(table, mixed_rows({"a": [missing]}))
    assert open_table(table.ref.at(None)).version == table.version


# ------------------------------------------------------------------ rows written again


def test_rows_are_written_again_with_their_blobs(table, outside):
    values = {**VALUES, "far": outside}
    main = commit_staged(stage_append(table, rows(values)))
    branch = create_branch(main, "b")
    far = {**VALUES, "far": b"kept elsewhere"}
    for here in (main, branch):
        again = read_rows(here)
        held = sum(column.nbytes for column in again.columns)
        assert held < len(PACKED), "large blobs do not pass through Arrow"
        copied = commit_staged(stage_upsert(here, again))
        assert blobs(copied) == far
        assert facts(copied, "far").external_uri == outside
        # The second time the branch copies from its own files and not from its parent's.
        twice = commit_staged(stage_upsert(copied, read_rows(copied)))
        assert blobs(twice) == far
    left = commit_staged(stage_delete_ids(twice, pa.array(["inline", "packed"])))
    assert blobs(left) == {k: v for k, v in far.items() if k not in {"inline", "packed"}}


def test_the_largest_blob_of_a_fragment_says_how_many_rows_are_rewritten_at_a_time(
    table, monkeypatch, outside
):
    for values in ({"a": PACKED, "far": outside, "b": PACKED}, {"large": DEDICATED}, {"c": None}):
        table = commit_staged(stage_append(table, rows(values)))
    few, one, none = (BlobSizes(n, m) for n, m in (
        (len(PACKED), 2 * len(PACKED)), (len(DEDICATED), len(DEDICATED)), (0, 0),
    ))  # fmt: skip
    assert blob_sizes(table, [0, 1, 2]) == {0: few, 1: one, 2: none}
    assert blob_sizes(table, [2]) == {2: none}
    monkeypatch.setattr(carry, "BATCH_BYTES", len(DEDICATED) - 1)
    assert [size.too_large for size in (few, one, none)] == [False, True, False]
    assert batch_rows([few, none]) == (len(DEDICATED) - 1) // len(PACKED)
    assert batch_rows([none]) is None


# ------------------------------------------------------------------ reading


def test_an_etag_follows_the_bytes(table):
    first = commit_staged(stage_append(table, rows(VALUES)))
    branch = create_branch(first, "b")
    etags = {name: facts(first, name).etag for name in VALUES if name != "null"}
    assert len(set(etags.values())) == len(etags)
    assert facts(first, "null") is None
    assert {name: facts(branch, name).etag for name in etags} == etags
    deleted = commit_staged(stage_delete_ids(first, pa.array(["empty"])))
    assert facts(deleted, "packed").etag == etags["packed"]
    changed = commit_staged(stage_upsert(deleted, rows({"packed": PACKED[1:]})))
    other = commit_staged(stage_upsert(branch, rows({"packed": PACKED[2:]})))
    assert len({etags["packed"], facts(changed, "packed").etag, facts(other, "packed").etag}) == 3
    assert facts(changed, "large").etag == etags["large"]


class _Counted:
    """A blob of Lance that notes the length of every read."""

    def __init__(self, file, lengths):
        self._file, self._lengths = file, lengths

    def read_range(self, start, length):
        self._lengths.append(length)
        return self._file.read_range(start, length)

    def close(self):
        self._file.close()


def test_a_blob_opens_as_a_file(table):
    written = commit_staged(stage_append(table, rows(VALUES)))

    def opened(name):
        return open_blob(written, "b", find_blob(written, "b", name).address)

    with opened("large") as file:
        assert file.size == len(DEDICATED)
        assert file.read(3) == DEDICATED[:3]
        assert file.seek(-5, io.SEEK_END) == len(DEDICATED) - 5
        assert file.read() == DEDICATED[-5:]
        assert file.read(1) == b""
        file.seek(7)
        file.seek(1, io.SEEK_CUR)
        assert file.tell() == 8
        room = bytearray(len(DEDICATED))
        assert file.readinto(room) == PIECE_BYTES
        assert room[:PIECE_BYTES] == DEDICATED[8 : 8 + PIECE_BYTES]
        file.seek(1)
        assert file.read(PIECE_BYTES + 10) == DEDICATED[1 : PIECE_BYTES + 11]
        assert io.BufferedReader(file).peek(2)[:2] == DEDICATED[PIECE_BYTES + 11 :][:2]
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    whole = opened("large")
    lengths = []
    whole._file = _Counted(whole._file, lengths)
    assert io.BufferedReader(whole).read() == DEDICATED
    assert lengths == [PIECE_BYTES, len(DEDICATED) - PIECE_BYTES], "in as few reads as may be"
    assert opened("empty").read() == b""


def test_rows_that_are_gone_are_refused(table):
    written = commit_staged(stage_append(table, rows({"a": b"x"})))
    assert find_blob(written, "b", "zz") is None
    with pytest.raises(StorageError, match=r"blobs? b of"):
        read_at(written, "b", [0, 99])


def test_a_branch_reads_its_parents_blobs_and_its_own(table):
    main = commit_staged(stage_append(table, rows(VALUES)))
    branch = commit_staged(stage_upsert(create_branch(main, "b"), rows({"inline": DEDICATED})))
    assert blobs(branch) == {**VALUES, "inline": DEDICATED}
    assert blobs(main) == VALUES


def test_structs_and_bytes_make_the_same_column():
    storage = pa.array([{"data": b"x"}, None], plain_schema(SCHEMA).field("b").type)
    assert as_blobs(storage).equals(blob_array(pa.array([b"x", None], pa.large_binary())))
