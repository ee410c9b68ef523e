"""What commits on the spot: compaction, index optimisation, schema changes, cleanup."""

import pyarrow as pa
import pytest

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.filters.pushdown import Condition, filter_expression
from omnigraph.storage.tables import inline_residual
from omnigraph.storage.tables.blobs.columns import blob_field
from omnigraph.storage.tables.indexes import (
    Coverage,
    build_segment,
    coverage,
    list_indexes,
    stage_create_index,
    stage_index_segments,
)
from omnigraph.storage.tables.rewriting import stage_restore
from omnigraph.storage.tables.staging import stage_append, stage_delete_keys
from omnigraph.storage.tables.table import create_table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMissing, TableMoved, VersionMissing
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import Operation, transactions_after
from tests.storage.table_places import contents, new_table, row_ids, rows


@pytest.fixture
def ref(tmp_path):
    return TableRef(str(tmp_path / "table"))


def grown(ref, count=4):
    """A table with an index and one fragment per letter."""
    table = new_table(ref, rows("a"))
    table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    for name in "bcdefgh"[: count - 1]:
        table = commit_staged(stage_append(table, rows(name)))
    return table


def test_compaction_merges_fragments_and_keeps_rows_ids_and_changes(ref):
    table = inline_residual.optimize_indices(grown(ref))
    done = inline_residual.compact(table)
    assert (done.fragments_removed, done.fragments_added) == (4, 1)
    assert done.table.version == table.version + 2
    assert open_table(ref).version == done.table.version
    assert row_ids(done.table) == row_ids(table)
    assert done.table.delta(2).inserted().read_all().num_rows == 3
    assert coverage(done.table, "id", IndexKind.BTREE) is Coverage.INDEXED
    kinds = [f.operation for f in transactions_after(done.table, table.version, done.table.version)]
    assert kinds == [Operation.RESERVE_FRAGMENTS, Operation.REWRITE]


def test_compaction_does_not_mix_indexed_and_unindexed_fragments(ref):
    # So a run that compacts before it reindexes leaves work for the next run.
    assert inline_residual.compact(grown(ref)).fragments_removed == 3


def test_compaction_without_work_moves_nothing(ref):
    table = inline_residual.compact(grown(ref)).table
    assert inline_residual.plan_compaction(table) == []
    done = inline_residual.compact(table)
    assert (done.fragments_removed, done.fragments_added) == (0, 0)
    assert open_table(ref).version == table.version


def test_compaction_tasks_run_elsewhere(ref):
    table = inline_residual.optimize_indices(grown(ref))
    (task,) = inline_residual.plan_compaction(table)
    portable = type(task).from_json(task.json())
    result = inline_residual.run_compaction_task(open_table(table.ref), portable)
    assert open_table(ref).version == table.version, "rewriting moves nothing"
    again = type(result).from_json(result.json())
    assert inline_residual.commit_compaction(table, [again]).fragments_removed == 4


def test_compaction_takes_deleted_rows_out(ref):
    table = new_table(ref, rows("abcd"))
    table = commit_staged(stage_delete_keys(table, pa.array(["a", "b"])))
    compacted = inline_residual.compact(table).table
    assert [fragment.num_deletions for fragment in compacted.fragments()] == [0]
    assert row_ids(compacted) == {"c": 2, "d": 3}


def test_compaction_keeps_blobs_byte_for_byte(ref):
    from omnigraph.storage.tables.blobs.columns import stored_form
    from omnigraph.storage.tables.blobs.reading import read_at

    schema = pa.schema([pa.field("id", pa.utf8(), nullable=False), blob_field("b")])
    table = create_table(ref, schema)
    values = [b"", None, b"x" * 10, bytes(range(256)) * 400, b"y" * 5_000_000]
    for number, value in enumerate(values):
        data = pa.table({"id": [str(number)], "b": pa.array([value], pa.large_binary())})
        table = commit_staged(stage_append(table, stored_form(data, schema)))
    done = inline_residual.compact(table)
    assert done.fragments_removed == len(values)
    addresses = done.table.read([], with_row_address=True)["_rowaddr"].to_pylist()
    assert read_at(done.table, "b", addresses) == values


def test_optimize_indices_covers_the_tail(ref):
    table = grown(ref)
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.DEGRADED
    optimized = inline_residual.optimize_indices(table)
    assert optimized.version == table.version + 1
    assert coverage(optimized, "id", IndexKind.BTREE) is Coverage.INDEXED
    assert table.version == optimized.version - 1, "the handle given stays where it was"


def test_folding_covers_every_index_and_leaves_one_part_of_a_btree(ref):
    table = grown(ref)
    table = commit_staged(stage_create_index(table, "words", IndexKind.FTS))
    parts = [build_segment(table, "n", IndexKind.BTREE, [number]) for number in (0, 1, 2, 3)]
    table = commit_staged(stage_index_segments(table, "n", IndexKind.BTREE, parts))
    table = commit_staged(stage_append(table, rows("z", 9, words="late words")))
    folded = inline_residual.fold_indexes(table)
    assert all(state.coverage is Coverage.INDEXED for state in list_indexes(folded))
    segments = {state.column: state.segments for state in list_indexes(folded)}
    assert (segments["id"], segments["n"]) == (1, 1)
    assert inline_residual.fold_indexes(folded) is folded
    where = filter_expression(folded.schema, [Condition("n", "=", 9)])
    assert folded.read(["id"], where)["id"].to_pylist() == ["z"]


def test_optimize_indices_can_be_told_which(ref):
    table = commit_staged(stage_create_index(grown(ref), "n", IndexKind.BTREE))
    table = commit_staged(stage_append(table, rows("x")))
    optimized = inline_residual.optimize_indices(table, ["n_btree"])
    assert coverage(optimized, "n", IndexKind.BTREE) is Coverage.INDEXED
    assert coverage(optimized, "id", IndexKind.BTREE) is Coverage.DEGRADED


@pytest.mark.parametrize(
    "act",
    [
        inline_residual.compact,
        inline_residual.optimize_indices,
        lambda table: inline_residual.set_field_metadata(table, "n", {"a": "b"}),
        lambda table: inline_residual.set_schema_metadata(table, {"a": "b"}),
        lambda table: commit_staged(stage_restore(table, 1)),
    ],
)
def test_nothing_is_done_on_a_table_that_moved(ref, act):
    table = grown(ref)
    winner = commit_staged(stage_append(table, rows("w")))
    with pytest.raises(TableMoved):
        act(table)
    assert open_table(ref).version == winner.version
    assert "w" in contents(open_table(ref))


def test_cleanup_removes_the_listed_versions_only(ref):
    table = grown(ref)
    assert table.versions() == [1, 2, 3, 4, 5, 6]
    cleaned = inline_residual.cleanup_versions(table, [1, 3, 4])
    assert cleaned.versions_removed == 3
    assert cleaned.bytes_removed > 0
    assert open_table(ref).versions() == [2, 5, 6]
    with pytest.raises(VersionMissing):
        open_table(ref.at(3))
    assert contents(open_table(ref.at(2))) == {"a": 0}
    assert contents(open_table(ref)) == contents(table)
    nothing = inline_residual.cleanup_versions(table, [])
    assert (nothing.versions_removed, nothing.bytes_removed) == (0, 0)


def test_cleanup_of_a_branch_leaves_its_parent_alone(ref):
    branch = create_branch(new_table(ref, rows("a")), "b")
    for name in "xyz":
        branch = commit_staged(stage_append(branch, rows(name)))
    inline_residual.cleanup_versions(branch, [2, 3, 4])
    assert open_table(ref.on("b")).versions() == [5]
    assert open_table(ref).versions() == [1, 2]
    assert set(contents(open_table(ref.on("b")))) == {"a", "x", "y", "z"}


def test_a_table_is_dropped_whole_and_may_be_gone_already(ref):
    create_branch(grown(ref), "b")
    inline_residual.drop_table(ref)
    with pytest.raises(TableMissing):
        open_table(ref)
    inline_residual.drop_table(ref)
    assert new_table(ref).version == 1
