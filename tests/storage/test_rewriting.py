"""Rewrites and restores as staged transactions."""

from __future__ import annotations

import pytest

from omnigraph.storage.tables.rewriting import stage_restore, stage_rewrite
from omnigraph.storage.tables.staging import new_transaction_uuid, stage_append, with_uuid
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMoved
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import Operation, transaction_at
from tests.storage.table_places import contents, new_table, row_ids, rows


@pytest.fixture
def ref(tmp_path):
    return TableRef(str(tmp_path / "table"))


def grown(ref):
    """Four rows, `a` to `d`, one version and fragment each; version 2 holds only `a`."""
    table = new_table(ref, rows("a"))
    for name in "bcd":
        table = commit_staged(stage_append(table, rows(name)))
    return table


def test_restore_brings_an_old_version_back_as_a_new_one(ref):
    table = grown(ref)
    restored = commit_staged(stage_restore(table, 2))
    assert restored.version == table.version + 1
    assert contents(open_table(ref)) == {"a": 0}
    assert contents(open_table(ref.at(table.version))) == contents(table)


def test_restore_works_on_a_branch_and_leaves_main_alone(ref):
    branch = create_branch(new_table(ref, rows("a")), "b")
    moved = commit_staged(stage_append(branch, rows("b")))
    assert contents(commit_staged(stage_restore(moved, 2))) == {"a": 0}
    assert open_table(ref).version == 2


def test_a_restore_carries_the_uuid_chosen_for_it(ref):
    table = grown(ref)
    uuid = new_transaction_uuid()
    restored = commit_staged(with_uuid(stage_restore(table, 2), uuid))
    facts = transaction_at(restored)
    assert (facts.uuid, facts.operation) == (uuid, Operation.RESTORE)


def test_a_rewrite_is_one_version_and_keeps_rows_and_their_ids(ref):
    table = grown(ref)
    rewritten = commit_staged(stage_rewrite(table, 1000))
    assert rewritten.version == table.version + 1
    assert transaction_at(rewritten).operation is Operation.REWRITE
    assert len(rewritten.fragments()) == 1
    assert row_ids(rewritten) == row_ids(table)
    assert contents(rewritten) == contents(table)


def test_fragments_of_the_target_size_are_left_alone(ref):
    table = grown(ref)
    assert stage_rewrite(table, 1) is None
    whole = commit_staged(stage_rewrite(table, 4))
    assert stage_rewrite(whole, 4) is None


def test_a_rewrite_loses_to_a_writer_that_came_first(ref):
    table = grown(ref)
    staged = stage_rewrite(table, 1000)
    winner = commit_staged(stage_append(table, rows("w")))
    with pytest.raises(TableMoved):
        commit_staged(staged)
    assert open_table(ref).version == winner.version
