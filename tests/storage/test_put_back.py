"""A table that was replaced by a copy of itself, which was then written to: version numbers repeat."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.table_indexes import list_indexes, stage_create_index
from omnigraph.storage.tables.lance_import import session, transaction_name
from omnigraph.storage.tables.staging import stage_append, stage_upsert
from omnigraph.storage.tables.table import create_table, open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import transaction_at, transaction_uuid


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids), "n": list(range(len(ids)))})


@pytest.fixture
def put_back(tmp_path):
    """A function that puts a copy of a table, made at version 2, in its place."""
    ref = TableRef(str(tmp_path / "t"))
    first = rows(*(f"a{at}" for at in range(60)))
    table = create_table(ref, first.schema, first)
    commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    shutil.copytree(tmp_path / "t", tmp_path / "copy")

    def replace() -> TableRef:
        shutil.rmtree(tmp_path / "t")
        shutil.copytree(tmp_path / "copy", tmp_path / "t")
        return ref

    return replace


def write(ref: TableRef, prefix: str, new: int, old: int) -> None:
    """Five upserts, each of so many new rows and so many that are there."""
    for step in range(5):
        ids = [f"{prefix}{at}" for at in range(new * step, new * (step + 1))]
        known = [f"a{(7 * step + at) % 60}" for at in range(old)]
        commit_staged(stage_upsert(open_table(ref), rows(*ids, *known)))


def test_a_version_has_its_own_indexes_and_transaction(put_back):
    ref = put_back()
    committed = commit_staged(stage_create_index(open_table(ref), "n", IndexKind.BTREE))
    assert {state.column for state in list_indexes(open_table(ref))} == {"id", "n"}
    put_back()
    commit_staged(stage_append(open_table(ref), rows("new")))
    table = open_table(ref)
    assert table.version == committed.version
    assert {state.column for state in list_indexes(table)} == {"id"}
    assert transaction_at(table).uuid != transaction_uuid(committed)


def test_caches_are_kept_while_nothing_was_replaced(put_back):
    ref = put_back()
    before = session(ref.uri)
    write(ref, "x", 3, 3)
    for version in (1, 2, 3, 4, 5):
        assert open_table(ref.at(version)).dataset.session().is_same_as(before)


def test_the_name_of_a_transaction_is_the_one_in_the_manifest(put_back):
    table = open_table(put_back())
    manifest = table.dataset._ds.serialized_manifest()
    facts = transaction_at(table)
    assert transaction_name(manifest) == f"{facts.read_version}-{facts.uuid}.txn".encode()
    assert transaction_name(b"no manifest") == b""
