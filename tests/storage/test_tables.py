"""The table surface on every kind of root: open, stage, commit, history, branches."""

import pickle
import shutil
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from omnigraph.errors import BranchExists, BranchInUse, StorageError
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.columns.stage_schema import ColumnChanges, plan_columns
from omnigraph.storage.filters import Condition, filter_expression
from omnigraph.storage.tables import inline_residual, lance_import
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.rewriting import stage_restore
from omnigraph.storage.tables.row_places import RowPlace
from omnigraph.storage.tables.staging import (
    RowCounts,
    new_transaction_uuid,
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_upsert,
    with_uuid,
)
from omnigraph.storage.tables.table import Table, create_table, open_table, table_exists
from omnigraph.storage.tables.table_branches import (
    create_branch,
    delete_branch,
    list_branches,
    remove_residue,
)
from omnigraph.storage.tables.table_commits import (
    commit_staged,
    merge_insert_exclusive,
    replace_row_exclusive,
)
from omnigraph.storage.tables.table_errors import (
    CommitMisplaced,
    RowCollision,
    TableMissing,
    TableMoved,
    VersionMissing,
    lance_errors,
)
from omnigraph.storage.tables.table_ref import TableRef
from omnigraph.storage.tables.transactions import (
    TransactionKind,
    transaction_at,
    transactions_after,
)
from omnigraph.storage.uris import Root
from omnigraph.storage.versions import remove_versions
from tests.opened import row_ids
from tests.s3_server import BUCKET, S3Server
from tests.storage.table_places import SCHEMA, compact, contents, new_table, rows


@pytest.fixture(scope="module")
def s3_server():
    server = S3Server().start()
    yield server
    server.stop()


@pytest.fixture(params=["local", "unplain path", "s3"])
def ref(request, tmp_path):
    """Where a table may be made; nothing is there yet."""
    match request.param:
        case "local":
            root, environ = Root.parse(tmp_path), {}
        case "unplain path":
            root, environ = Root.parse(tmp_path / "ä %20 b"), {}
        case _:
            server = request.getfixturevalue("s3_server")
            root, environ = Root.parse(f"s3://{BUCKET}/{uuid.uuid4().hex} x"), server.environment()
    return TableRef(root.child("nodes/abc"), storage_options=root.lance_options(environ))


@pytest.fixture
def local(tmp_path):
    return TableRef(str(tmp_path / "table"))


def where(table, *conditions):
    return filter_expression(table.schema, [Condition(*condition) for condition in conditions])


# ------------------------------------------------------------------ opening


def test_a_new_table_is_empty_has_stable_row_ids_and_room_for_blobs(ref):
    table = create_table(ref, SCHEMA)
    assert (table.version, table.count_rows(), table.fragments()) == (1, 0, [])
    assert table.schema.equals(SCHEMA, check_metadata=True)
    assert table.dataset.has_stable_row_ids
    assert table.dataset.data_storage_version == "2.2"


def test_a_table_is_not_created_over_another(ref):
    new_table(ref, rows("a"))
    with pytest.raises(StorageError, match="already exists"):
        create_table(ref, SCHEMA)
    assert open_table(ref).version == 2


def test_what_is_not_there_is_said_to_be_missing(ref):
    with pytest.raises(TableMissing):
        open_table(ref)
    with pytest.raises(TableMissing):
        open_table(ref.at(3))
    assert not table_exists(ref)
    new_table(ref)
    assert table_exists(ref)
    with pytest.raises(VersionMissing) as caught:
        open_table(ref.at(7))
    assert caught.value.details["version"] == 7
    with pytest.raises(TableMissing):
        open_table(ref.on("nowhere", 1))


def test_messages_say_nothing_of_credentials_or_rust(ref):
    with pytest.raises(TableMissing) as caught:
        open_table(TableRef(ref.uri, storage_options={**ref.storage_options, "secret": "hush"}))
    assert "hush" not in str(caught.value)
    assert ".rs:" not in str(caught.value)
    assert "hush" not in repr(TableRef("x", storage_options={"secret": "hush"}))


def test_opening_a_version_reads_that_version(ref):
    table = new_table(ref, rows("a"))
    newer = commit_staged(stage_append(table, rows("b")))
    assert contents(open_table(ref.at(2))) == {"a": 0}
    assert contents(open_table(ref)) == {"a": 0, "b": 0}
    assert contents(table) == {"a": 0}, "a handle stays at its version"
    assert newer.ref == ref.at(3)


def test_the_probe_sees_the_next_version_on_main_and_on_a_branch(ref):
    table = new_table(ref, rows("a"))
    assert table.is_head()
    branch = create_branch(table, "feature/x")
    assert branch.is_head()
    commit_staged(stage_append(branch, rows("b")))
    assert table.is_head(), "main did not move"
    assert not branch.is_head()
    assert branch.has_version(3)
    assert not branch.has_version(4)
    assert (table.head_version(), branch.head_version()) == (2, 3)
    assert (table.versions(), branch.versions()) == ([1, 2], [2, 3])


def test_importing_the_surface_does_not_import_lance():
    code = (
        "import sys, omnigraph.storage.tables.table_commits, omnigraph.storage.tables.inline_residual;"
        "print(*sorted({'lance', 'pyarrow.dataset', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_lance_is_imported_quietly_without_pandas_which_still_works_later(tmp_path):
    (tmp_path / "pandas.py").write_text("__version__ = '2.2.2'\n")
    code = """if True:
        import os, sys
        from omnigraph.storage.tables.lance_import import lance
        lance()
        assert "pandas" not in sys.modules, "pandas was imported"
        assert os.environ["LANCE_LOG"] == "error"
        from omnigraph.cores import usable_cores
        assert os.environ["LANCE_CPU_THREADS"] == str(usable_cores())
        import pandas
        assert pandas.__version__ == "2.2.2"
    """
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": f"{tmp_path}:src"}, check=True)


def test_an_import_in_another_thread_meanwhile_asks_every_finder():
    """An import goes through the list of finders, and lets other threads go on between one and the next."""
    finders = list(sys.meta_path)
    with lance_import._pandas_hidden():
        asked = iter(sys.meta_path)
        assert next(asked) not in finders, "the one that hides pandas"
    assert list(asked) == sys.meta_path == finders


# ------------------------------------------------------------------ reading


def test_scan_streams_the_chosen_columns_and_rows(local):
    table = new_table(local, rows("abcd"))
    reader = table.scan(["id"], where(table, ("n", ">=", 2)), with_row_id=True, batch_size=1)
    assert reader.schema.names == ["id", "_rowid"]
    assert [batch.num_rows for batch in reader] == [1, 1]
    found = table.read([], where(table, ("id", "=", "c")), with_row_address=True)
    assert found.to_pylist() == [{"_rowaddr": 2}]
    assert table.count_rows(where(table, ("n", "<", 2))) == 2


def test_a_filter_nothing_satisfies_reads_nothing(local):
    table = new_table(local, rows("ab"))
    never = where(table, ("n", "=", 1.5))
    assert table.read(["id"], never).num_rows == 0
    assert table.scan(["id"], never).read_all().num_rows == 0
    assert table.count_rows(never) == 0


def test_a_failure_while_streaming_is_a_storage_error(local):
    table = new_table(local, rows("ab"))
    reader = table.scan(["id"])
    shutil.rmtree(f"{local.uri}/data")
    with pytest.raises(StorageError, match="reading"):
        open_table(local).scan(["id"]).read_all()
    del reader


def test_take_keeps_the_order_asked_for_and_refuses_what_is_gone(local):
    table = new_table(local, rows("abc"))
    assert table.take([2, 0, 2], ["id"])["id"].to_pylist() == ["c", "a", "c"]
    smaller = commit_staged(stage_delete(table, where(table, ("id", "=", "b"))))
    with pytest.raises(StorageError, match="only 2 of the 3 rows"):
        smaller.take([0, 1, 2], ["id"])


def test_fragments_can_be_read_one_by_one(local):
    table = commit_staged(stage_append(new_table(local, rows("ab")), rows("c")))
    numbers = [fragment.id for fragment in table.fragments()]
    assert [table.read(["id"], fragment_ids=[n]).num_rows for n in numbers] == [2, 1]
    with pytest.raises(StorageError, match="no fragment 9"):
        table.scan(["id"], fragment_ids=[9])


def test_delta_tells_inserted_updated_and_deleted_rows_apart(local):
    base = new_table(local, rows("abc"))
    table = commit_staged(stage_upsert(base, rows("bn", 10)))
    table = commit_staged(stage_delete(table, where(table, ("id", "=", "c"))))
    delta = table.delta(base.version)
    assert delta.inserted().read_all()["id"].to_pylist() == ["n"]
    assert delta.updated().read_all()["id"].to_pylist() == ["b"]
    assert delta.deleted_row_ids().read_all()["_rowid"].to_pylist() == [row_ids(base)["c"]]


# ------------------------------------------------------------------ committing


def test_a_staged_write_moves_nothing_until_it_is_committed(ref):
    table = new_table(ref, rows("a"))
    staged = stage_append(table, rows("b"))
    assert open_table(ref).version == 2
    assert (staged.read_version, staged.operation) == (2, TransactionKind.APPEND)
    assert staged.rows == RowCounts(inserted=1)
    committed = commit_staged(staged)
    assert committed.version == 3
    assert contents(committed) == {"a": 0, "b": 0}
    facts = transaction_at(committed)
    assert (facts.uuid, facts.operation, facts.read_version) == (
        staged.uuid,
        TransactionKind.APPEND,
        2,
    )
    assert staged.facts() == {
        "transaction_uuid": facts.uuid,
        "operation": "Append",
        "read_version": 2,
    }


@pytest.mark.parametrize("branch", [None, "feature/x"])
def test_a_stale_write_of_any_kind_is_refused_and_leaves_nothing(ref, branch):
    table = new_table(ref, rows("ab"))
    if branch is not None:
        table = create_branch(table, branch)
    stale = [
        stage_append(table, rows("c")),
        stage_upsert(table, rows("d")),
        stage_delete(table, where(table, ("id", "=", "a"))),
        stage_overwrite(table, rows("e")),
        stage_create_index(table, "id", IndexKind.BTREE),
    ]
    winner = commit_staged(stage_append(table, rows("w")))
    for staged in stale:
        with pytest.raises(TableMoved) as caught:
            commit_staged(staged)
        assert caught.value.details["expected"] == 2
        assert caught.value.details["actual"] == winner.version
    assert open_table(table.ref.at(None)).version == winner.version
    assert set(contents(open_table(table.ref.at(None)))) == {"a", "b", "w"}


def test_a_writer_that_slips_in_between_look_and_commit_is_noticed(local, monkeypatch):
    table = new_table(local, rows("a"))
    staged, foreign = stage_append(table, rows("b")), stage_append(table, rows("f"))
    look = Table.has_version

    def look_then_lose(self, version):
        answer = look(self, version)
        monkeypatch.undo()
        commit_staged(foreign)
        return answer

    monkeypatch.setattr(Table, "has_version", look_then_lose)
    with pytest.raises(CommitMisplaced) as caught:
        commit_staged(staged)
    assert caught.value.details["expected"] == 3
    assert caught.value.details["actual"] == 4
    assert caught.value.details["transaction_uuid"] == staged.uuid


@pytest.mark.parametrize("collides", [False, True])
def test_a_stale_write_is_refused_also_when_the_versions_that_came_meanwhile_are_gone(
    ref, collides
):
    table = new_table(ref, rows("a"))
    staged = stage_upsert(table, rows("a", 7))
    for number in range(3):
        newest = commit_staged(stage_upsert(open_table(ref), rows("a", number)))
    remove_versions(newest, newest.versions()[:-1])
    with pytest.raises(TableMoved) as caught:
        commit_staged(staged, table, collides=collides)
    assert caught.value.details["actual"] == newest.version
    assert contents(open_table(ref)) == {"a": 2}


def test_committing_twice_is_refused(ref):
    staged = stage_append(new_table(ref), rows("a"))
    commit_staged(staged)
    with pytest.raises(TableMoved):
        commit_staged(staged)
    assert contents(open_table(ref)) == {"a": 0}


def test_a_commit_whose_answer_was_lost_counts_as_done(s3_server):
    root = Root.parse(f"s3://{BUCKET}/{uuid.uuid4().hex}")
    ref = TableRef(root.child("t"), storage_options=root.lance_options(s3_server.environment()))
    staged = stage_append(new_table(ref), rows("a"))

    def lose_the_answer(environ):
        if environ["REQUEST_METHOD"] == "PUT" and "_versions" in environ["PATH_INFO"]:
            return "400 Bad Request", b"lost"
        return None

    s3_server.after(lose_the_answer)
    try:
        committed = commit_staged(staged)
    finally:
        s3_server.disarm()
    assert committed.version == 2
    assert contents(committed) == {"a": 0}


def test_a_commit_the_store_refused_leaves_the_table_as_it_was(s3_server):
    root = Root.parse(f"s3://{BUCKET}/{uuid.uuid4().hex}")
    ref = TableRef(root.child("t"), storage_options=root.lance_options(s3_server.environment()))
    staged = stage_append(new_table(ref), rows("a"))

    def refuse(environ):
        if environ["REQUEST_METHOD"] == "PUT" and "_versions" in environ["PATH_INFO"]:
            return "403 Forbidden", b"no"
        return None

    s3_server.before(refuse)
    try:
        with pytest.raises(StorageError, match="writing to"):
            commit_staged(staged)
    finally:
        s3_server.disarm()
    assert open_table(ref).version == 1
    assert commit_staged(staged).version == 2


def test_a_staged_write_survives_pickling(ref):
    table = new_table(ref, rows("a"))
    staged = pickle.loads(pickle.dumps(stage_upsert(table, rows("ab", 5))))
    assert contents(commit_staged(staged)) == {"a": 5, "b": 6}


def test_a_uuid_can_be_chosen_before_staging(ref):
    mine = new_transaction_uuid()
    staged = with_uuid(stage_append(new_table(ref), rows("a")), mine)
    assert staged.uuid == mine
    assert transaction_at(commit_staged(staged)).uuid == mine


def test_of_two_publishers_of_one_row_exactly_one_wins(ref):
    table = new_table(ref, rows("h"))
    published = merge_insert_exclusive(table, rows("hx", 1), on="id")
    assert published.version == 3
    with pytest.raises(RowCollision):
        merge_insert_exclusive(table, rows("hy", 2), on="id")
    with pytest.raises(RowCollision):
        merge_insert_exclusive(table, rows("x", 3), on="id")
    assert contents(open_table(ref)) == {"h": 1, "x": 2}
    assert table.version == 2, "the handle given stays where it was"


def place_of(table, id):
    (row,) = (
        row
        for row in table.read(["id"], with_row_id=True, with_row_address=True).to_pylist()
        if row["id"] == id
    )
    return RowPlace(row["_rowid"], row["_rowaddr"])


@pytest.mark.parametrize("branch", [None, "feature/x"])
def test_a_row_is_replaced_again_and_again_and_keeps_its_row_id(ref, branch):
    table = new_table(ref, rows("ahb"))
    if branch is not None:
        table = create_branch(table, branch)
    place, before = place_of(table, "h"), row_ids(table)
    for number, new in enumerate("tuvwxyz"):
        table, place = replace_row_exclusive(table, place, rows(f"h{new}", 10 + number))
        assert place == place_of(table, "h")
        if new == "w":
            table = compact(table)
            place = place_of(table, "h")
    added = {new: 11 + number for number, new in enumerate("tuvwxyz")}
    assert contents(open_table(table.ref)) == {"a": 0, "b": 2, "h": 16, **added}
    assert {old: row_ids(table)[old] for old in "ahb"} == before


def test_of_two_writers_that_replace_one_row_exactly_one_wins(ref):
    table = new_table(ref, rows("ah"))
    place = place_of(table, "h")
    merge_insert_exclusive(table, rows("h", 3), on="id")
    with pytest.raises(RowCollision):
        replace_row_exclusive(table, place, rows("hx", 4))
    table = open_table(ref)
    won, _ = replace_row_exclusive(table, place_of(table, "h"), rows("hy", 5))
    for late in (
        lambda: replace_row_exclusive(table, place_of(table, "h"), rows("hz", 6)),
        lambda: merge_insert_exclusive(table, rows("hz", 7), on="id"),
    ):
        with pytest.raises(RowCollision):
            late()
    assert open_table(ref).version == won.version == table.version + 1
    assert contents(won) == {"a": 0, "h": 5, "y": 6}


def test_rows_are_not_published_by_a_column_that_is_no_key(local):
    with pytest.raises(StorageError, match="n is not marked as the key"):
        merge_insert_exclusive(new_table(local), rows("a"), on="n")


# ------------------------------------------------------------------ history


@pytest.mark.parametrize("branch", [None, "feature/x"])
def test_every_kind_of_operation_is_told_from_history(ref, branch):
    table = new_table(ref, rows("abcd", words="some words"))
    history = [TransactionKind.OVERWRITE, TransactionKind.APPEND]
    if branch is not None:
        table = create_branch(table, branch)
        history = [TransactionKind.OVERWRITE, TransactionKind.CLONE]

    def step(moved, *kinds):
        nonlocal table
        assert moved.version == table.version + len(kinds)
        table = moved
        history.extend(kinds)

    step(commit_staged(stage_upsert(table, rows("dx"))), TransactionKind.UPDATE)
    step(commit_staged(stage_delete(table, where(table, ("id", "=", "a")))), TransactionKind.DELETE)
    step(commit_staged(stage_create_index(table, "id", IndexKind.BTREE)), "CreateIndex")
    step(commit_staged(stage_create_index(table, "words", IndexKind.FTS)), "CreateIndex")
    for name in "yz":
        step(commit_staged(stage_append(table, rows(name))), TransactionKind.APPEND)
    step(compact(table), TransactionKind.REWRITE)
    step(inline_residual.optimize_indices(table), TransactionKind.CREATE_INDEX)
    changes = ColumnChanges(added=(pa.field("n", pa.int32()),), dropped=("n",))
    add, drop = plan_columns(table, changes).stages()
    step(commit_staged(add(table)), TransactionKind.MERGE)
    step(commit_staged(drop(table)), TransactionKind.PROJECT)
    step(commit_staged(stage_restore(table, 2)), TransactionKind.RESTORE)

    first = 2 if branch else 1
    expected = history[1:] if branch else history
    facts = [transaction_at(table, first), *transactions_after(table, first, table.version)]
    assert [fact.operation for fact in facts] == expected
    assert [fact.version for fact in facts] == list(range(first, table.version + 1))
    assert len({fact.uuid for fact in facts}) == len(facts)
    assert all(fact.read_version < fact.version for fact in facts[1:])


def test_facts_agree_with_lance_where_lance_can_read_its_history(local):
    table = new_table(local, rows("ab"))
    for staged in (stage_append, stage_upsert, stage_overwrite):
        table = commit_staged(staged(table, rows("b", 3)))
        theirs = table.dataset.read_transaction(table.version)
        ours = transaction_at(table)
        assert ours.uuid == theirs.uuid
        assert ours.read_version == theirs.read_version
        assert ours.operation == type(theirs.operation).__name__


def test_a_transaction_with_long_properties_is_told_too(local):
    staged = stage_append(new_table(local), rows("a"))
    staged.transaction.transaction_properties["note"] = "x" * 5000
    assert transaction_at(commit_staged(staged)).operation is TransactionKind.APPEND


def test_a_transaction_kept_in_a_file_of_its_own_is_told_too(local, monkeypatch):
    # Lance before 14 wrote no transaction into the manifest.
    from omnigraph.storage.tables import transactions

    table = new_table(local, rows("a"))
    monkeypatch.setattr(transactions, "_TRANSACTION_SECTION", -1)
    assert transaction_at(table).operation is TransactionKind.APPEND


# ------------------------------------------------------------------ branches


def test_a_branch_starts_with_the_version_it_was_forked_from(ref):
    table = new_table(ref, rows("a"))
    branch = create_branch(table, "feature/x")
    assert (branch.version, contents(branch)) == (2, {"a": 0})
    moved = commit_staged(stage_append(branch, rows("b")))
    child = create_branch(moved, "child")
    commit_staged(stage_append(table, rows("m")))
    assert contents(open_table(ref.on("child"))) == {"a": 0, "b": 0}
    assert contents(open_table(ref)) == {"a": 0, "m": 0}
    assert child.version == 3
    listed = list_branches(ref)
    assert {b.name: (b.parent, b.parent_version) for b in listed.values()} == {
        "feature/x": (None, 2),
        "child": ("feature/x", 3),
    }


def test_a_branch_others_depend_on_is_not_deleted(ref):
    branch = create_branch(new_table(ref, rows("a")), "parent")
    create_branch(branch, "child")
    with pytest.raises(BranchInUse) as caught:
        delete_branch(ref, "parent")
    assert caught.value.details["by"] == "child"
    delete_branch(ref, "child")
    delete_branch(ref, "parent")
    delete_branch(ref, "parent")
    assert list_branches(ref) == {}


def test_a_name_used_again_has_another_identifier_and_no_old_rows(ref):
    table = new_table(ref, rows("a"))
    seen = set()
    for name in "xy":
        branch = create_branch(table, "b")
        seen.add(list_branches(ref)["b"].identifier)
        assert set(contents(commit_staged(stage_append(branch, rows(name))))) == {"a", name}
        assert set(contents(open_table(ref.on("b", 3)))) == {"a", name}
        delete_branch(ref, "b")
    assert len(seen) == 2


def test_branches_are_deleted_beside_each_other(ref):
    """Lance looks at all refs before it deletes one, and others vanish meanwhile."""
    table = new_table(ref, rows("a"))
    names = [f"b{number}" for number in range(24)]
    for name in names:
        create_branch(table, name)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(delete_branch, ref, name) for name in names]:
            assert done.result() is None
    assert list_branches(ref) == {}


def test_a_branch_is_not_made_over_another(ref):
    table = new_table(ref, rows("a"))
    create_branch(table, "b")
    with pytest.raises(BranchExists):
        create_branch(table, "b")


def test_residue_of_a_half_made_branch_is_removed(ref):
    table = new_table(ref, rows("a"))
    create_branch(table, "b")
    with pytest.raises(StorageError, match="live"):
        remove_residue(ref, "b")
    table.files.delete_file("_refs/branches/b.json")
    assert list_branches(ref) == {}
    with pytest.raises(BranchExists):
        create_branch(table, "b")
    assert remove_residue(ref, "b") > 0
    assert remove_residue(ref, "b") == 0
    assert contents(create_branch(table, "b")) == {"a": 0}


@pytest.mark.parametrize("name", [".", "..", "", "x/.", "./x", "x/../y", "x/"])
def test_residue_is_never_a_directory_of_live_branches(ref, name):
    table = new_table(ref, rows("a"))
    commit_staged(stage_append(create_branch(table, "x"), rows("b")))
    with pytest.raises(StorageError, match="no branch"):
        remove_residue(ref, name)
    assert contents(open_table(ref.on("x"))) == {"a": 0, "b": 0}


def test_removing_residue_spares_branches_nested_below_it(ref):
    table = new_table(ref, rows("a"))
    create_branch(table, "x")
    nested = create_branch(table, "x/y")
    commit_staged(stage_append(nested, rows("n")))
    delete_branch(ref, "x")
    remove_residue(ref, "x")
    assert set(contents(open_table(ref.on("x/y")))) == {"a", "n"}
    assert contents(create_branch(table, "x")) == {"a": 0}


def test_the_first_write_on_a_branch_has_its_uuid_before_its_fork_exists(ref):
    table = new_table(ref, rows("abc"))
    recorded = new_transaction_uuid()
    fork = create_branch(table, "fork")
    staged = with_uuid(stage_upsert(fork, rows("bx", 50)), recorded)
    committed = commit_staged(staged)
    assert contents(committed) == {"a": 0, "b": 50, "c": 2, "x": 51}
    assert row_ids(committed)["b"] == row_ids(table)["b"]
    assert transaction_at(committed).uuid == recorded
    assert contents(open_table(ref)) == {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("LanceError(IO): Permission denied (os error 13)", "permissions"),
        ("LanceError(IO): file size is too small, /x/y.rs:1:2", "restore"),
        ("LanceError(IO): connection reset", "try again"),
    ],
)
def test_a_failure_of_lance_says_what_to_do_next(said, advice):
    with pytest.raises(StorageError, match=advice) as caught, lance_errors("reading"):
        raise OSError(said)
    assert ".rs" not in str(caught.value)


def test_an_interrupt_is_no_failure_of_the_store():
    with pytest.raises(KeyboardInterrupt), lance_errors("reading"):
        raise pa.ArrowInvalid("External error: KeyboardInterrupt: ")
