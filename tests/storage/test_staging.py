"""What each staged write does to rows, row ids, versions and indexes."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables import inline_residual
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.lance_import import lance, lance_module
from omnigraph.storage.tables.staging import (
    RowCounts,
    row_ids_of,
    stage_append,
    stage_append_fragments,
    stage_delete,
    stage_delete_ids,
    stage_overwrite,
    stage_replace_rows,
    stage_upsert,
    write_fragments,
)
from omnigraph.storage.tables.table import create_table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import TransactionKind
from tests.opened import row_ids
from tests.sampling import examples
from tests.storage.table_places import SCHEMA, compact, contents, new_table, rows


def having(table, column, value):
    return filter_expression(table.schema, [Condition(column, "=", value)])


def found_by_text(table, words):
    query = lance_module("query").MatchQuery(words, "words")
    return sorted(table.read(["id"], full_text_query=query)["id"].to_pylist())


def versions(table):
    """id -> (created at, last updated at)."""
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    return {row["id"]: tuple(row.values())[1:] for row in table.read(columns).to_pylist()}


# ------------------------------------------------------------------ append and overwrite


def test_append_takes_a_table_or_a_reader(ref):
    table = new_table(ref, rows("a"))
    reader = pa.RecordBatchReader.from_batches(SCHEMA, rows("bc", 5).to_batches())
    staged = stage_append(table, reader)
    assert staged.rows == RowCounts(inserted=2)
    assert contents(commit_staged(staged)) == {"a": 0, "b": 5, "c": 6}


def test_append_of_nothing_is_known_to_change_nothing(ref):
    table = new_table(ref, rows("a"))
    assert stage_append(table, rows("")).changes_nothing
    assert not stage_append(table, rows("b")).changes_nothing


@pytest.mark.parametrize("branch", [None, "b"])
def test_a_table_that_is_open_can_be_committed_to_and_stays_where_it_is(ref, branch):
    table = new_table(ref, rows("a"))
    if branch is not None:
        table = create_branch(table, branch)
    for stage in (
        lambda one: stage_append(one, rows("b")),
        lambda one: stage_upsert(one, rows("ac")),
        lambda one: stage_delete_ids(one, pa.array(["b"])),
    ):
        before = contents(table)
        after = commit_staged(stage(table), table)
        assert (after.version, after.dataset.version) == (table.version + 1,) * 2
        assert (table.dataset.version, contents(table)) == (table.version, before)
        table = after
    assert set(contents(table)) == {"a", "c"}
    assert open_table(table.ref.at(None)).version == table.version


def test_a_table_that_is_open_at_another_version_is_not_committed_to(ref):
    older = new_table(ref, rows("a"))
    newer = commit_staged(stage_append(older, rows("b")))
    assert set(contents(commit_staged(stage_append(newer, rows("c")), older))) == {"a", "b", "c"}


def test_append_refuses_rows_of_another_shape(ref):
    table = new_table(ref)
    wrong = pa.table({"id": ["a"], "n": pa.array([1], pa.int32()), "words": ["w"]})
    with pytest.raises(StorageError, match="`n` should have type int64"):
        stage_append(table, wrong)


def test_fragments_written_elsewhere_are_appended(ref):
    table = new_table(ref, rows("a"))
    written = write_fragments(open_table(table.ref), rows("bc"))
    staged = stage_append_fragments(table, written)
    assert staged.rows == RowCounts(inserted=2)
    assert sorted(contents(commit_staged(staged))) == ["a", "b", "c"]


def test_overwrite_replaces_all_rows(ref):
    table = new_table(ref, rows("ab"))
    staged = stage_overwrite(table, rows("c", 7))
    assert (staged.operation, staged.rows) == (TransactionKind.OVERWRITE, RowCounts(1, 0, 2))
    assert contents(commit_staged(staged)) == {"c": 7}


def test_overwrite_with_no_rows_keeps_schema_metadata_and_stable_row_ids(ref):
    table = new_table(ref, rows("ab"))
    staged = stage_overwrite(table, rows(""))
    assert list(staged.transaction.operation.fragments) == []
    emptied = commit_staged(staged)
    assert emptied.version == table.version + 1
    assert emptied.schema.equals(SCHEMA, check_metadata=True)
    refilled = commit_staged(stage_append(emptied, rows("c")))
    assert row_ids(refilled) == {"c": 2}, "ids are not used again"


def test_overwrite_can_change_the_columns(ref):
    table = new_table(ref, rows("ab"))
    fewer = rows("ab").drop_columns(["n"])
    emptied = commit_staged(stage_overwrite(table, fewer))
    assert emptied.schema.names == ["id", "words"]
    assert emptied.schema.field("id").metadata == SCHEMA.field("id").metadata


def test_overwrite_works_after_columns_were_dropped_and_added(ref):
    # Field ids are no longer positions then.
    table = new_table(ref, rows("ab"))
    changes = ColumnChanges(added=(pa.field("m", pa.int64()),), dropped=("n",))
    for stage in plan_columns(table, changes).stages():
        table = commit_staged(stage(table))
    data = pa.table({"id": ["c"], "words": ["w"], "m": [9]}, schema=table.schema)
    assert commit_staged(stage_overwrite(table, data)).read().to_pylist() == [
        {"id": "c", "words": "w", "m": 9}
    ]


# ------------------------------------------------------------------ upsert


def test_upsert_updates_in_place_and_inserts_the_rest(ref):
    table = new_table(ref, rows("ab"))
    before = row_ids(table)
    staged = stage_upsert(table, rows("bc", 10))
    assert (staged.operation, staged.rows) == (TransactionKind.UPDATE, RowCounts(1, 1, 0))
    merged = commit_staged(staged)
    assert contents(merged) == {"a": 0, "b": 10, "c": 11}
    assert row_ids(merged)["b"] == before["b"]
    assert versions(merged) == {"a": (2, 2), "b": (2, 3), "c": (3, 3)}


def test_an_upsert_needs_every_column(ref):
    table = new_table(ref, rows("ab"))
    with pytest.raises(StorageError, match="`words` is missing"):
        stage_upsert(table, rows("b", 10).drop_columns(["words"]))


def test_an_upsert_of_one_id_twice_is_refused(ref):
    table = new_table(ref, rows("ab"))
    for twice in ("bb", "xax"):
        with pytest.raises(StorageError, match="two rows of one id"):
            stage_upsert(table, rows(twice))


def test_an_upsert_of_one_row_leaves_nothing_for_each_row_of_the_table_in_memory(ref):
    # Lance's merge-insert leaves 8 bytes in the session for each of them, at every version.
    table = new_table(ref, rows([f"k{number}" for number in range(20_000)]))
    table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    table = commit_staged(stage_upsert(table, rows(["k7"])), table)
    before = table.dataset.session().size_bytes()
    for number in range(10):
        table = commit_staged(stage_upsert(table, rows([f"k{500 * number}"])), table)
    assert table.dataset.session().size_bytes() - before < 10 * 20_000 * 8 / 2


@pytest.mark.parametrize("count", [10, 400], ids=["few, looked up", "many, found by reading all"])
def test_an_upsert_and_a_delete_find_few_and_many_rows(ref, count):
    table = new_table(ref, rows([f"k{number}" for number in range(5_000)]))
    table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    start = 5_000 - count // 2
    data = rows([f"k{number}" for number in range(start, start + count)], 9_000)
    half = count // 2
    assert stage_upsert(table, data).rows == RowCounts(half, half, 0)
    assert stage_delete_ids(table, data["id"].combine_chunks()).rows == RowCounts(0, 0, half)


# ------------------------------------------------------------------ delete


def test_delete_by_keys_passes_over_unknown_ones(ref):
    table = new_table(ref, rows("abc"))
    staged = stage_delete_ids(table, pa.array(["a", "zz"]))
    assert staged.rows == RowCounts(deleted=1)
    assert sorted(contents(commit_staged(staged))) == ["b", "c"]
    assert stage_delete_ids(table, pa.array(["zz"])).changes_nothing
    assert stage_delete_ids(table, pa.array([], pa.utf8())).changes_nothing


def test_delete_by_filter(ref):
    table = commit_staged(stage_append(new_table(ref, rows("abc")), rows("d", 9)))
    where = filter_expression(table.schema, [Condition("n", ">=", 2)])
    staged = stage_delete(table, where)
    assert (staged.operation, staged.rows) == (TransactionKind.DELETE, RowCounts(deleted=2))
    smaller = commit_staged(staged)
    assert sorted(contents(smaller)) == ["a", "b"]
    assert len(smaller.fragments()) == 1, "a fragment without rows is gone"
    assert stage_delete(table, having(table, "id", "zz")).changes_nothing


def test_deletes_add_up(ref):
    table = new_table(ref, rows("abcd"))
    for name in "bd":
        table = commit_staged(stage_delete(table, having(table, "id", name)))
    assert row_ids(table) == {"a": 0, "c": 2}


# ------------------------------------------------------------------ replace rows


def test_replaced_rows_keep_id_and_creation_version_and_indexes_stay_right(ref):
    table = new_table(ref, rows("abcd", words="stale"))
    table = commit_staged(stage_create_index(table, "words", IndexKind.FTS))
    table = commit_staged(stage_create_index(table, "id", IndexKind.BTREE))
    place = {
        r["id"]: r for r in table.read(["id"], with_row_id=True, with_row_address=True).to_pylist()
    }

    # b is rewritten, d deleted, n added: all in one version.
    fragments = write_fragments(
        table, rows("bn", 50, "fresh"), pa.array([place["b"]["_rowid"], None], pa.uint64())
    )
    gone = [place["b"]["_rowaddr"], place["d"]["_rowaddr"]]
    staged = stage_replace_rows(table, gone, fragments)
    assert staged.rows == RowCounts(inserted=1, updated=1, deleted=1)
    replaced = commit_staged(staged)

    assert replaced.version == table.version + 1
    assert contents(replaced) == {"a": 0, "b": 50, "c": 2, "n": 51}
    assert {key: row_ids(replaced)[key] for key in "abc"} == {"a": 0, "b": 1, "c": 2}
    assert versions(replaced)["b"] == (2, replaced.version)
    assert found_by_text(replaced, "fresh") == ["b", "n"]
    assert found_by_text(replaced, "stale") == ["a", "c"]
    for name in "abcdn":
        assert replaced.count_rows(having(replaced, "id", name)) == (name != "d")


def test_row_ids_go_on_over_several_files(ref, monkeypatch):
    from omnigraph.storage.tables import staging

    monkeypatch.setattr(staging, "MAX_ROWS_PER_FILE", 2)
    table = new_table(ref, rows("abcde"))
    place = table.read(["id"], with_row_id=True, with_row_address=True)
    kept = pa.array([0, 1, 2, None, None], pa.uint64())
    fragments = write_fragments(table, rows("abcxy", 10), kept)
    assert [fragment.physical_rows for fragment in fragments] == [2, 2, 1]
    addresses = place["_rowaddr"].to_pylist()[:3]
    replaced = commit_staged(stage_replace_rows(table, addresses, fragments))
    assert {key: row_ids(replaced)[key] for key in "abcde"} == {k: i for i, k in enumerate("abcde")}
    assert contents(replaced)["c"] == 12


def test_new_rows_before_kept_ones_are_refused(ref):
    table = new_table(ref, rows("ab"))
    with pytest.raises(ValueError, match="before new rows"):
        write_fragments(table, rows("xa"), pa.array([None, 0], pa.uint64()))


def test_every_field_id_is_named_nested_ones_too(ref):
    schema = pa.schema(
        [
            *SCHEMA,
            pa.field("tags", pa.list_(pa.utf8())),
            lance().blob_field("blob"),
            pa.field("v", pa.list_(pa.float32(), 2)),
        ]
    )
    table = create_table(ref, schema)
    staged = stage_replace_rows(table, [], [])
    named = staged.transaction.operation.fields_for_preserving_frag_bitmap
    theirs = (
        table.dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    )
    data = pa.table({"id": ["a"]}, schema=pa.schema([SCHEMA.field("id")]))
    operation = theirs.execute_uncommitted(data)[0].operation
    assert sorted(named) == sorted(operation.fields_for_preserving_frag_bitmap)
    assert len(named) > len(schema)


# ------------------------------------------------------------------ against a model


KEYS = st.sampled_from("abcdefgh")
STEP = st.one_of(
    st.tuples(st.just("upsert"), st.dictionaries(KEYS, st.integers(0, 99), max_size=4)),
    st.tuples(st.just("replace"), st.dictionaries(KEYS, st.integers(0, 99), max_size=4)),
    st.tuples(st.just("delete"), st.sets(KEYS, max_size=3)),
    st.tuples(st.just("drop value"), st.integers(0, 99)),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("reindex"), st.none()),
)


def as_rows(values):
    return pa.table(
        {
            "id": list(values),
            "n": list(values.values()),
            "words": [f"w{n}" for n in values.values()],
        },
        schema=SCHEMA,
    )


def replace_by_hand(table, values):
    """The bulk merge as the pipeline does it, with rows written elsewhere."""
    stored = {
        row["id"]: row
        for row in table.read(["id"], with_row_id=True, with_row_address=True).to_pylist()
    }
    old = sorted((key for key in values if key in stored), key=lambda key: stored[key]["_rowid"])
    ordered = {key: values[key] for key in [*old, *(key for key in values if key not in stored)]}
    kept = pa.array([stored[k]["_rowid"] if k in stored else None for k in ordered], pa.uint64())
    fragments = write_fragments(table, as_rows(ordered), kept)
    return stage_replace_rows(table, [stored[key]["_rowaddr"] for key in old], fragments)


def apply(table, model, kind, value):
    """One step on the table and on a dict; returns the table after it."""
    if kind in {"upsert", "replace"}:
        for key, number in value.items():
            model[key] = number
        stage = stage_upsert if kind == "upsert" else replace_by_hand
        return commit_staged(stage(table, as_rows(value) if kind == "upsert" else value))
    if kind == "delete":
        for key in value:
            model.pop(key, None)
        return commit_staged(stage_delete_ids(table, pa.array(sorted(value), pa.utf8())))
    if kind == "drop value":
        for key in [key for key, number in model.items() if number == value]:
            del model[key]
        return commit_staged(stage_delete(table, having(table, "n", value)))
    if kind == "compact":
        return compact(table)
    return inline_residual.optimize_indices(table)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEP, max_size=8), branch=st.sampled_from([None, "b"]))
def test_rows_ids_and_indexes_follow_a_model_through_any_steps(steps, branch, tmp_path_factory):
    ref = TableRef(str(tmp_path_factory.mktemp("model") / "table"))
    table, model = new_table(ref, as_rows({"a": 1, "b": 2})), {"a": 1, "b": 2}
    for column, kind in (("id", "btree"), ("n", "btree"), ("words", "fts")):
        table = commit_staged(stage_create_index(table, column, IndexKind(kind)))
    if branch is not None:
        table = create_branch(table, branch)
    identity = row_ids(table)
    for kind, value in steps:
        survivors = set(model)
        table = apply(table, model, kind, value)
        assert contents(table) == model
        now = row_ids(table)
        assert len(set(now.values())) == len(now)
        for key in survivors & set(model):
            assert now[key] == identity[key]
        identity = now
    table.dataset.validate()
    for number in set(model.values()) | {1, 2}:
        expected = sorted(key for key, value in model.items() if value == number)
        assert sorted(table.read(["id"], having(table, "n", number))["id"].to_pylist()) == expected
        assert found_by_text(table, f"w{number}") == expected


def test_an_upsert_of_many_rows_writes_its_row_ids_in_ascending_order(ref):
    # Every later manifest has the ids of updated rows: 2.5 bytes each in this order, else 23.
    names = [f"k{number:05}" for number in range(10_500)]
    table = new_table(ref, rows(names))
    before = row_ids(table)
    early = dict.fromkeys(names[::-7])
    mixed = [*early, "new", *(name for name in names if name not in early)]
    staged = stage_upsert(table, rows(mixed, 1_000_000))
    assert staged.rows == RowCounts(1, len(names), 0)
    after = commit_staged(staged)
    kept = [number for fragment in after.fragments() for number in row_ids_of(fragment).to_pylist()]
    assert kept[: len(names)] == sorted(before.values())
    now = row_ids(after)
    assert {name: now[name] for name in names} == before
    assert contents(after) == {name: 1_000_000 + at for at, name in enumerate(mixed)}


# ------------------------------------------------------------------ what changed since


@pytest.mark.parametrize("branch", [None, "b"])
def test_rows_that_are_gone_are_counted_without_looking_for_them(ref, branch):
    table = new_table(ref, rows("abcdef"))
    if branch is not None:
        table = create_branch(table, branch)
    start = table.version
    for stage, gone in (
        (lambda one: stage_append(one, rows("gh")), 0),
        (lambda one: stage_upsert(one, rows("abi")), 0),
        (lambda one: stage_delete_ids(one, pa.array(["c", "d", "g"])), 2),  # g is newer than start
        (lambda one: stage_append(one, rows("c")), 2),
        (lambda one: stage_overwrite(one, rows("x")), 6),
    ):
        table = commit_staged(stage(table), table)
        delta = table.delta(start)
        new = delta.inserted().read_all().num_rows
        assert delta.count_deleted(new) == gone
        assert delta.deleted_row_ids().read_all().num_rows == gone


def test_rows_are_found_by_their_row_ids_as_far_as_they_are_there(ref):
    table = new_table(ref, rows("abcdef"))
    ids = row_ids(table)
    table = commit_staged(stage_delete_ids(table, pa.array(["c"])))
    table = commit_staged(stage_upsert(table, rows("a", start=50)))
    for wanted in ("fab", "fcab", "c", ""):
        asked = pa.array([ids[name] for name in wanted], pa.uint64())
        for columns in (["n", "id"], ["id"]):
            found = table.find(asked, columns).to_pylist()
            there = [name for name in wanted if name != "c"]
            assert [row["id"] for row in found] == there
            assert [row["_rowid"] for row in found] == [ids[name] for name in there]
        assert table.find(asked, []).column("_rowid").to_pylist() == [ids[name] for name in there]
