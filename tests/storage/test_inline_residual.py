"""What commits on the spot: index optimisation, schema changes, cleanup."""

import pytest

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables import inline_residual
from omnigraph.storage.tables.indexing.table_indexes import (
    Coverage,
    coverage,
    list_indexes,
    stage_create_index,
)
from omnigraph.storage.tables.rewriting import stage_restore
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMissing, TableMoved, VersionMissing
from tests.storage.table_places import contents, new_table, rows


def grown(ref, count=4):
    """A table with an index and one fragment per letter."""
    table = new_table(ref, rows("a"))
    table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    for name in "bcdefgh"[: count - 1]:
        table = commit_staged(stage_append(table, rows(name)))
    return table


def test_optimize_indices_covers_the_tail(ref):
    table = grown(ref)
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.DEGRADED
    optimized = inline_residual.optimize_indices(table)
    assert optimized.version == table.version + 1
    assert coverage(optimized, "id", IndexKind.BTREE) is Coverage.INDEXED
    assert table.version == optimized.version - 1, "the handle given stays where it was"


def test_a_btree_alone_gets_a_new_part_without_merging(ref):
    table = commit_staged(stage_create_index(grown(ref), "words", IndexKind.FTS))
    table = commit_staged(stage_append(table, rows("z", 9)))
    for names in (None, ["id_btree", "words_fts"]):
        with pytest.raises(ValueError, match="words_fts"):
            inline_residual.optimize_indices(table, names, 0)
    folded = inline_residual.optimize_indices(table, ["id_btree"], 0)
    (state,) = (one for one in list_indexes(folded) if one.column == "id")
    assert (state.tail, state.parts) == ((), (frozenset({0}), frozenset({1, 2, 3, 4})))
    where = filter_expression(folded.schema, [Condition("id", "=", "z")])
    assert folded.read(["n"], where)["n"].to_pylist() == [9]


def test_optimize_indices_can_be_told_which(ref):
    table = commit_staged(stage_create_index(grown(ref), "n", IndexKind.BTREE))
    table = commit_staged(stage_append(table, rows("x")))
    optimized = inline_residual.optimize_indices(table, ["n_btree"])
    assert coverage(optimized, "n", IndexKind.BTREE) is Coverage.INDEXED
    assert coverage(optimized, "id", IndexKind.BTREE) is Coverage.DEGRADED


@pytest.mark.parametrize(
    "act",
    [
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
