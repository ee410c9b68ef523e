"""Column changes and hard drops of a table on an object store, blobs of every kind included."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.columns.without_columns import rewrite_without
from omnigraph.storage.tables.blobs.blob_columns import blob_array, blob_field
from omnigraph.storage.tables.inline_residual import purge_table, purge_versions
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import PRIMARY_KEY, create_table, open_table, table_exists
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef
from tests.stored_blobs import read_blobs

SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("a", pa.int64()),
        pa.field("b", pa.int64()),
        pa.field("x", pa.utf8()),
        blob_field("bytes"),
    ]
)
BLOBS = [None, b"", b"i" * 2_000, b"p" * 300_000, b"d" * (5 << 20)]


@pytest.fixture
def ref(s3_root):
    return TableRef(s3_root.child("a table"), storage_options=s3_root.lance_options())


def test_columns_change_and_are_dropped_for_good(ref):
    columns = {
        "id": list("vwxyz"),
        "a": [1] * 5,
        "b": [2] * 5,
        "x": ["secret"] * 5,
        "bytes": blob_array(pa.array(BLOBS, pa.large_binary())),
    }
    table = commit_staged(stage_append(create_table(ref, SCHEMA), pa.table(columns, schema=SCHEMA)))
    row_ids = table.read(["id"], with_row_id=True)["_rowid"].to_pylist()
    changes = ColumnChanges(
        added=(pa.field("x", pa.int64()), blob_field("more")),
        renamed={"a": "b", "b": "a"},
        dropped=("x",),
    )
    rewrite = rewrite_without(table, ColumnChanges(dropped=("x",)))
    for stage in (*plan_columns(table, changes).stages(), rewrite):
        table = commit_staged(stage(table))
    assert list_branches(ref) == {}
    assert table.read(["id", "a", "b", "x"], with_row_id=True).to_pydict() == {
        "id": list("vwxyz"),
        "a": [2] * 5,
        "b": [1] * 5,
        "x": [None] * 5,
        "_rowid": row_ids,
    }
    assert read_blobs(table, "bytes", row_ids) == BLOBS
    assert purge_versions(ref, table.version).versions_removed == table.version - 1
    assert read_blobs(open_table(ref), "bytes", row_ids) == BLOBS
    assert read_blobs(open_table(ref), "more", row_ids) == [None] * 5
    purge_table(ref)
    assert not table_exists(ref)
    purge_table(ref)
