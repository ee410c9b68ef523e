"""A hard drop: files without the column's bytes, everything else as it was; then the purge."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.columns import without_columns
from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.columns.without_columns import (
    BATCH_ROWS,
    index_stages,
    rewrite_without,
)
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.blob_columns import blob_array, blob_field
from omnigraph.storage.tables.indexing.table_indexes import list_indexes, stage_create_index
from omnigraph.storage.tables.inline_residual import Cleaned, purge_table, purge_versions
from omnigraph.storage.tables.staging import (
    stage_append,
    stage_delete,
    stage_upsert,
)
from omnigraph.storage.tables.table import PRIMARY_KEY, create_table, open_table, table_exists
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from tests.stored_blobs import describe_blobs, read_blobs

STAMPS = ["_row_created_at_version", "_row_last_updated_at_version"]
INLINE, PACKED, DEDICATED = b"i" * 2_000, b"p" * 300_000, b"d" * (5 << 20)
SECRET = os.urandom(100_000)


def schema(*blobs):
    return pa.schema(
        [
            pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
            pa.field("secret", pa.utf8()),
            pa.field("words", pa.utf8()),
            pa.field("list", pa.list_(pa.int32())),
            pa.field("v", pa.list_(pa.float32(), 2), nullable=False),
            pa.field("n", pa.int64()),
            *blobs,
        ]
    )


def rows(ids, start=0, **blobs):
    numbers = list(range(start, start + len(ids)))
    columns = {
        "id": list(ids),
        "secret": [f"secret {n}" for n in numbers],
        "words": [f"word{n % 3} all" for n in numbers],
        "list": pa.array([[n, n + 1] if n % 2 else None for n in numbers], pa.list_(pa.int32())),
        "v": pa.array([[float(n), 1.0] for n in numbers], pa.list_(pa.float32(), 2)),
        "n": numbers,
        **blobs,
    }
    fields = [blob_field(name, nullable=name != "must") for name in blobs]
    return pa.table(columns, schema=schema(*fields))


def blobs(values):
    """Blob values: bytes, None, or (address,)."""
    data = [value if isinstance(value, bytes) else None for value in values]
    uris = [value[0] if isinstance(value, tuple) else None for value in values]
    return blob_array(pa.array(data, pa.large_binary()), pa.array(uris, pa.utf8()))


def stamped(table):
    """Everything that can be seen of a table's rows, by id, without blobs."""
    plain = ["id", "words", "list", "v", "n", *STAMPS]
    return {row["id"]: row for row in table.read(plain, with_row_id=True).to_pylist()}


def changes_since(table, version):
    delta = table.delta(version)
    return (
        sorted(delta.inserted().read_all()["id"].to_pylist()),
        sorted(delta.updated().read_all()["id"].to_pylist()),
        sorted(delta.deleted_row_ids().read_all()["_rowid"].to_pylist()),
    )


def hard_drop(table, *names):
    changes = ColumnChanges(dropped=names, renamed={"n": "number"})
    indexes = index_stages(table, changes, rewritten=True)
    rewrite = rewrite_without(table, changes)
    for stage in (*plan_columns(table, changes).stages(), rewrite):
        table = commit_staged(stage(table))
    for stage in indexes:
        staged = stage(table)
        if staged is not None:
            table = commit_staged(staged)
    return table


def written_ids(table):
    return {
        number for fragment in table.fragments() for file in fragment.files for number in file.fields
    }  # fmt: skip


def test_a_hard_drop_changes_the_files_and_nothing_else(tmp_path):
    ref = TableRef(str(tmp_path / "t"))
    table = create_table(ref, schema())
    table = commit_staged(stage_append(table, rows("abcdefgh")))
    for column, kind in [("id", "BTREE"), ("secret", "BTREE"), ("words", "FTS"), ("v", "VECTOR"), ("n", "BTREE")]:  # fmt: skip
        table = commit_staged(stage_create_index(table, column, IndexKind[kind]))
    table = commit_staged(stage_append(table, rows("ijk", 8)))
    table = commit_staged(stage_upsert(table, rows("bdz", 20)))
    base = table.version - 2
    gone = filter_expression(table.schema, [Condition("id", "in", ["a", "i"])])
    table = commit_staged(stage_delete(table, gone))
    before, number = table, table.dataset.lance_schema.field("secret").id()

    after = hard_drop(table, "secret")

    expected = {key: {**row, "number": row["n"]} for key, row in stamped(before).items()}
    seen = after.read(["id", "words", "list", "v", "number", *STAMPS], with_row_id=True)
    assert {row["id"]: {**row, "n": row["number"]} for row in seen.to_pylist()} == expected
    assert changes_since(after, base) == changes_since(before, base)
    assert changes_since(after, before.version) == ([], [], [])
    assert number not in written_ids(after)
    states = list_indexes(after)
    assert {(one.column, one.kind) for one in states} == {
        ("id", IndexKind.BTREE),
        ("number", IndexKind.BTREE),
        ("words", IndexKind.FTS),
        ("v", IndexKind.VECTOR),
    }
    # Those that did not cover the newest rows before do not do so now.
    assert {one.column for one in states if one.tail} == {"words", "v"}
    assert {one.unindexed_rows for one in states if one.tail} == {5}
    for key, row in expected.items():
        for column, value in (("id", key), ("number", row["number"])):
            where = filter_expression(after.schema, [Condition(column, "=", value)])
            assert after.read(["id"], where)["id"].to_pylist() == [key]
    found = after.read(["id"], full_text_query="word1")["id"].to_pylist()
    assert sorted(found) == sorted(k for k, row in expected.items() if "word1" in row["words"])
    upserted = commit_staged(
        stage_upsert(
            after, rows("c", 50).drop_columns(["secret"]).rename_columns(after.schema.names)
        )
    )
    assert changes_since(upserted, after.version) == ([], ["c"], [])

    (dropped,) = (one for one in before.dataset.describe_indices() if one.field_names == ["secret"])
    places = [Path(ref.uri, "_indices", segment.uuid) for segment in dropped.segments]
    assert all(place.exists() for place in places)
    purge_versions(ref, after.version)
    assert not any(place.exists() for place in places)


def test_a_fragment_of_many_batches_stays_one_fragment(tmp_path):
    count = 3 * BATCH_ROWS + 1
    many = rows([f"r{number}" for number in range(count)])
    table = create_table(TableRef(str(tmp_path / "t")), many.schema, many)
    before = stamped(table)
    after = hard_drop_plain(table, "secret")
    assert [fragment.num_rows for fragment in after.fragments()] == [count]
    assert stamped(after) == before


def test_nothing_is_rewritten_where_no_file_has_the_column(tmp_path):
    table = create_table(TableRef(str(tmp_path / "t")), schema())
    assert rewrite_without(table, ColumnChanges(dropped=("secret",))) is None
    table = commit_staged(stage_append(table, rows("ab").drop_columns(["secret"])))
    assert rewrite_without(table, ColumnChanges(dropped=("secret",))) is None
    assert (
        rewrite_without(
            table,
            ColumnChanges(
                dropped=(
                    "secret",
                    "list",
                )
            ),
        )
        is not None
    )


def test_only_fragments_with_the_column_are_written_again(tmp_path):
    table = create_table(TableRef(str(tmp_path / "t")), schema())
    table = commit_staged(stage_append(table, rows("ab").drop_columns(["secret"])))
    table = commit_staged(stage_append(table, rows("cd", 2)))
    kept, changed = table.fragments()
    before = stamped(table)
    after = hard_drop(table, "secret")
    numbers = [fragment.id for fragment in after.fragments()]
    assert numbers[0] == kept.id
    assert changed.id not in numbers
    seen = after.read(["id", "words", "list", "v", "number", *STAMPS], with_row_id=True)
    assert {row["id"]: {**row, "n": row["number"]} for row in seen.to_pylist()} == {
        key: {**row, "number": row["n"]} for key, row in before.items()
    }


def test_a_rewrite_that_fails_removes_the_fragments_it_finished(tmp_path, monkeypatch):
    table = create_table(TableRef(str(tmp_path / "t")), schema())
    for start, ids in enumerate(("ab", "cd")):
        table = commit_staged(stage_append(table, rows(ids, start)))
    files = sorted(Path(table.ref.uri, "data").iterdir())
    real, calls = without_columns.RowStamps.put_on, []

    def fail_the_second_time(stamps, fragment):
        calls.append(fragment)
        if len(calls) > 1:
            raise StorageError("the disk is full")
        real(stamps, fragment)

    monkeypatch.setattr(without_columns.RowStamps, "put_on", fail_the_second_time)
    with pytest.raises(StorageError, match="the disk is full"):
        rewrite_without(table, ColumnChanges(dropped=("secret",)))
    left = set(Path(table.ref.uri, "data").iterdir()) - set(files)
    # The one being written when it failed is left for cleanup.
    assert len(left) == 1
    assert open_table(table.ref.at(None)).version == table.version


@pytest.mark.parametrize("space", ["plain", "with space % and ü"])
def test_blobs_of_every_kind_are_copied_byte_for_byte(tmp_path, space):
    outside = tmp_path / "outside"
    outside.write_bytes(b"far away")
    far = (outside.as_uri(),)
    ref = TableRef(str(tmp_path / space / "t"))
    fields = [blob_field("must", nullable=False), blob_field("b"), blob_field("doomed")]
    table = create_table(ref, schema(*fields))
    must = [INLINE, far, DEDICATED, PACKED, b"", far, INLINE]
    other = [None, DEDICATED, far, b"", PACKED, far, INLINE]
    doomed = [SECRET, None, SECRET * 20, b"", SECRET, None, None]
    data = rows("abcdefg", must=blobs(must), b=blobs(other), doomed=blobs(doomed))
    table = commit_staged(stage_append(table, data))
    where = filter_expression(table.schema, [Condition("id", "=", "g")])
    table = commit_staged(stage_delete(table, where))
    table = commit_staged(stage_append(table, rows("h", 9, must=blobs([b"h"]), b=blobs([None]), doomed=blobs([None]))))  # fmt: skip
    before = stamped(table)
    ids = {key: row["_rowid"] for key, row in before.items()}
    described = {name: describe_blobs(table, name, list(ids.values())) for name in ("must", "b")}
    assert secrets_in(ref)

    after = hard_drop(table, "doomed")

    values = after.read(["id", "words", "list", "v", "number", *STAMPS], with_row_id=True)
    assert {r["id"]: {**r, "n": r["number"]} for r in values.to_pylist()} == {
        key: {**row, "number": row["n"]} for key, row in before.items()
    }
    for name, given in (("must", [*must[:6], b"h"]), ("b", [*other[:6], None])):
        wanted = [b"far away" if value == far else value for value in given]
        assert read_blobs(after, name, list(ids.values())) == wanted
        assert describe_blobs(after, name, list(ids.values())) == described[name]
    # Once more, from files that the first rewrite made of several parts.
    again = commit_staged(stage_create_index(after, "id", IndexKind.BTREE))
    again = hard_drop_plain(again, "words")
    assert read_blobs(again, "must", list(ids.values()))[1:3] == [b"far away", DEDICATED]

    cleaned = purge_versions(ref, again.version)
    assert cleaned.versions_removed == again.version - 1
    assert not secrets_in(ref)
    assert open_table(ref).versions() == [again.version]
    assert read_blobs(open_table(ref), "b", list(ids.values()))[3:6] == [b"", PACKED, b"far away"]
    assert purge_versions(ref, again.version) == Cleaned(0, 0)
    with pytest.raises(VersionMissing):
        open_table(ref.at(2))


def hard_drop_plain(table, name):
    rewrite = rewrite_without(table, ColumnChanges(dropped=(name,)))
    for stage in (*plan_columns(table, ColumnChanges(dropped=(name,))).stages(), rewrite):
        table = commit_staged(stage(table))
    return table


def secrets_in(ref):
    return [
        path for path in Path(ref.uri).rglob("*") if path.is_file() and SECRET in path.read_bytes()
    ]


def test_a_purge_keeps_what_a_lance_tag_or_branch_needs(tmp_path):
    ref = TableRef(str(tmp_path / "t"))
    table = commit_staged(stage_append(create_table(ref, schema()), rows("ab")))
    table.dataset.tags.create("mine", 1)
    create_branch(table, "b")
    for number in range(3):
        table = commit_staged(stage_append(table, rows([f"x{number}"], 5)))
    assert purge_versions(ref, table.version).versions_removed == 2
    assert open_table(ref).versions() == [1, 2, 5]
    assert open_table(ref.on("b")).count_rows() == 2


def test_a_purged_table_is_gone_and_purging_it_again_does_nothing(tmp_path):
    ref = TableRef(str(tmp_path / "t"))
    table = commit_staged(stage_append(create_table(ref, schema()), rows("ab")))
    create_branch(table, "b")
    purge_table(ref)
    assert not table_exists(ref)
    assert not Path(ref.uri).exists()
    purge_table(ref)
    assert purge_versions(ref, 5) == Cleaned(0, 0)
