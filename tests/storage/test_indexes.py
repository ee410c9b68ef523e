"""Building indexes and telling how much of a table they cover."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.lang.schema.catalog import PROPERTY_ID_METADATA
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables import inline_residual
from omnigraph.storage.tables.indexing import index_kinds
from omnigraph.storage.tables.indexing.table_indexes import (
    Coverage,
    build_segment,
    coverage,
    list_indexes,
    stage_create_index,
    stage_drop_index,
    stage_index_segments,
)
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.staging import stage_append, stage_upsert
from omnigraph.storage.tables.table import create_table, open_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import NothingToIndex
from tests.storage.table_places import new_table, rows

VECTOR = pa.list_(pa.float32(), 2)


def vectors(ref, values):
    schema = pa.schema([pa.field("id", pa.utf8(), nullable=False), pa.field("v", VECTOR)])
    data = pa.table(
        {"id": [str(i) for i in range(len(values))], "v": pa.array(values, VECTOR)}, schema=schema
    )
    return commit_staged(stage_append(create_table(ref, schema), data))


def nearest(table, query, k):
    options = {"column": "v", "q": query, "k": k, "refine_factor": 5}
    return table.read(["id"], nearest=options)["id"].to_pylist()


def by_text(table, words):
    query = lance_module("query").MatchQuery(words, "words")
    return sorted(table.read(["id"], full_text_query=query)["id"].to_pylist())


@pytest.mark.parametrize(
    ("column", "kind"), [("id", IndexKind.BTREE), ("n", IndexKind.BTREE), ("words", IndexKind.FTS)]
)
@pytest.mark.parametrize("size", [0, 1, 30])
def test_an_index_of_any_size_is_staged_and_covers_the_table(ref, column, kind, size):
    table = new_table(ref, rows([f"k{i}" for i in range(size)]))
    assert coverage(table, column, kind) is Coverage.NONE
    staged = stage_create_index(table, column, kind)
    assert open_table(ref).version == table.version, "staging moves nothing"
    assert not staged.changes_nothing
    assert coverage(commit_staged(staged), column, kind) is Coverage.INDEXED


@pytest.mark.parametrize("values", [[[0.0, 0.0]], [None, [1.0, 2.0]], [[1.0, 1.0]] * 5])
def test_one_vector_is_enough(ref, values):
    table = commit_staged(stage_create_index(vectors(ref, values), "v", IndexKind.VECTOR))
    assert coverage(table, "v", IndexKind.VECTOR) is Coverage.INDEXED
    assert len(nearest(table, [1.0, 1.0], 9)) == sum(value is not None for value in values)


@pytest.mark.parametrize("values", [[], [None, None]])
def test_a_vector_column_without_values_cannot_be_indexed_yet(ref, values):
    table = vectors(ref, values)
    with pytest.raises(NothingToIndex, match="no row"):
        stage_create_index(table, "v", IndexKind.VECTOR)


def test_the_vector_index_finds_the_nearest_rows(ref):
    points = np.random.default_rng(7).normal(size=(500, 2)).astype("float32")
    table = commit_staged(stage_create_index(vectors(ref, points.tolist()), "v", IndexKind.VECTOR))
    exact = np.argsort(((points - [0.1, -0.2]) ** 2).sum(axis=1))[:5]
    assert nearest(table, [0.1, -0.2], 5) == [str(i) for i in exact]


def test_large_vector_tables_get_several_partitions(ref, monkeypatch):

    monkeypatch.setattr(index_kinds, "ROWS_PER_PARTITION", 100)
    points = np.random.default_rng(7).normal(size=(400, 2)).astype("float32").tolist()
    table = commit_staged(stage_create_index(vectors(ref, points), "v", IndexKind.VECTOR))
    assert table.dataset.stats.index_stats("v_vector")["indices"][0]["num_partitions"] == 4


def test_coverage_falls_with_new_rows_and_returns_with_optimize(ref):
    table = new_table(ref, rows("ab"))
    for column, kind in (("id", IndexKind.BTREE), ("words", IndexKind.FTS)):
        table = commit_staged(stage_create_index(table, column, kind))
    table = commit_staged(stage_append(table, rows("cde", words="tail")))
    for state in list_indexes(table):
        theirs = table.dataset.stats.index_stats(state.name)
        assert len(state.tail) == theirs["num_unindexed_fragments"] == 1
        assert state.unindexed_rows == theirs["num_unindexed_rows"] == 3
        assert state.coverage is Coverage.DEGRADED
    assert by_text(table, "tail") == ["c", "d", "e"]
    table = inline_residual.optimize_indices(table)
    assert {state.coverage for state in list_indexes(table)} == {Coverage.INDEXED}
    assert by_text(table, "tail") == ["c", "d", "e"]


def test_updated_rows_are_unindexed_until_optimize_but_found(ref):
    table = new_table(ref, rows("abc", words="stale"))
    table = commit_staged(stage_create_index(table, "words", IndexKind.FTS))
    table = commit_staged(stage_upsert(table, rows("b", words="fresh")))
    assert coverage(table, "words", IndexKind.FTS) is Coverage.DEGRADED
    for _ in range(2):
        assert by_text(table, "fresh") == ["b"]
        assert by_text(table, "stale") == ["a", "c"]
        table = inline_residual.optimize_indices(table)


def test_one_column_can_have_two_kinds_of_index(ref):
    table = new_table(ref, rows("ab"))
    for kind in (IndexKind.BTREE, IndexKind.FTS):
        table = commit_staged(stage_create_index(table, "words", kind))
    assert {state.kind for state in list_indexes(table)} == {IndexKind.BTREE, IndexKind.FTS}
    where = filter_expression(table.schema, [Condition("words", "=", "word")])
    plan = table.dataset.scanner(filter=where.lance_filter).explain_plan(verbose=True)
    assert "BTree" in plan
    assert by_text(table, "words") == ["a", "b"], "stemmed, so the inverted index answered"


def test_building_again_replaces_the_index(ref):
    table = new_table(ref, rows("ab", words="one"))
    table = commit_staged(stage_create_index(table, "words", IndexKind.FTS))
    table = commit_staged(stage_append(table, rows("c", words="one")))
    table = commit_staged(stage_create_index(table, "words", IndexKind.FTS))
    (state,) = list_indexes(table)
    assert (state.segments, state.coverage) == (1, Coverage.INDEXED)
    assert by_text(table, "one") == ["a", "b", "c"]


def test_segments_built_apart_make_one_index(ref):
    table = new_table(ref, rows("ab", words="first"))
    table = commit_staged(stage_append(table, rows("cd", words="second")))
    numbers = [fragment.id for fragment in table.fragments()]
    for column, kind in (("id", IndexKind.BTREE), ("words", IndexKind.FTS)):
        segments = [
            pickle.loads(pickle.dumps(build_segment(open_table(table.ref), column, kind, [number])))
            for number in numbers
        ]
        table = commit_staged(stage_index_segments(table, column, kind, segments))
        assert coverage(table, column, kind) is Coverage.INDEXED
    assert by_text(table, "first") == ["a", "b"]
    assert by_text(table, "second") == ["c", "d"]


def test_an_index_is_dropped_by_name(ref):
    table = new_table(ref, rows("ab"))
    table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    (state,) = list_indexes(table)
    assert state.name == "id_btree"
    table = commit_staged(stage_drop_index(table, state.name))
    assert list_indexes(table) == []


def test_columns_that_differ_only_in_case_have_indexes_of_their_own(ref):
    schema = pa.schema([pa.field("id", pa.utf8()), pa.field("Id", pa.utf8())])
    data = pa.table({"id": ["a", "b"], "Id": ["b", "c"]}, schema=schema)
    table = commit_staged(stage_append(create_table(ref, schema), data))
    table = commit_staged(stage_create_index(table, "Id", IndexKind.BTREE))
    assert coverage(table, "Id", IndexKind.BTREE) is Coverage.INDEXED
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.NONE
    where = filter_expression(table.schema, [Condition("Id", "=", "b")])
    assert table.read(["id"], where)["id"].to_pylist() == ["a"]


def test_lance_types_and_names_of_the_indexes_stay_what_they_are_on_disk(ref):
    table = new_table(ref, rows("ab"))
    for kind in (IndexKind.BTREE, IndexKind.FTS):
        table = commit_staged(stage_create_index(table, "words", kind))
    listed = {entry.name: entry.index_type for entry in table.dataset.describe_indices()}
    assert listed == {"words_btree": "BTree", "words_fts": "Inverted"}


def property_field(name, kind, number):
    return pa.field(name, kind, metadata={PROPERTY_ID_METADATA: str(number)})


def used_by(table, column, value):
    """The ids found by equality, and whether an index was asked."""
    where = filter_expression(table.schema, [Condition(column, "=", value)])
    plan = table.dataset.scanner(columns=["id"], filter=where.lance_filter).explain_plan()
    return table.read(["id"], where)["id"].to_pylist(), "ScalarIndexQuery" in plan


def test_a_renamed_property_and_a_new_one_under_its_old_name_both_get_an_index(ref):
    schema = pa.schema([pa.field("id", pa.utf8()), property_field("x", pa.int64(), 7)])
    data = pa.table({"id": ["a", "b"], "x": [1, 2]}, schema=schema)
    table = commit_staged(stage_append(create_table(ref, schema), data))
    table = commit_staged(stage_create_index(table, "x", IndexKind.BTREE))
    changes = ColumnChanges(added=(property_field("x", pa.int64(), 8),), renamed={"x": "y"})
    for stage in plan_columns(table, changes).stages():
        table = commit_staged(stage(table))
    assert coverage(table, "y", IndexKind.BTREE) is Coverage.INDEXED
    assert coverage(table, "x", IndexKind.BTREE) is Coverage.NONE
    more = pa.table({"id": ["c"], "y": [3], "x": [9]}, schema=table.schema)
    table = commit_staged(stage_append(table, more))
    for column in ("x", "y"):
        table = commit_staged(stage_create_index(table, column, IndexKind.BTREE))
    assert {(one.name, one.column, one.tail) for one in list_indexes(table)} == {
        ("p7_btree", "y", ()),
        ("p8_btree", "x", ()),
    }
    assert used_by(table, "y", 1) == (["a"], True)
    assert used_by(table, "x", 9) == (["c"], True)
    assert used_by(table, "x", 1) == ([], True)


def test_an_index_that_has_another_name_is_built_again_under_that_name(ref):
    # Graphs made earlier have indexes named by their columns.
    schema = pa.schema([pa.field("id", pa.utf8()), property_field("x", pa.int64(), 7)])
    data = pa.table({"id": ["a", "b"], "x": [1, 2]}, schema=schema)
    table = commit_staged(stage_append(create_table(ref, schema), data))
    numbers = [fragment.id for fragment in table.fragments()]
    old = table.dataset.create_index_uncommitted("x", "BTREE", name="x_btree_idx", fragment_ids=numbers)  # fmt: skip
    table = commit_staged(stage_index_segments(table, "x", IndexKind.BTREE, [old]))
    table = commit_staged(stage_append(table, data.set_column(0, "id", [["c", "d"]]).cast(schema)))
    table = commit_staged(stage_create_index(table, "x", IndexKind.BTREE))
    assert [(one.name, one.tail) for one in list_indexes(table)] == [("x_btree_idx", ())]


def test_a_vector_index_keeps_its_lance_type_and_name(ref):
    table = commit_staged(stage_create_index(vectors(ref, [[0.0, 1.0]]), "v", IndexKind.VECTOR))
    (entry,) = table.dataset.describe_indices()
    assert (entry.name, entry.index_type) == ("v_vector", "IVF_HNSW_SQ")


def test_the_best_of_several_indexes_of_a_kind_counts(ref):
    """Somebody else's whole index beside ours that lacks the newest rows."""
    table = commit_staged(stage_create_index(new_table(ref, rows("ab")), "id", IndexKind.BTREE))
    table = commit_staged(stage_append(table, rows("c")))
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.DEGRADED
    table.dataset.create_scalar_index("id", "BTREE", name="theirs", replace=False)
    table = open_table(ref)
    assert sorted(state.coverage for state in list_indexes(table)) == ["degraded", "indexed"]
    assert coverage(table, "id", IndexKind.BTREE) is Coverage.INDEXED
