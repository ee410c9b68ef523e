"""Rewrites and restores as staged transactions."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage, stage_create_index
from omnigraph.storage.tables.inline_residual import optimize_indices
from omnigraph.storage.tables.rewriting import (
    Merged,
    merge_task,
    run_task,
    stage_restore,
    stage_rewritten,
)
from omnigraph.storage.tables.staging import (
    new_transaction_uuid,
    stage_append,
    stage_delete_ids,
    with_uuid,
)
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMoved
from omnigraph.storage.tables.transactions import TransactionKind, transaction_at
from tests.opened import row_ids
from tests.storage.table_places import contents, new_table, rows


def having(table, column, value):
    return filter_expression(table.schema, [Condition(column, "=", value)])


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
    assert (facts.uuid, facts.operation) == (uuid, TransactionKind.RESTORE)


def stage_merge(table):
    """All fragments as one."""
    numbers = [one.id for one in table.fragments()]
    return stage_rewritten(table, [Merged.of(numbers, run_task(table, merge_task(table, numbers)))])


def test_a_rewrite_is_one_version_and_keeps_rows_and_their_ids(ref):
    table = grown(ref)
    rewritten = commit_staged(stage_merge(table))
    assert rewritten.version == table.version + 1
    assert transaction_at(rewritten).operation is TransactionKind.REWRITE
    assert len(rewritten.fragments()) == 1
    assert row_ids(rewritten) == row_ids(table)
    assert contents(rewritten) == contents(table)


def test_a_rewrite_loses_to_a_writer_that_came_first(ref):
    table = grown(ref)
    staged = stage_merge(table)
    winner = commit_staged(stage_append(table, rows("w")))
    with pytest.raises(TableMoved):
        commit_staged(staged)
    assert open_table(ref).version == winner.version


# ------------------------------------------------------------------ merging chosen fragments


def merged(table, *groups):
    results = [Merged.of(one, run_task(table, merge_task(table, one))) for one in groups]
    return commit_staged(stage_rewritten(table, results))


def test_chosen_fragments_are_merged_though_others_lie_between_them(ref):
    table = commit_staged(stage_create_index(grown(ref), "id", IndexKind.BTREE))
    table = commit_staged(stage_append(table, rows("e")))
    after = merged(table, [0, 2], [3, 4])
    assert sorted(one.num_rows for one in after.fragments()) == [1, 2, 2]
    assert (row_ids(after), contents(after)) == (row_ids(table), contents(table))
    inserted = after.delta(2).inserted().read_all()
    assert set(inserted["id"].to_pylist()) == set("bcde")
    assert coverage(after, "id", IndexKind.BTREE) is Coverage.DEGRADED
    folded = optimize_indices(after)
    assert coverage(folded, "id", IndexKind.BTREE) is Coverage.INDEXED
    for name in "abcde":
        assert len(folded.read(["n"], having(folded, "id", name))) == 1


def test_a_merge_task_runs_elsewhere_and_moves_nothing(ref):
    table = grown(ref)
    task = merge_task(table, [0, 1, 2, 3], batch_rows=1)
    portable = type(task).from_json(task.json())
    result = run_task(open_table(table.ref), portable)
    assert open_table(ref).version == table.version
    again = type(result).from_json(result.json())
    whole = Merged.of([0, 1, 2, 3], again)
    assert contents(commit_staged(stage_rewritten(table, [whole]))) == contents(table)


def test_a_merge_of_fragments_that_are_gone_is_refused(ref):
    table = grown(ref)
    staged = Merged.of([0, 1], run_task(table, merge_task(table, [0, 1])))
    after = merged(table, [1, 2])
    with pytest.raises(StorageError, match="no longer has the fragments"):
        stage_rewritten(after, [staged])
    assert open_table(ref).version == after.version


def test_merging_takes_deleted_rows_out(ref):
    table = new_table(ref, rows("abcd"))
    table = commit_staged(stage_delete_ids(table, pa.array(["a", "b"])))
    after = merged(table, [0])
    assert [fragment.num_deletions for fragment in after.fragments()] == [0]
    assert row_ids(after) == {"c": 2, "d": 3}


def test_the_planner_of_lance_fills_in_the_same_options(ref):
    """A newer Lance that wants others is noticed here."""
    from lance.optimize import Compaction

    table = grown(ref)
    (theirs,) = (json.loads(task.json()) for task in Compaction.plan(table.dataset, {}).tasks)
    ours = json.loads(merge_task(table, [0, 1, 2, 3]).json())
    assert ours["task"] == theirs["task"]
    chosen = {"target_rows_per_fragment": 4, "has_eager_remappable_index": True}
    assert ours["options"] == {**theirs["options"], **chosen}
