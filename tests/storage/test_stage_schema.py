"""Staged column changes: at most two transactions per table, nothing rewritten, nothing mixed up."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.columns.stage_schema import (
    SCRATCH,
    ColumnChanges,
    plan_columns,
    reclaim_scratch,
)
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables.blobs.blob_columns import blob_array, blob_field
from omnigraph.storage.tables.blobs.reading import read_at
from omnigraph.storage.tables.indexing.table_indexes import list_indexes, stage_create_index
from omnigraph.storage.tables.rewriting import stage_restore
from omnigraph.storage.tables.staging import (
    new_transaction_uuid,
    stage_append,
    stage_delete,
    stage_upsert,
    with_uuid,
)
from omnigraph.storage.tables.table import PRIMARY_KEY, create_table, open_table
from omnigraph.storage.tables.table_branches import create_branch, list_branches
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_errors import TableMoved
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import TransactionKind, transactions_after


def prop(name, kind, number, *, nullable=True):
    """A field with its property id, as the catalog builds them."""
    return pa.field(name, kind, nullable=nullable, metadata={"omnigraph:property": str(number)})


def blob_prop(name, number):
    field = blob_field(name)
    return field.with_metadata({**(field.metadata or {}), b"omnigraph:property": b"%d" % number})


PLAIN = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=PRIMARY_KEY),
        prop("a", pa.int64(), 1),
        prop("b", pa.int64(), 2),
        prop("must", pa.utf8(), 3, nullable=False),
        prop("x", pa.list_(pa.utf8()), 4),
    ]
)
WITH_BLOB = PLAIN.append(blob_prop("bytes", 5))


def property_ids(table):
    return {
        field.name: field.metadata[b"omnigraph:property"].decode()
        for field in table.schema
        if b"omnigraph:property" in (field.metadata or {})
    }


def field_ids(table):
    return {field.name(): field.id() for field in table.dataset.lance_schema.fields()}


def data(schema, ids, start=0):
    columns = {
        "id": list(ids),
        "a": [start + i for i in range(len(ids))],
        "b": [100 + start + i for i in range(len(ids))],
        "must": [f"m{one}" for one in ids],
        "x": [[f"x{one}"] for one in ids],
    }
    if "bytes" in schema.names:
        columns["bytes"] = blob_array(
            pa.array([one.encode() * 3 for one in ids], pa.large_binary())
        )
    return pa.table(columns, schema=schema)


def filled(ref, schema):
    """Rows a, b, c in two fragments, b deleted, BTREEs on `a` and `must`."""
    table = create_table(ref, schema)
    table = commit_staged(stage_append(table, data(schema, "ab")))
    table = commit_staged(stage_append(table, data(schema, "c", 2)))
    for column in ("a", "must"):
        table = commit_staged(stage_create_index(table, column, IndexKind.BTREE))
    where = filter_expression(table.schema, [Condition("id", "=", "b")])
    return commit_staged(stage_delete(table, where))


def apply(table, changes):
    """Commit the planned steps as a writer does, each under a UUID chosen beforehand."""
    planned = plan_columns(table, changes)
    before, uuids = table.version, []
    for stage in planned.stages():
        uuids.append(new_transaction_uuid())
        table = commit_staged(with_uuid(stage(table), uuids[-1]))
    made = transactions_after(table, before, table.version)
    assert [one.uuid for one in made] == uuids
    return table, [one.operation for one in made]


def values(table, *columns):
    return table.read(list(columns)).to_pydict()


@pytest.fixture(params=[PLAIN, WITH_BLOB], ids=["plain", "blob"])
def table(request, tmp_path):
    return filled(TableRef(str(tmp_path / "t")), request.param)


def test_everything_at_once_is_two_transactions_that_move_no_row(table):
    base, ids = table.version, field_ids(table)
    rows = table.read(["id"], with_row_id=True, with_row_address=True)
    files = [file.path for fragment in table.fragments() for file in fragment.files]
    changes = ColumnChanges(
        added=(prop("x", pa.int32(), 7), blob_prop("more", 8), prop("v", pa.list_(pa.float32(), 2), 9)),
        renamed={"a": "b", "b": "a"},
        relaxed=("must",),
        dropped=("x",),
    )  # fmt: skip
    table, kinds = apply(table, changes)
    assert kinds == [TransactionKind.MERGE, TransactionKind.PROJECT]
    assert values(table, "id", "a", "b", "must", "x", "v") == {
        "id": ["a", "c"],
        "a": [100, 102],
        "b": [0, 2],
        "must": ["ma", "mc"],
        "x": [None, None],
        "v": [None, None],
    }
    assert property_ids(table) | {"bytes": "5"} == {
        "b": "1", "a": "2", "must": "3", "x": "7", "more": "8", "v": "9", "bytes": "5",
    }  # fmt: skip
    now = field_ids(table)
    assert (now["b"], now["a"], now["must"]) == (ids["a"], ids["b"], ids["must"])
    assert now["x"] not in ids.values()
    assert table.schema.field("x").type == pa.int32()
    assert table.schema.field("must").nullable
    assert table.schema.field("id").metadata == PRIMARY_KEY
    # Row ids, files, indexes and changes since then are what they were.
    assert table.read(["id"], with_row_id=True, with_row_address=True).equals(rows)
    assert [file.path for f in table.fragments() for file in f.files] == files
    assert {(state.column, state.tail) for state in list_indexes(table)} == {
        ("b", ()),
        ("must", ()),
    }
    assert table.delta(base).updated().read_all().num_rows == 0
    assert table.delta(base).inserted().read_all().num_rows == 0
    places = table.read([], with_row_address=True)["_rowaddr"].to_pylist()
    assert read_at(table, "more", places) == [None, None]
    if "bytes" in table.schema.names:
        assert read_at(table, "bytes", places) == [b"aaa", b"ccc"]
    assert list_branches(table.ref) == {}


@pytest.mark.parametrize(
    ("changes", "kinds", "names"),
    [
        (
            ColumnChanges(added=(prop("n", pa.utf8(), 7),)),
            [TransactionKind.MERGE],
            "id a b must x n",
        ),
        (ColumnChanges(renamed={"x": "y"}), [TransactionKind.PROJECT], "id a b must y"),
        (ColumnChanges(relaxed=("must",)), [TransactionKind.PROJECT], "id a b must x"),
        (ColumnChanges(dropped=("a", "x")), [TransactionKind.PROJECT], "id b must"),
        (
            ColumnChanges(renamed={"a": "b"}, dropped=("b",)),
            [TransactionKind.PROJECT],
            "id b must x",
        ),
        (
            ColumnChanges(renamed={"a": "b", "b": "x", "x": "a"}),
            [TransactionKind.PROJECT],
            "id b x must a",
        ),
        (
            ColumnChanges(added=(prop("a", pa.utf8(), 7),), renamed={"a": "old"}),
            [TransactionKind.MERGE, TransactionKind.PROJECT],
            "id old b must x a",
        ),
        (ColumnChanges(), [], "id a b must x"),
    ],
)
@pytest.mark.parametrize("is_empty", [False, True], ids=["rows", "empty"])
def test_each_kind_of_change_makes_only_the_transactions_it_needs(
    tmp_path, changes, kinds, names, is_empty
):
    ref = TableRef(str(tmp_path / "t"))
    before = create_table(ref, PLAIN) if is_empty else filled(ref, PLAIN)
    old = before.read().to_pydict()
    after, made = apply(before, changes)
    assert made == kinds
    assert after.schema.names == names.split()
    added = {field.name for field in changes.added}
    origin = {new: old for old, new in changes.renamed.items()}
    for name in after.schema.names:
        wanted = [None] * len(old["id"]) if name in added else old[origin.get(name, name)]
        assert after.read([name])[name].to_pylist() == wanted, name
    rows = data(PLAIN, "z").rename_columns(
        [changes.renamed.get(name, f"gone {name}" if name in changes.dropped else name) for name in PLAIN.names]
    )  # fmt: skip
    for field in changes.added:
        rows = rows.append_column(field, pa.nulls(1, field.type))
    rows = rows.select(after.schema.names).cast(after.schema)
    written = commit_staged(stage_upsert(after, rows))
    assert written.count_rows() == after.count_rows() + 1


@pytest.mark.parametrize("steps", [1, 2])
def test_a_restore_brings_the_old_columns_back(table, steps):
    # What recovery does with a schema apply that got half-way, or as far as its publish.
    plain = ["id", "a", "b", "must", "x"]
    before, numbers = table.read(plain), field_ids(table)
    changes = ColumnChanges(
        added=(prop("n", pa.utf8(), 7),), renamed={"a": "b", "b": "a"}, dropped=("x",)
    )
    moved = table
    for stage in plan_columns(table, changes).stages()[:steps]:
        moved = commit_staged(stage(moved))
    back = commit_staged(stage_restore(moved, table.version))
    assert back.schema == table.schema
    assert field_ids(back) == numbers
    assert back.read(plain).equals(before)
    if "bytes" in back.schema.names:
        places = back.read([], with_row_address=True)["_rowaddr"].to_pylist()
        assert read_at(back, "bytes", places) == [b"aaa", b"ccc"]


def test_what_a_crash_left_of_a_plan_is_removed_first(table):
    scratch = create_branch(table, SCRATCH)
    scratch.dataset.add_columns(prop("left", pa.utf8(), 9))
    after, _ = apply(table, ColumnChanges(added=(prop("n", pa.utf8(), 7),)))
    assert "left" not in after.schema.names
    assert list_branches(table.ref) == {}
    create_branch(after, SCRATCH)
    reclaim_scratch(after.ref)
    reclaim_scratch(after.ref)
    assert list_branches(table.ref) == {}


def test_a_scratch_branch_that_was_only_half_made_is_removed_too(table):
    # Lance makes the directory first and then the ref; a crash may fall between.
    create_branch(table, SCRATCH)
    ref = Path(table.ref.uri, "_refs", "branches", f"{SCRATCH}.json")
    ref.unlink()
    after, _ = apply(table, ColumnChanges(added=(prop("n", pa.utf8(), 7),)))
    assert "n" in after.schema.names
    assert not Path(table.ref.uri, "tree", SCRATCH).exists()


def test_a_refused_change_leaves_no_scratch_branch_and_no_version(table):
    with pytest.raises(StorageError):
        plan_columns(table, ColumnChanges(dropped=("nowhere",)))
    assert list_branches(table.ref) == {}
    assert open_table(table.ref.at(None)).version == table.version


def test_a_planned_change_does_not_land_on_a_table_that_moved(table):
    stage, *_ = plan_columns(table, ColumnChanges(added=(prop("n", pa.utf8(), 7),))).stages()
    staged = stage(table)
    commit_staged(stage_append(table, data(table.schema, "w", 9)))
    with pytest.raises(TableMoved):
        commit_staged(staged)
    assert "n" not in open_table(table.ref.at(None)).schema.names


@pytest.mark.parametrize("branch", [None, "b"])
def test_columns_of_every_kind_can_be_added_on_main_and_on_a_branch(tmp_path, branch):
    table = filled(TableRef(str(tmp_path / "t")), PLAIN)
    if branch:
        table = create_branch(table, branch)
    kinds = (
        pa.field("i", pa.int32()),
        pa.field("u", pa.uint64()),
        pa.field("d", pa.date32()),
        pa.field("t", pa.timestamp("ms", "UTC")),
        pa.field("l", pa.list_(pa.uint32())),
        pa.field("v", pa.list_(pa.float32(), 3)),
        blob_field("p"),
    )
    after, _ = apply(table, ColumnChanges(added=kinds, dropped=("b", "x")))
    assert after.schema.names == ["id", "a", "must", *(field.name for field in kinds)]
    assert after.read(["i", "u", "l", "v"]).to_pylist() == [dict.fromkeys("iulv")] * 2
    assert after.ref.branch == branch
    where = filter_expression(after.schema, [Condition("a", "=", 2)])
    assert after.read(["id"], where)["id"].to_pylist() == ["c"]


FILLED = {
    "x": pa.scalar("here"),
    "i": pa.scalar(-5, pa.int32()),
    "u": pa.scalar(2**64 - 1, pa.uint64()),
    "t": pa.scalar(7, pa.timestamp("ms", "UTC")),
    "l": pa.scalar(["p", "q"], pa.list_(pa.utf8())),
}


@pytest.mark.parametrize("branch", [None, "b"])
def test_added_columns_can_have_a_value_in_all_rows(table, branch):
    """One takes the name of a column that goes; deleted rows, other columns and stamps stay as they are."""
    if branch:
        table = create_branch(table, branch)
    base = table.version
    stamps = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    before = table.read(stamps, with_row_id=True)
    changes = ColumnChanges(
        added=(
            *(prop(name, one.type, 7, nullable=name == "u") for name, one in FILLED.items()),
            prop("none", pa.utf8(), 8),
        ),
        filled=FILLED,
        renamed={"a": "b", "b": "a"},
        dropped=("x",),
    )
    after, kinds = apply(table, changes)
    assert kinds == [TransactionKind.MERGE, TransactionKind.UPDATE, TransactionKind.PROJECT]
    assert (
        after.read([*FILLED, "none"]).to_pylist()
        == [{**{name: one.as_py() for name, one in FILLED.items()}, "none": None}] * 2
    )
    assert {name for name in FILLED if after.schema.field(name).nullable} == {"u"}
    assert values(after, "id", "a", "b") == {"id": ["a", "c"], "a": [100, 102], "b": [0, 2]}
    assert after.read(stamps, with_row_id=True).equals(before)
    assert after.delta(base).updated().read_all().num_rows == 0
    assert {(state.column, state.tail) for state in list_indexes(after)} == {
        ("b", ()),
        ("must", ()),
    }
    indexed = commit_staged(stage_create_index(after, "i", IndexKind.BTREE))
    where = filter_expression(indexed.schema, [Condition("i", "=", -5)])
    assert indexed.read(["id"], where)["id"].to_pylist() == ["a", "c"]
    assert open_table(table.ref.at(base)).read(["x"])["x"].to_pylist() == [["xa"], ["xc"]]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_restore_takes_the_values_away_again(table, steps):
    before, numbers = table.read(["id", "a", "x"]), field_ids(table)
    added = (prop("i", pa.int32(), 7, nullable=False),)
    moved = table
    for stage in plan_columns(table, ColumnChanges(added, {"i": FILLED["i"]})).stages()[:steps]:
        moved = commit_staged(stage(moved))
    back = commit_staged(stage_restore(moved, table.version))
    assert back.schema == table.schema
    assert field_ids(back) == numbers
    assert back.read(["id", "a", "x"]).equals(before)
