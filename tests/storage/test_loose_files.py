"""Data files that no version of a table names: written, read back, removed, never too many."""

import pyarrow as pa
import pytest

from omnigraph.storage.tables.blobs.blob_columns import blob_field
from omnigraph.storage.tables.inline_residual import cleanup_versions
from omnigraph.storage.tables.loose_files import (
    LooseFile,
    data_files,
    read_data_file,
    remove_loose_files,
)
from omnigraph.storage.tables.staging import stage_append_fragments, write_fragments
from omnigraph.storage.tables.table import Table, create_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef

ROWS = pa.table({"id": ["a", "b", "c"], "n": [1, 2, None]})


@pytest.fixture
def table(tmp_path):
    return create_table(TableRef(str(tmp_path / "t")), ROWS.schema)


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "t" / "data").rglob("*") if path.is_file())


def write(table, *tables):
    loose = LooseFile(table.ref)
    for rows in tables:
        for batch in rows.to_batches():
            loose.add(batch)
    loose.close()
    return loose.name


def test_rows_of_any_schema_come_back_in_their_order(table):
    rows = pa.table(
        {
            "0rec": [3, 1, 2],
            "blob": pa.StructArray.from_arrays(
                [pa.array([b"x", None, b""], pa.large_binary()), pa.array([None, None, "u"])],
                names=["data", "uri"],
                mask=pa.array([False, True, False]),
            ),
            "vector": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2)),
        }
    )
    name = write(table, rows.slice(0, 2), rows.slice(2))
    assert pa.Table.from_batches(read_data_file(table.ref, name)) == rows
    narrow = pa.Table.from_batches(read_data_file(table.ref, name, ["0rec"]))
    assert narrow == rows.select(["0rec"])


def test_without_rows_there_is_no_file(table, tmp_path):
    assert write(table) is None
    assert files(tmp_path) == []


def test_fragments_can_be_read_before_they_are_committed(table):
    fragments = write_fragments(table, ROWS)
    (name,) = data_files(fragments)
    assert pa.Table.from_batches(read_data_file(table.ref, name, ["n"])) == ROWS.select(["n"])


def test_files_no_version_names_are_removed_with_their_blobs(tmp_path):
    schema = pa.schema([pa.field("id", pa.utf8()), blob_field("body")])
    table = create_table(TableRef(str(tmp_path / "t")), schema)
    rows = pa.table({"id": ["a"], "body": pa.array([b"x" * 200_000], pa.large_binary())})
    doomed, kept = write_fragments(table, rows), write_fragments(table, rows)
    loose = write(table, ROWS)
    assert len(files(tmp_path)) == 5
    remove_loose_files(table.ref, [loose], doomed)
    (name,) = data_files(kept)
    assert [file for file in files(tmp_path) if file.endswith(".lance")] == [name]
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize("before_mine", [0, 2])
@pytest.mark.parametrize("cleaned", [False, True])
def test_a_file_that_any_later_version_names_is_kept(table, tmp_path, before_mine, cleaned):
    early = newest = table
    mine, never = write_fragments(early, ROWS), write_fragments(early, ROWS)
    for number in range(3):
        wrote = mine if number == before_mine else write_fragments(newest, ROWS)
        newest = commit_staged(stage_append_fragments(newest, wrote))
    if cleaned:  # the version right after the one that the files were written for is not there
        cleanup_versions(newest, [early.version + 1])
    loose = write(early, ROWS)
    before = files(tmp_path)
    remove_loose_files(early.ref, [loose], mine)
    assert files(tmp_path) == [name for name in before if name != loose]
    remove_loose_files(early.ref, [], [*mine, *never])
    assert set(before) - set(files(tmp_path)) == {loose, *data_files(never)}


def test_files_of_the_next_version_are_found_without_a_list_of_versions(table, monkeypatch):
    mine = write_fragments(table, ROWS)
    commit_staged(stage_append_fragments(table, mine))
    monkeypatch.setattr(Table, "versions", None)
    remove_loose_files(table.ref, [write(table, ROWS)], mine)
    with pytest.raises(TypeError):
        remove_loose_files(table.ref, [], write_fragments(table, ROWS))


def test_files_that_are_gone_and_tables_that_are_gone_are_no_failure(table, tmp_path):
    name = write(table, ROWS)
    remove_loose_files(table.ref, [name])
    remove_loose_files(table.ref, [name])
    remove_loose_files(TableRef(str(tmp_path / "nowhere"), 1), [name])
    assert not (tmp_path / "nowhere").exists()
    assert files(tmp_path) == []
