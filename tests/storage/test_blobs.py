"""Blob columns: null, empty, small, large and external values through every kind of write."""

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.tables.blobs import (
    BlobFacts,
    blob_array,
    blob_columns,
    blob_field,
    describe_blobs,
    has_external,
    open_blob,
    read_blobs,
    row_id_of,
    stored_form,
)
from omnigraph.storage.tables.inline_residual import compact
from omnigraph.storage.tables.staging import (
    RowCounts,
    stage_append,
    stage_merge_insert,
    stage_overwrite,
)
from omnigraph.storage.tables.table import PRIMARY_KEY, create_table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef

SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("n", pa.int64()),
        blob_field("b"),
    ]
)
LARGE = bytes(range(256)) * 1_000
HUGE = b"0123456789abcdef" * 400_000


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


def blobs(table):
    """id -> bytes or None."""
    found = table.read(["id"], with_row_id=True)
    values = read_blobs(table, "b", found["_rowid"].to_pylist())
    return dict(zip(found["id"].to_pylist(), values, strict=True))


VALUES = {"null": None, "empty": b"", "small": b"hello", "large": LARGE, "huge": HUGE}


@pytest.mark.parametrize("stage", [stage_append, stage_merge_insert, stage_overwrite])
def test_values_of_every_size_come_back_and_null_is_not_empty(table, stage):
    written = commit_staged(stage(table, rows(VALUES)))
    assert blobs(written) == VALUES
    assert blobs(open_table(written.ref)) == VALUES


def test_upsert_changes_and_keeps_blobs(table):
    table = commit_staged(stage_append(table, rows(VALUES)))
    changes = {"null": b"now", "small": None, "large": b"", "new": b"n"}
    staged = stage_merge_insert(table, rows(changes))
    assert staged.rows == RowCounts(1, 3, 0)
    merged = commit_staged(staged)
    assert blobs(merged) == {**VALUES, **changes}


def test_an_upsert_without_the_column_keeps_the_blobs(table, outside):
    table = commit_staged(stage_append(table, rows({**VALUES, "far": outside})))
    partial = rows({"huge": None, "far": None}, 90).drop_columns(["b"])
    merged = commit_staged(stage_merge_insert(table, partial))
    assert blobs(merged) == {**VALUES, "far": b"kept elsewhere"}


def test_plain_binary_columns_are_stored_as_blobs(table):
    plain = pa.table(
        {"id": ["a", "b"], "n": [1, 2], "b": pa.array([b"x", None], pa.large_binary())}
    )
    assert blob_columns(stored_form(plain, SCHEMA).schema) == ["b"]
    table = commit_staged(stage_append(table, plain))
    assert blobs(table) == {"a": b"x", "b": None}
    merged = commit_staged(stage_merge_insert(table, plain.slice(0, 1)))
    assert blobs(merged) == {"a": b"x", "b": None}


def test_external_blobs_are_referenced_not_copied(table, outside):
    written = commit_staged(stage_append(table, rows({"far": outside, "near": b"x"})))
    assert blobs(written) == {"far": b"kept elsewhere", "near": b"x"}
    assert describe_blobs(written, "b", [0, 1]) == [BlobFacts(None, outside), BlobFacts(1)]


def test_an_upsert_takes_external_blobs(table, outside):
    # Lance's own merge-insert refuses them.
    table = commit_staged(stage_append(table, rows(VALUES)))
    ids = {name: row_id_of(table, name) for name in VALUES}
    data = rows({"new": outside, "small": outside, "null": b"now"}, 50)
    assert has_external(data)
    assert not has_external(rows(VALUES))
    staged = stage_merge_insert(table, data)
    assert staged.rows == RowCounts(inserted=1, updated=2, deleted=0)
    merged = commit_staged(staged)
    far = b"kept elsewhere"
    assert blobs(merged) == {**VALUES, "new": far, "small": far, "null": b"now"}
    assert {name: row_id_of(merged, name) for name in VALUES} == ids
    numbers = {row["id"]: row["n"] for row in merged.read(["id", "n"]).to_pylist()}
    assert (numbers["new"], numbers["small"], numbers["null"]) == (50, 51, 52)


def test_an_upsert_with_external_blobs_needs_every_column(table, outside):
    data = rows({"new": outside}).drop_columns(["n"])
    with pytest.raises(StorageError, match="n is missing"):
        stage_merge_insert(table, data)


def test_an_external_blob_that_is_gone_fails_when_it_is_read(table, tmp_path):
    address = (tmp_path / "never").as_uri()
    written = commit_staged(stage_append(table, rows({"far": address, "near": b"x"})))
    assert read_blobs(written, "b", [1]) == [b"x"]
    with pytest.raises(StorageError, match="never"):
        read_blobs(written, "b", [0])
    assert describe_blobs(written, "b", [0]) == [BlobFacts(None, address)]


def test_compaction_keeps_external_addresses(table, outside):
    for values in ({"far": outside}, VALUES):
        table = commit_staged(stage_append(table, rows(values)))
    done = compact(table)
    assert done.fragments_removed == 2
    assert blobs(done.table) == {**VALUES, "far": b"kept elsewhere"}
    far = row_id_of(done.table, "far")
    assert describe_blobs(done.table, "b", [far]) == [BlobFacts(None, outside)]


def test_facts_and_bytes_come_in_the_order_asked_for(table):
    written = commit_staged(stage_append(table, rows(VALUES)))
    order = [row_id_of(written, name) for name in ("huge", "null", "empty", "huge")]
    assert read_blobs(written, "b", order) == [HUGE, None, b"", HUGE]
    assert describe_blobs(written, "b", order) == [
        BlobFacts(len(HUGE)),
        None,
        BlobFacts(0),
        BlobFacts(len(HUGE)),
    ]


def test_a_blob_opens_as_a_file(table):
    written = commit_staged(stage_append(table, rows(VALUES)))
    with open_blob(written, "b", row_id_of(written, "large")) as file:
        file.seek(256)
        assert file.read(3) == LARGE[256:259]
    assert open_blob(written, "b", row_id_of(written, "null")) is None
    assert open_blob(written, "b", row_id_of(written, "empty")).read() == b""


def test_rows_that_are_gone_are_refused(table):
    written = commit_staged(stage_append(table, rows({"a": b"x"})))
    with pytest.raises(StorageError, match="blobs"):
        read_blobs(written, "b", [0, 99])
    assert row_id_of(written, "zz") is None


def test_a_branch_reads_its_parents_blobs_and_its_own(table):
    main = commit_staged(stage_append(table, rows(VALUES)))
    branch = commit_staged(stage_merge_insert(create_branch(main, "b"), rows({"small": HUGE})))
    assert blobs(branch) == {**VALUES, "small": HUGE}
    assert blobs(main) == VALUES
