"""Lance as it is, not as its names suggest: every behaviour the product rests on, pinned.

Each test says why we care. A failure after a pylance bump means: read the test, try the new
behaviour, then change storage/ and docs/dev/lance.md together with the test.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import shutil
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.errors import StorageError
from omnigraph.storage.tables.lance_import import lance as load_lance
from omnigraph.storage.tables.lance_import import lance_module
from omnigraph.storage.tables.table_errors import is_not_found, lance_errors, reason

lance = load_lance()
LanceDataset = lance.LanceDataset
LanceOperation = lance.LanceOperation
CommitConflictError = lance_module("commit").CommitConflictError
write_fragments = lance_module("fragment").write_fragments
RowIdSequence = lance_module("fragment").RowIdSequence
MatchQuery = lance_module("query").MatchQuery
Compaction = lance_module("optimize").Compaction
FileSession = lance_module("file").LanceFileSession

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False, metadata=KEY),
        pa.field("x", pa.int64()),
        pa.field("s", pa.utf8()),
    ]
)


def rows(ids, start=0, text="word"):
    return pa.table(
        {"id": list(ids), "x": [start + i for i in range(len(ids))], "s": [text] * len(ids)},
        schema=SCHEMA,
    )


def create(uri, data=None, **options):
    options = {"enable_stable_row_ids": True, "data_storage_version": "2.2", **options}
    return lance.write_dataset(rows("") if data is None else data, str(uri), **options)


def append(dataset, data):
    return LanceDataset.commit(dataset, staged_append(dataset, data), max_retries=0)


def staged_append(dataset, data):
    return write_fragments(data, dataset, return_transaction=True)


def upsert(dataset):
    return dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()


def reopen(dataset):
    return lance.dataset(dataset.uri)


def ids(dataset, **options):
    return sorted(dataset.to_table(columns=["id"], **options)["id"].to_pylist())


def row_ids(dataset):
    table = dataset.scanner(columns=["id"], with_row_id=True).to_table()
    return dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


def kind(transaction):
    return type(transaction.operation).__name__


def index(dataset, column, index_type, fragment_ids=None, **options):
    """Build and commit one index over the given fragments (default: all)."""
    if fragment_ids is None:
        fragment_ids = [f.fragment_id for f in dataset.get_fragments()]
    segment = dataset.create_index_uncommitted(
        column, index_type, name=f"{column}_idx", fragment_ids=fragment_ids, **options
    )
    if index_type == "INVERTED":
        segment = dataset.merge_existing_index_segments([segment])
    operation = LanceOperation.CreateIndex([segment], [])
    return LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))


def found_by_text(dataset, words):
    return ids(dataset, full_text_query=MatchQuery(words, "s"))


def uses_index(dataset, condition):
    plan = dataset.scanner(columns=["id"], filter=condition).explain_plan(verbose=True)
    return "ScalarIndexQuery" in plan


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "table")


# ------------------------------------------------------------------ staging and committing


def test_this_file_was_tried_on_the_installed_version():
    # Everything below was; a bump has to come through here.
    assert lance.__version__ == "14.0.2"


def test_a_staged_append_moves_nothing_and_has_its_uuid_beforehand(uri):
    # The sidecar names the transaction before the table moves.
    dataset = create(uri)
    transaction = staged_append(dataset, rows("a"))
    assert reopen(dataset).version == 1
    committed = LanceDataset.commit(dataset, transaction, max_retries=0)
    assert committed.version == 2
    assert committed.read_transaction(2).uuid == transaction.uuid


def test_a_transaction_can_be_given_a_uuid_of_our_own(uri):
    # A write that can only be staged after Phase A (onto a fresh fork) still has a recorded UUID.
    dataset = create(uri)
    mine = "00000000-0000-4000-8000-000000000001"
    transaction = dataclasses.replace(staged_append(dataset, rows("a")), uuid=mine)
    assert LanceDataset.commit(dataset, transaction).read_transaction(2).uuid == mine


def test_staged_transactions_and_fragments_survive_pickling(uri):
    # Spark executors hand them to the driver.
    dataset = create(uri, rows("ab"))
    transaction, _ = upsert(dataset).execute_uncommitted(rows("bc", 10))
    copy = pickle.loads(pickle.dumps(transaction))
    assert copy.uuid == transaction.uuid
    committed = LanceDataset.commit(dataset, copy, max_retries=0)
    assert ids(committed) == ["a", "b", "c"]
    assert row_ids(committed)["b"] == 1


@pytest.mark.parametrize("max_retries", [0, 20])
def test_a_stale_append_is_rebased_and_lands(uri, max_retries):
    # Why commit_staged checks versions itself: max_retries=0 does not refuse it.
    dataset = create(uri)
    transaction = staged_append(dataset, rows("a"))
    append(dataset, rows("b"))
    landed = LanceDataset.commit(dataset, transaction, max_retries=max_retries)
    assert landed.version == dataset.version + 2
    assert ids(landed) == ["a", "b"]


def test_a_stale_overwrite_is_refused_only_with_max_retries_0(uri):
    # With the default it would throw the foreign rows away.
    dataset = create(uri)
    transaction = write_fragments(rows("a"), dataset, mode="overwrite", return_transaction=True)
    append(dataset, rows("b"))
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(dataset, transaction, max_retries=0)
    assert ids(LanceDataset.commit(dataset, transaction)) == ["a"]


def test_a_stale_upsert_of_other_rows_lands_and_of_the_same_row_is_refused(uri):
    # Table-level "one writer wins" is ours to enforce; Lance looks at rows.
    dataset = append(create(uri), rows("a"))
    dataset = append(dataset, rows("b"))
    mine, _ = upsert(dataset).execute_uncommitted(rows("a", 10))
    same, _ = upsert(dataset).execute_uncommitted(rows("b", 20))
    upsert(reopen(dataset)).execute(rows("b", 30))
    assert LanceDataset.commit(dataset, mine, max_retries=0).version == dataset.version + 2
    with pytest.raises(CommitConflictError):
        LanceDataset.commit(dataset, same, max_retries=0)


def test_execute_with_conflict_retries_0_lets_one_inserter_of_a_new_key_win(uri):
    # The manifest publish: two publishers of one commit row must collide.
    dataset = create(uri, rows("head"[:1]))
    first, second = reopen(dataset), reopen(dataset)
    upsert(first).conflict_retries(0).execute(rows("n", 1))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        upsert(second).conflict_retries(0).execute(rows("n", 2))
    assert ids(reopen(dataset)) == ["h", "n"]


def test_without_the_key_in_the_schema_both_inserters_win(uri):
    # merge_insert_exclusive refuses such a table: only a marked key is recorded for the conflict.
    plain = SCHEMA.set(0, SCHEMA.field(0).remove_metadata())
    dataset = create(uri, rows("h").cast(plain))
    for number, handle in enumerate([reopen(dataset), reopen(dataset)]):
        upsert(handle).conflict_retries(0).execute(rows("n", number).cast(plain))
    assert ids(reopen(dataset)) == ["h", "n", "n"]


def test_execute_with_conflict_retries_0_lets_one_updater_of_a_row_win(uri):
    # Every publish also updates the head row.
    dataset = create(uri, rows("h"))
    first, second = reopen(dataset), reopen(dataset)
    upsert(first).conflict_retries(0).execute(rows("h", 1))
    with pytest.raises(OSError, match=r"Too many concurrent writers|onflict"):
        upsert(second).conflict_retries(0).execute(rows("h", 2))
    assert reopen(dataset).to_table()["x"].to_pylist() == [1]


def test_the_exclusive_upsert_moves_the_handle_it_is_made_on(uri):
    # merge_insert_exclusive returns that handle as the new version.
    dataset = create(uri)
    upsert(dataset).conflict_retries(0).execute(rows("a"))
    assert dataset.version == 2


def test_a_staged_upsert_of_a_new_key_lands_twice(uri):
    # Why the publish may not be staged: the transaction lost the record of inserted keys.
    dataset = create(uri)
    first, _ = upsert(dataset).execute_uncommitted(rows("n", 1))
    second, _ = upsert(dataset).execute_uncommitted(rows("n", 2))
    LanceDataset.commit(dataset, first, max_retries=0)
    assert ids(LanceDataset.commit(dataset, second, max_retries=0)) == ["n", "n"]


def test_an_upsert_refuses_a_repeated_old_key_but_inserts_a_repeated_new_one_twice(uri):
    # Why the validator de-duplicates before staging.
    dataset = create(uri, rows("a"))
    with pytest.raises(OSError, match="Ambiguous merge insert"):
        upsert(dataset).execute_uncommitted(rows("aa"))
    _, stats = upsert(dataset).execute_uncommitted(rows("nn"))
    assert stats["num_inserted_rows"] == 2


def test_updated_rows_keep_row_id_and_creation_version(uri):
    # Changes and late fetches are by row id.
    dataset = create(uri, rows("ab"))
    before = row_ids(dataset)
    upsert(dataset).execute(rows("bc", 10))
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    table = dataset.to_table(columns=columns)
    versions = {row["id"]: tuple(row.values())[1:] for row in table.to_pylist()}
    assert {key: row_ids(dataset)[key] for key in "ab"} == before
    assert versions == {"a": (1, 1), "b": (1, 2), "c": (2, 2)}


def acknowledged_but_lost(uri, **commit_options):
    """How many of 2 x 20 racing, acknowledged one-row appends are missing afterwards."""
    shutil.rmtree(uri, ignore_errors=True)
    create(uri)
    together = threading.Barrier(2)
    acknowledged = []

    def write(name):
        together.wait()
        for number in range(20):
            dataset = lance.dataset(uri)
            transaction = staged_append(dataset, rows([f"{name}{number}"]))
            LanceDataset.commit(dataset, transaction, **commit_options)
            acknowledged.append(f"{name}{number}")

    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return len(set(acknowledged) - set(ids(lance.dataset(uri))))


@contextmanager
def no_lock(version):
    yield


def test_commit_lock_disables_the_conditional_put(uri):
    # Forbidden by test_surface_guard: a lock that is not perfect loses acknowledged commits.
    assert acknowledged_but_lost(uri) == 0
    assert any(acknowledged_but_lost(uri, commit_lock=no_lock) for _ in range(200))


# ------------------------------------------------------------------ overwrite, restore, schema


def test_a_zero_row_overwrite_keeps_stable_row_ids_schema_and_field_metadata(uri):
    # stage_overwrite of nothing: never truncate-then-append.
    dataset = create(uri, rows("ab"))
    operation = LanceOperation.Overwrite(SCHEMA, [])
    empty = LanceDataset.commit(dataset, lance.Transaction(1, operation), max_retries=0)
    assert (empty.version, empty.count_rows(), empty.has_stable_row_ids) == (2, 0, True)
    assert empty.schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    assert row_ids(append(empty, rows("c"))) == {"c": 2}, "row ids are never used again"


def test_an_overwrite_renumbers_rows_and_drops_every_index(uri):
    # Why only a hard drop rewrites a table, and why ensure_indices follows it.
    dataset = index(create(uri, rows("ab")), "id", "BTREE")
    transaction = write_fragments(rows("ab"), dataset, mode="overwrite", return_transaction=True)
    committed = LanceDataset.commit(dataset, transaction, max_retries=0)
    assert not committed.describe_indices()
    assert row_ids(committed) == {"a": 2, "b": 3}


def test_restore_silently_orphans_a_concurrent_append(uri):
    # Why roll-back waits for the next read-write open instead of running beside live writers.
    dataset = append(create(uri), rows("a"))
    old = lance.dataset(uri, version=1)
    append(dataset, rows("in flight"[:1]))
    old.restore()
    assert reopen(dataset).version == 4
    assert ids(reopen(dataset)) == []


def test_schema_changes_keep_row_ids_and_indexes(uri):
    # Schema apply is metadata only; recovery recognises it by these operation kinds.
    required = SCHEMA.set(2, SCHEMA.field("s").with_nullable(False))
    dataset = index(create(uri, rows("ab").cast(required)), "x", "BTREE")
    before = row_ids(dataset)
    dataset.add_columns(pa.field("n", pa.int32()))
    assert kind(dataset.read_transaction(dataset.version)) == "Merge"
    dataset.alter_columns({"path": "x", "name": "y"})
    assert kind(dataset.read_transaction(dataset.version)) == "Project"
    dataset.alter_columns({"path": "s", "nullable": True})
    assert dataset.schema.field("s").nullable
    dataset.drop_columns(["s"])
    assert kind(dataset.read_transaction(dataset.version)) == "Project"
    assert dataset.version == 6
    assert dataset.schema.names == ["id", "y", "n"]
    assert row_ids(dataset) == before
    assert [d.field_names for d in dataset.describe_indices()] == [["y"]]
    assert uses_index(dataset, pc.field("y") == 1)


def test_a_dropped_column_added_again_reads_null(uri):
    # A soft drop must not let old values come back.
    dataset = create(uri, rows("a"))
    dataset.drop_columns(["x"])
    dataset.add_columns(pa.field("x", pa.int64()))
    assert dataset.to_table()["x"].to_pylist() == [None]


def test_a_project_built_by_hand_mixes_columns_up(uri):
    # Forbidden by test_surface_guard: it numbers fields by position, silently.
    data = pa.table({"id": ["a"], "first": ["1"], "second": ["2"]})
    dataset = create(uri, data)
    schema = lance_module("schema").LanceSchema.from_pyarrow(data.select(["id", "second"]).schema)
    operation = LanceOperation.Project(schema)
    mixed = LanceDataset.commit(dataset, lance.Transaction(1, operation), max_retries=0)
    assert mixed.to_table().to_pylist() == [{"id": "a", "second": "1"}]


# ------------------------------------------------------------------ versions and branches


def test_manifests_are_numbered_downwards_on_main_and_on_branches(uri):
    # has_version probes exactly this file.
    dataset = append(create(uri), rows("a"))
    branch = append(dataset.create_branch("feature/x", 2), rows("b"))
    for directory, versions in ((uri, {1, 2}), (f"{uri}/tree/feature/x", {2, 3})):
        names = {path.name for path in (Path(directory) / "_versions").glob("*.manifest")}
        assert names == {f"{2**64 - 1 - version}.manifest" for version in versions}
        assert FileSession(directory).contains(f"_versions/{2**64 - 1 - max(versions)}.manifest")
        assert not FileSession(directory).contains(
            f"_versions/{2**64 - 2 - max(versions)}.manifest"
        )
    assert branch.version == 3


def test_branch_numbering_goes_on_from_the_fork(uri):
    # Two branches share numbers: every key of a cache or row has the branch in it.
    dataset = append(create(uri), rows("a"))
    branch = append(dataset.create_branch("b", 2), rows("b"))
    main = append(dataset, rows("m"))
    assert (branch.version, main.version) == (3, 3)
    assert ids(branch) == ["a", "b"]
    assert ids(main) == ["a", "m"]
    assert [entry["version"] for entry in branch.version_refs()] == [2, 3]


def test_a_branch_opens_by_the_address_of_its_directory(uri):
    # handles.open_table: no need to open main first.
    dataset = append(create(uri), rows("a"))
    dataset.create_branch("b/c", 2)
    opened = lance.dataset(f"{uri}/tree/b/c", version=2)
    committed = append(opened, rows("b"))
    assert committed.uri == f"{uri}/tree/b/c"
    assert ids(lance.dataset(uri).checkout_version(("b/c", None))) == ["a", "b"]
    assert set(opened.branches.list()) == {"b/c"}


def test_a_branch_name_used_again_gets_a_new_identifier(uri):
    # Caches are keyed by it, because name and version numbers can both come back.
    dataset = create(uri)
    seen = set()
    for _ in range(2):
        dataset.create_branch("b", 1)
        seen.add(dataset.branches.list()["b"]["branch_identifier"][-1][1])
        dataset.branches.delete("b")
    assert len(seen) == 2


def test_a_branch_that_others_were_made_from_cannot_be_deleted(uri):
    dataset = create(uri)
    dataset.create_branch("parent", 1)
    dataset.create_branch("child", ("parent", 1))
    with pytest.raises(OSError, match="referenced by"):
        dataset.branches.delete("parent")


def test_a_half_made_branch_blocks_its_name_until_its_files_are_gone(uri):
    # Why remove_residue exists: Lance neither lists nor deletes it.
    dataset = create(uri)
    dataset.create_branch("b", 1)
    (Path(uri) / "_refs" / "branches" / "b.json").unlink()
    assert not dataset.branches.list()
    with pytest.raises(ValueError, match="does not exist"):
        dataset.branches.delete("b")
    with pytest.raises(OSError, match="Clone operation"):
        dataset.create_branch("b", 1)
    shutil.rmtree(f"{uri}/tree/b")
    assert dataset.create_branch("b", 1).version == 1


def test_a_branch_gets_its_directory_first_and_then_its_ref_unless_there_is_one(uri):
    # Whoever fails with anything but "Clone operation" has made the directory: a ref that is there
    # afterwards is its own, written although the answer was lost.
    dataset = create(uri)
    dataset.create_branch("b", 1)
    with pytest.raises(OSError, match="Clone operation"):
        dataset.create_branch("b", 1)
    shutil.rmtree(f"{uri}/tree/b")
    with pytest.raises(OSError, match="branch b already exists"):
        dataset.create_branch("b", 1)
    assert list(Path(f"{uri}/tree/b/_versions").glob("*.manifest"))


def test_files_of_writers_do_not_block_the_name_of_a_branch(uri):
    # What a writer of a deleted branch leaves behind is in nobody's way; manifests would be.
    dataset = create(uri)
    late = Path(f"{uri}/tree/b/data/late.lance")
    late.parent.mkdir(parents=True)
    late.write_bytes(b"late")
    assert dataset.create_branch("b", 1).version == 1


def test_deleting_a_branch_leaves_files_behind_when_another_is_nested_in_it(uri):
    # The graph forbids such names; remove_residue copes with them anyway.
    dataset = create(uri)
    dataset.create_branch("x", 1)
    dataset.create_branch("x/y", 1)
    dataset.branches.delete("x")
    assert list(Path(f"{uri}/tree/x/_versions").glob("*.manifest"))


def test_a_write_staged_on_the_parent_makes_its_fork_unreadable(uri):
    # The commit does not complain. Why the first write on a branch is staged after the fork.
    dataset = append(create(uri), rows("a"))
    transaction = staged_append(dataset, rows("b"))
    fork = dataset.create_branch("f", 2)
    committed = LanceDataset.commit(fork, transaction, max_retries=0)
    with pytest.raises((OSError, pa.ArrowInvalid), match="Not found"):
        committed.to_table()


def test_files_in_the_parents_directory_are_swept_from_under_a_fork(uri):
    # Marking the files with the parent's base path makes them readable, and lost a week later.
    dataset = append(create(uri), rows("a"))
    transaction = staged_append(dataset, rows("b"))
    fork = dataset.create_branch("f", 2)
    ((base_id, base),) = fork.base_paths().items()
    assert base.path == uri
    transaction.operation.fragments[0].files[0].base_id = base_id
    assert ids(LanceDataset.commit(fork, transaction, max_retries=0)) == ["a", "b"]
    week_ago = time.time() - 8 * 24 * 3600
    for path in (Path(uri) / "data").iterdir():
        os.utime(path, (week_ago, week_ago))
    reopen(dataset).cleanup_old_versions(versions=[1])
    with pytest.raises((OSError, pa.ArrowInvalid), match="Not found"):
        lance.dataset(f"{uri}/tree/f").to_table()


def test_branch_manifests_hold_absolute_paths(uri, tmp_path):
    # Why commit/relocation.py settles the forks of a graph that lies elsewhere.
    dataset = append(create(uri), rows("a"))
    dataset.create_branch("b", 2)
    moved = tmp_path / "moved"
    shutil.move(uri, moved)
    assert ids(lance.dataset(str(moved))) == ["a"]
    with pytest.raises((OSError, ValueError, pa.ArrowInvalid), match=r"[Nn]ot found"):
        lance.dataset(f"{moved}/tree/b").to_table()


def test_a_session_does_not_serve_a_deleted_tables_versions(uri):
    # Rolled-back forks are made again under the same name and version numbers.
    session = lance_module("dataset").Session()
    for name in "ab":
        shutil.rmtree(uri, ignore_errors=True)
        create(uri, rows(name), session=session)
        assert ids(lance.dataset(uri, version=1, session=session)) == [name]


# ------------------------------------------------------------------ history


def test_read_transaction_fails_after_compaction_of_an_indexed_table(uri):
    # Why transactions.py reads the protobuf itself.
    dataset = index(append(create(uri, rows("a")), rows("b")), "id", "BTREE")
    dataset.optimize.compact_files()
    with pytest.raises(TypeError, match="RewrittenIndex"):
        dataset.read_transaction(dataset.version)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        dataset.get_transactions(1)


def test_compaction_moves_head_by_two_versions(uri):
    # ReserveFragments + Rewrite: sidecars of optimize record a minimum, not an exact version.
    dataset = append(create(uri, rows("a")), rows("b"))
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    assert reopen(dataset).version == 2, "executing moves nothing"
    Compaction.commit(dataset, results)
    assert reopen(dataset).version == 4


def test_compaction_through_a_stale_handle_is_refused(uri):
    # inline_residual opens the newest version first.
    dataset = append(create(uri, rows("a")), rows("b"))
    reopen(dataset).delete("id = 'a'")
    with pytest.raises(OSError, match=r"[Cc]onflict"):
        dataset.optimize.compact_files()


def test_compaction_keeps_row_ids_and_the_delta(uri):
    dataset = append(create(uri, rows("ab")), rows("c"))
    before = row_ids(dataset)
    dataset.optimize.compact_files()
    assert row_ids(dataset) == before
    assert dataset.delta(compared_against=1).get_inserted_rows().read_all().num_rows == 1


def rewritten(dataset, number=None, **options):
    """A `Rewrite` of what the one task of a compaction wrote."""
    (result,) = [task.execute(dataset) for task in Compaction.plan(dataset, options).tasks]
    new = result.new_fragments
    assert [fragment.id for fragment in new] == [0], "not numbered yet"
    if number is not None:
        new[0].id = number
    groups = [LanceOperation.RewriteGroup(result.original_fragments, new)]
    operation = LanceOperation.Rewrite(groups=groups, rewritten_indices=[])
    return LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))


def fragment_ids(dataset):
    return [fragment.fragment_id for fragment in dataset.get_fragments()]


def covered(dataset):
    return {
        entry.name: sorted(number for segment in entry.segments for number in segment.fragment_ids)
        for entry in dataset.describe_indices()
    }


def test_inherited_fragments_are_told_by_the_base_of_their_files(uri):
    # On a branch only its own fragments are compacted.
    dataset = append(create(uri, rows("a")), rows("b"))
    branch = append(append(dataset.create_branch("x", 2), rows("c")), rows("d"))
    bases = [[file.base_id for file in f.metadata.files] for f in branch.get_fragments()]
    assert bases == [[0], [0], [None], [None]]
    branch.delete("id = 'a'")
    assert [[f.base_id for f in one.metadata.files] for one in reopen(branch).get_fragments()] == [
        [0],
        [None],
        [None],
    ]


def test_a_compaction_plan_takes_inherited_fragments_unless_they_are_excluded(uri):
    dataset = append(create(uri, rows("a")), rows("b"))
    branch = append(append(dataset.create_branch("x", 2), rows("c")), rows("d"))
    (task,) = Compaction.plan(branch, {}).tasks
    assert [fragment.id for fragment in task.fragments] == [0, 1, 2, 3]
    (task,) = Compaction.plan(branch, {"excluded_fragment_ids": [0, 1]}).tasks
    assert [fragment.id for fragment in task.fragments] == [2, 3]


def numbered(first, count):
    return pa.table(
        {"id": [f"k{n:06d}" for n in range(first, first + count)], "x": range(count)},
        schema=pa.schema([SCHEMA.field("id"), SCHEMA.field("x")]),
    )


def test_lances_own_compaction_of_a_branch_loses_its_btrees(uri):
    # Why a branch is compacted by a `Rewrite`. A small table is one page and hides it.
    dataset = append(create(uri, numbered(0, 60_000)), numbered(60_000, 60_000))
    branch = index(dataset, "id", "BTREE").create_branch("x", 3)
    branch.optimize.compact_files()
    branch = lance.dataset(branch.uri, session=lance.Session())
    assert branch.count_rows() == 120_000
    with pytest.raises((OSError, ValueError), match="page_lookup"):
        branch.to_table(filter="id = 'k000007'")
    with pytest.raises((OSError, ValueError), match="page_lookup"):
        upsert(branch).execute_uncommitted(numbered(7, 1))


def test_a_rewrite_leaves_new_fragments_out_of_btrees_until_they_are_folded(uri):
    # Between the two a search reads them, so recovery may publish the one without the other.
    dataset = append(create(uri, rows("ab", text="old")), rows("cd", 5, "old"))
    dataset = index(index(dataset, "id", "BTREE"), "s", "INVERTED", with_position=False)
    branch = append(dataset.create_branch("x", dataset.version), rows("e", 7, "new"))
    branch = append(branch, rows("f", 8, "new"))
    branch.optimize.optimize_indices()
    branch = reopen(branch)
    assert covered(branch) == {"id_idx": [0, 1, 2, 3], "s_idx": [0, 1, 2, 3]}
    before = row_ids(branch)
    branch = rewritten(branch, number=4, excluded_fragment_ids=[0, 1])
    assert fragment_ids(branch) == [0, 1, 4]
    for folded in ([0, 1], [0, 1, 4]):
        assert covered(branch) == {"id_idx": folded, "s_idx": [0, 1, 4]}
        assert row_ids(branch) == before
        assert uses_index(branch, "id = 'f'")
        found = [ids(branch, filter=f"id = '{name}'") for name in "aefz"]
        assert found == [["a"], ["e"], ["f"], []]
        assert found_by_text(branch, "new") == ["e", "f"]
        branch.optimize.optimize_indices()
        branch = reopen(branch)
    assert fragment_ids(append(branch, rows("g"))) == [0, 1, 4, 5]


def test_a_rewrite_notes_fragments_without_a_number_as_number_0(uri):
    # Why stage_rewritten numbers them: an index would claim to cover a fragment it knows nothing of.
    dataset = append(append(create(uri, rows("a")), rows("b")), rows("c"))
    dataset = index(dataset, "s", "INVERTED", [1, 2], with_position=False)
    dataset = rewritten(dataset, excluded_fragment_ids=[0])
    assert fragment_ids(dataset) == [0, 3]
    assert covered(dataset) == {"s_idx": [0]}
    assert found_by_text(dataset, "word") != ["a", "b", "c"]


def test_a_rewrite_of_what_compaction_tasks_wrote_keeps_the_delta(uri):
    dataset = append(create(uri, rows("ab")), rows("c"))
    upsert(dataset).execute(rows("b", 10))
    dataset = rewritten(reopen(dataset))
    delta = dataset.delta(compared_against=1)
    assert delta.get_inserted_rows().read_all()["id"].to_pylist() == ["c"]
    assert delta.get_updated_rows().read_all()["id"].to_pylist() == ["b"]


def test_a_rewrite_of_plain_fragments_resets_the_versions_of_rows(uri):
    # Why only results of compaction tasks are put in place.
    dataset = append(create(uri, rows("ab")), rows("c"))
    old = [fragment.metadata for fragment in dataset.get_fragments()]
    new = write_fragments(dataset.to_table(), dataset, mode="append")
    new[0].row_id_meta = RowIdSequence(pa.array(range(3), pa.uint64())).to_inline_metadata()
    operation = LanceOperation.Rewrite(
        groups=[LanceOperation.RewriteGroup(old, new)], rewritten_indices=[]
    )
    dataset = LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))
    assert dataset.delta(compared_against=1).get_inserted_rows().read_all().num_rows == 0


def test_delta_gives_inserted_updated_and_deleted_rows(uri):
    # Diffs and the change feed cost what changed.
    dataset = create(uri, rows("abc"))
    upsert(dataset).execute(rows("bn", 10))
    dataset.delete("id = 'c'")
    delta = dataset.delta(compared_against=1)
    assert delta.get_inserted_rows().read_all()["id"].to_pylist() == ["n"]
    assert delta.get_updated_rows().read_all()["id"].to_pylist() == ["b"]
    assert delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [2]


def test_an_overwrite_numbers_rows_on_and_the_delta_shows_all_of_it(uri):
    # A reader derives its nodes from an older version: a row id must not mean two rows.
    dataset = create(uri, rows("abc"))
    dataset = LanceDataset.commit(
        dataset, write_fragments(rows("ax"), dataset, mode="overwrite", return_transaction=True)
    )
    assert sorted(row_ids(dataset).values()) == [3, 4]
    delta = dataset.delta(compared_against=1)
    assert delta.get_inserted_rows().read_all()["id"].to_pylist() == ["a", "x"]
    assert delta.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [0, 1, 2]


def test_delta_does_not_show_what_a_restore_brought_back(uri):
    # Whoever derives a state from a delta looks for restores in between first.
    dataset = create(uri, rows("abc"))
    upsert(dataset).execute(rows("b", 10))
    dataset.delete("id = 'c'")
    dataset.checkout_version(1).restore()
    delta = reopen(dataset).delta(compared_against=3)
    assert delta.get_inserted_rows().read_all().num_rows == 0
    assert delta.get_updated_rows().read_all().num_rows == 0


def test_delta_on_a_branch_knows_deleted_rows_back_to_its_fork_only(uri):
    # For older bases ask the parent; inserted and updated rows are right in any case.
    dataset = append(create(uri), rows("a"))
    branch = append(dataset.create_branch("b", 2), rows("b"))
    branch.delete("id = 'a'")
    since_fork, older = branch.delta(compared_against=2), branch.delta(compared_against=1)
    assert since_fork.get_inserted_rows().read_all()["id"].to_pylist() == ["b"]
    assert since_fork.get_deleted_row_ids().read_all()["_rowid"].to_pylist() == [0]
    assert older.get_inserted_rows().read_all()["id"].to_pylist() == ["b"]
    with pytest.raises((RuntimeError, OSError, ValueError), match="was not found"):
        older.get_deleted_row_ids().read_all()


def test_cleanup_removes_exactly_the_listed_versions_and_never_the_newest(uri):
    dataset = create(uri)
    for name in "abc":
        dataset = append(dataset, rows(name))
    dataset.cleanup_old_versions(versions=[2, 4])
    assert [entry["version"] for entry in reopen(dataset).version_refs()] == [1, 3, 4]
    with pytest.raises(OSError, match="must not be empty"):
        dataset.cleanup_old_versions(versions=[])


def test_cleanup_keeps_what_a_live_branch_was_forked_from(uri):
    dataset = append(create(uri), rows("a"))
    dataset.create_branch("b", 2)
    dataset = LanceDataset.commit(
        dataset, write_fragments(rows("z"), dataset, mode="overwrite", return_transaction=True)
    )
    dataset.cleanup_old_versions(versions=[1, 2])
    assert [entry["version"] for entry in reopen(dataset).version_refs()] == [2, 3]
    assert ids(lance.dataset(f"{uri}/tree/b")) == ["a"]


def test_cleanup_sweeps_week_old_files_of_failed_writes_only(uri):
    # cleanup_versions leaves this to Lance, with `versions=[0]` when no version is to go.
    dataset = create(uri, rows("a"))
    known = set((Path(uri) / "data").iterdir())
    write_fragments(rows("old"[:1]), dataset)
    (old,) = set((Path(uri) / "data").iterdir()) - known
    write_fragments(rows("n"), dataset)
    week_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (week_ago, week_ago))
    dataset.cleanup_old_versions(versions=[0])
    assert not old.exists()
    assert len(list((Path(uri) / "data").iterdir())) == 2
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(list((Path(uri) / "data").iterdir())) == 1


def test_taking_rows_by_id_keeps_order_and_leaves_out_what_is_gone(uri):
    # Table.take counts, because a missing row would shift the ones after it.
    dataset = create(uri, rows("abc"))
    dataset.delete("id = 'b'")
    assert dataset._take_rows([2, 0, 2], ["id"])["id"].to_pylist() == ["c", "a", "c"]
    assert dataset._take_rows([0, 1, 2], ["id"])["id"].to_pylist() == ["a", "c"]


# ------------------------------------------------------------------ hand-made updates


def all_field_ids(dataset):
    def walk(fields):
        for field in fields:
            yield field.id()
            yield from walk(field.children())

    return list(walk(dataset.lance_schema.fields()))


def staged_replacement(dataset, old, fields_for_preserving):
    """Rewrite the row `old` as text "fresh" by hand, keeping its row id."""
    table = dataset.scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
    (row,) = [row for row in table.to_pylist() if row["id"] == old]
    fragments = write_fragments(rows(old, 99, "fresh"), dataset)
    kept = RowIdSequence(pa.array([row["_rowid"]], pa.uint64()))
    fragments[0].row_id_meta = kept.to_inline_metadata()
    number, offset = divmod(row["_rowaddr"], 2**32)
    remaining = dataset.get_fragment(number).delete_rows([offset])
    operation = LanceOperation.Update(
        removed_fragment_ids=[number] if remaining is None else [],
        updated_fragments=[] if remaining is None else [remaining],
        new_fragments=fragments,
        fields_for_preserving_frag_bitmap=fields_for_preserving,
        update_mode="rewrite_rows",
    )
    return lance.Transaction(dataset.version, operation)


def replace_row(dataset, old, fields_for_preserving):
    transaction = staged_replacement(dataset, old, fields_for_preserving)
    return LanceDataset.commit(dataset, transaction, max_retries=0)


def test_a_row_id_sequence_makes_rewritten_rows_keep_their_ids(uri):
    # stage_replace_rows: a bulk merge is one transaction.
    dataset = create(uri, rows("ab"))
    replaced = replace_row(dataset, "b", all_field_ids(dataset))
    assert row_ids(replaced) == {"a": 0, "b": 1}
    table = replaced.to_table(columns=["id", "_row_created_at_version"])
    assert dict(map(dict.values, table.to_pylist())) == {"a": 1, "b": 1}
    assert replaced.version == 2


def test_no_fields_for_preserving_frag_bitmap_makes_indexes_claim_new_rows(uri):
    # The trap behind stage_replace_rows: full text misses the new rows and keeps finding the old.
    for fields, fresh, stale in ((all_field_ids, ["b"], ["a"]), (lambda _: [], [], ["a", "b"])):
        shutil.rmtree(uri, ignore_errors=True)
        dataset = index(create(uri, rows("ab", text="stale")), "s", "INVERTED", with_position=False)
        replaced = replace_row(dataset, "b", fields(dataset))
        assert found_by_text(replaced, "fresh") == fresh
        assert found_by_text(replaced, "stale") == stale


def by_hand(dataset):
    transaction = staged_replacement(dataset, "h", all_field_ids(dataset))
    return lambda: LanceDataset.commit(dataset, transaction, max_retries=0)


def by_merge_insert(dataset):
    handle = lance.dataset(dataset.uri, version=dataset.version)
    return lambda: upsert(handle).conflict_retries(0).execute(rows("hn", 5))


def by_merging_fragments(dataset):
    (task,) = Compaction.plan(dataset, {}).tasks
    written = task.execute(dataset).new_fragments
    for number, fragment in enumerate(written, 50):
        fragment.id = number
    group = LanceOperation.RewriteGroup(task.fragments, written)
    operation = LanceOperation.Rewrite(groups=[group], rewritten_indices=[])
    transaction = lance.Transaction(dataset.version, operation)
    return lambda: LanceDataset.commit(dataset, transaction, max_retries=0)


WRITERS = (by_hand, by_merge_insert, by_merging_fragments)


@pytest.mark.parametrize("beside", ["", "ab"])
@pytest.mark.parametrize("first", WRITERS)
@pytest.mark.parametrize("second", WRITERS)
def test_of_two_writers_that_replace_a_row_or_merge_its_fragment_one_wins(
    uri, first, second, beside
):
    # A publish replaces the head row in one of two ways, and the manifest is tidied beside it.
    dataset = append(append(create(uri), rows("xy")), rows(f"{beside}h"))
    late, early = second(dataset), first(dataset)
    early()
    before = reopen(dataset)
    with pytest.raises(OSError, match=r"Too many concurrent writers|onflict"):
        late()
    assert reopen(dataset).version == before.version == 4
    assert ids(reopen(dataset)) == ids(before)
    assert ids(before).count("h") == 1


@pytest.mark.parametrize("late", [by_hand, by_merge_insert])
def test_a_conflict_with_a_version_that_is_gone_is_not_noticed(uri, late):
    # Why commit_staged looks for the version that it was staged on: cleanup takes that one first.
    dataset = append(create(uri), rows("xh"))
    stale = late(dataset)
    for _ in range(2):
        by_merge_insert(reopen(dataset))()
    reopen(dataset).cleanup_old_versions(versions=[1, 2, 3])
    stale()
    assert reopen(dataset).version == 5
    assert ids(reopen(dataset)).count("h") == 2


def test_deleting_the_last_row_of_a_fragment_gives_no_fragment(uri):
    dataset = create(uri, rows("a"))
    assert dataset.get_fragments()[0].delete_rows([0]) is None
    assert dataset.get_fragments()[0].delete("id = 'zz'") is not None


# ------------------------------------------------------------------ indexes


def test_optimize_indices_with_0_leaves_stale_hits(uri):
    # inline_residual never passes num_indices_to_merge.
    for merge, found in ((0, ["a", "b"]), (None, ["a"])):
        shutil.rmtree(uri, ignore_errors=True)
        dataset = create(uri, rows("ab", text="stale"))
        dataset = index(dataset, "s", "INVERTED", with_position=False)
        upsert(dataset).execute(rows("b", 0, "fresh"))
        options = {} if merge is None else {"num_indices_to_merge": merge}
        dataset.optimize.optimize_indices(**options)
        assert found_by_text(dataset, "stale") == found


def test_an_inverted_index_committed_without_the_merge_step_cannot_be_searched(uri):
    dataset = create(uri, rows("ab"))
    segment = dataset.create_index_uncommitted(
        "s", "INVERTED", name="s_idx", fragment_ids=[0], with_position=False
    )
    operation = LanceOperation.CreateIndex([segment], [])
    broken = LanceDataset.commit(dataset, lance.Transaction(1, operation))
    with pytest.raises((OSError, ValueError, RuntimeError, pa.ArrowInvalid)):
        found_by_text(broken, "word")


def test_a_rebuilt_index_keeps_its_old_segment_unless_that_is_listed_as_removed(uri):
    # stage_index_segments lists it.
    dataset = index(create(uri, rows("ab")), "id", "BTREE")
    again = index(dataset, "id", "BTREE", replace=True)
    assert [len(entry.segments) for entry in again.describe_indices()] == [2]


def test_flat_full_text_search_uses_another_analyser(uri):
    # Why the engine never calls Lance full text on a column without an index.
    dataset = create(uri, rows("a", text="Running"))
    assert found_by_text(dataset, "run") == []
    assert found_by_text(index(dataset, "s", "INVERTED", with_position=False), "run") == ["a"]


def test_fuzzy_search_does_not_see_unindexed_fragments(uri):
    # Plain matches find the tail, fuzzy ones do not.
    dataset = index(create(uri, rows("a", text="graph")), "s", "INVERTED", with_position=False)
    dataset = append(dataset, rows("b", text="graph"))
    assert found_by_text(dataset, "graph") == ["a", "b"]
    assert ids(dataset, full_text_query=MatchQuery("grph", "s", fuzziness=1)) == ["a"]


def test_one_row_is_enough_for_every_kind_of_index_but_a_vector_needs_a_value(tmp_path):
    vector = pa.list_(pa.float32(), 2)
    for name, value in (("value", [0.0, 0.0]), ("null", None)):
        data = pa.table({"id": ["a"], "v": pa.array([value], vector)})
        dataset = create(tmp_path / name, data)
        if value is None:
            with pytest.raises(RuntimeError, match="KMeans cannot train"):
                index(dataset, "v", "IVF_HNSW_SQ", metric="L2")
        else:
            built = index(dataset, "v", "IVF_HNSW_SQ", metric="L2", num_partitions=1)
            # Quantised distances are rough (here: 0); only the refine step compares real vectors.
            nearest = {"column": "v", "q": [1.0, 1.0], "k": 1, "refine_factor": 1}
            assert built.to_table(nearest=nearest)["_distance"].to_pylist() == [2.0]


def test_indexes_see_columns_that_differ_only_in_case_apart(tmp_path):
    data = pa.table({"id": ["a", "b"], "Id": ["b", "a"]})
    dataset = index(create(tmp_path / "t", data), "Id", "BTREE")
    assert uses_index(dataset, pc.field("Id") == "a")
    assert not uses_index(dataset, pc.field("id") == "a")
    assert ids(dataset, filter=pc.field("Id") == "a") == ["b"]


# ------------------------------------------------------------------ filters


@pytest.fixture
def typed(tmp_path):
    data = pa.table(
        {
            "id": ["a", "b"],
            "u": pa.array([1, 2**64 - 1], pa.uint64()),
            "i": pa.array([1, 2], pa.int32()),
            "f": pa.array([0.0, -0.0], pa.float64()),
            "t": pa.array([0, 1], pa.timestamp("ms", "UTC")),
        }
    )
    dataset = create(tmp_path / "typed", data)
    for column in ("u", "i", "f", "t"):
        dataset = index(dataset, column, "BTREE")
    return dataset


def test_expressions_on_unsigned_columns_are_refused_and_sql_uses_the_index(typed):
    # pushdown.py sends those as SQL.
    with pytest.raises(ValueError, match="Substrait"):
        ids(typed, filter=pc.field("u") == pa.scalar(1, pa.uint64()))
    condition = f"`u` = arrow_cast('{2**64 - 1}', 'UInt64')"
    assert ids(typed, filter=condition) == ["b"]
    assert uses_index(typed, condition)


def test_a_list_of_unsigned_integers_breaks_every_expression_on_the_table(tmp_path):
    # Not only those that mention it, so pushdown.py looks at the whole schema.
    data = pa.table({"id": ["a"], "l": pa.array([[1]], pa.list_(pa.uint32()))})
    dataset = create(tmp_path / "t", data)
    with pytest.raises(ValueError, match="Substrait"):
        ids(dataset, filter=pc.field("id") == "a")
    assert ids(dataset, filter="`id` = 'a'") == ["a"]


def test_an_expression_whose_literal_has_another_type_is_refused(typed):
    # Why a literal is cast to the column's exact type, or the comparison rewritten.
    with pytest.raises((ValueError, pa.ArrowInvalid), match=r"Substrait|convert"):
        ids(typed, filter=pc.field("i") < pa.scalar(3_000_000_000, pa.int64()))
    with pytest.raises(ValueError, match="could not convert"):
        ids(typed, filter="i < 3000000000")
    with pytest.raises(ValueError, match="could not convert"):
        ids(typed, filter="i > 1.5")


def test_exactly_typed_literals_use_the_index(typed):
    assert uses_index(typed, pc.field("i") == pa.scalar(1, pa.int32()))
    assert uses_index(typed, pc.field("t") >= pa.scalar(0, pa.timestamp("ms", "UTC")))
    assert uses_index(typed, "`t` = arrow_cast(1, 'Timestamp(Millisecond, Some(\"UTC\"))')")


def test_double_quotes_are_text_and_backticks_are_names(typed):
    # literals.quoted_name.
    assert ids(typed, filter="\"id\" = 'id'") == ["a", "b"]
    assert ids(typed, filter="`id` = 'a'") == ["a"]


def test_zero_and_minus_zero_are_equal_with_and_without_index(typed, tmp_path):
    plain = create(tmp_path / "plain", typed.to_table())
    for dataset in (typed, plain):
        assert ids(dataset, filter=pc.field("f") == 0.0) == ["a", "b"]
        assert ids(dataset, filter=pc.field("f") < 0.0) == []


# ------------------------------------------------------------------ blobs


def blob_table(uri, values):
    schema = pa.schema([pa.field("id", pa.utf8(), nullable=False), lance.blob_field("b")])
    data = pa.table(
        {"id": [str(i) for i in range(len(values))], "b": lance.blob_array(values)}, schema=schema
    )
    return create(uri, data)


def test_blobs_need_data_storage_version_2_2(tmp_path):
    # Why every table is created with it.
    schema = pa.schema([lance.blob_field("b")])
    with pytest.raises(OSError, match=r"2\.2"):
        create(tmp_path / "t", schema.empty_table(), data_storage_version="2.1")


def test_read_blobs_answers_with_row_addresses_not_the_ids_asked_for(uri):
    # blobs.read_blobs goes by order alone.
    dataset = blob_table(uri, [b"a", b"b"])
    dataset.delete("id = '0'")
    dataset.optimize.compact_files(materialize_deletions_threshold=0.0)
    ((address, data),) = dataset.read_blobs("b", ids=[1])
    assert data == b"b"
    assert address != 1


def test_external_blobs_pass_write_fragments_but_not_merge_insert(uri, tmp_path):
    # One reason why `stage_upsert` does without it.
    outside = tmp_path / "outside"
    outside.write_bytes(b"far away")
    dataset = blob_table(uri, [b"a"])
    data = pa.table({"id": ["1"], "b": lance.blob_array([outside.as_uri()])}, schema=dataset.schema)
    with pytest.raises(OSError, match="outside registered external bases"):
        upsert(dataset).execute_uncommitted(data)
    transaction = write_fragments(
        data, dataset, return_transaction=True, allow_external_blob_outside_bases=True
    )
    committed = LanceDataset.commit(dataset, transaction)
    assert [data for _, data in committed.read_blobs("b", ids=[0, 1])] == [b"a", b"far away"]


def test_a_blob_column_can_be_added_later(uri):
    dataset = create(uri, rows("a"))
    dataset.add_columns(lance.blob_field("b"))
    assert dataset.read_blobs("b", ids=[0]) == [(0, None)]


def test_the_manifest_names_its_transaction(uri):
    # transactions.py: `serialized_manifest` has no public face.
    dataset = append(create(uri), rows("a"))
    name = f"1-{dataset.read_transaction(2).uuid}.txn"
    assert name.encode() in dataset._ds.serialized_manifest()
    assert (Path(uri) / "_transactions" / name).exists()


def test_memory_datasets_are_not_shared_between_handles():
    # Why tests use temporary directories.
    lance.write_dataset(rows("a"), "memory://shared")
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset("memory://shared")


def test_a_forkserver_is_available_for_process_tests():
    # Lance warns on fork; subprocess tests run in forkserver children.
    assert "forkserver" in multiprocessing.get_all_start_methods()


# ------------------------------------------------------------------ what has no public name, or no class


def test_the_private_count_of_fragments_is_that_of_the_public_list(uri):
    # Table.count_fragments: the public way makes an object for each fragment.
    dataset = create(uri, rows("ab"))
    for letter in "cde":
        dataset = append(dataset, rows(letter))
    assert dataset._ds.count_fragments() == len(dataset.get_fragments()) == 4
    dataset.delete("id = 'd'")
    assert dataset._ds.count_fragments() == len(dataset.get_fragments()) == 3


def test_base_paths_have_a_public_name_and_say_whether_they_are_tables(uri):
    # blobs/blob_columns.py and index_health.py build addresses of inherited files from them.
    dataset = create(uri, rows("ab"))
    assert dataset.base_paths() == {}
    fork = dataset.create_branch("b", 1)
    (file,) = fork.get_fragments()[0].metadata.files
    base = fork.base_paths()[file.base_id]
    assert (base.path, base.is_dataset_root) == (uri, True)


def a_missing_table(dataset, tmp_path):
    lance.dataset(str(tmp_path / "none"))


def a_missing_version(dataset, tmp_path):
    lance.dataset(dataset.uri, version=9)


def a_missing_version_of_a_handle(dataset, tmp_path):
    dataset.checkout_version(9)


def a_missing_branch(dataset, tmp_path):
    dataset.checkout_version(("nobody", None))


def a_missing_file(dataset, tmp_path):
    next(Path(dataset.uri, "data").iterdir()).unlink()
    reopen(dataset).to_table()


def a_file_in_place_of_a_table(dataset, tmp_path):
    (tmp_path / "file").write_text("x")
    lance.dataset(str(tmp_path / "file"))


@pytest.mark.parametrize(
    "ask",
    [
        a_missing_table,
        a_missing_version,
        a_missing_version_of_a_handle,
        a_missing_branch,
        a_missing_file,
        a_file_in_place_of_a_table,
    ],
)
def test_what_is_not_there_is_told_by_words_alone(uri, tmp_path, ask):
    # is_not_found reads the text: the classes are ValueError, OSError and Arrow's. And every text ends in
    # places of Lance's source, which `reason` leaves out.
    dataset = create(uri, rows("ab"))
    with pytest.raises((ValueError, OSError)) as caught:
        ask(dataset, tmp_path)
    assert is_not_found(caught.value)
    assert ".rs:" in str(caught.value)
    assert ".rs:" not in reason(caught.value)


@pytest.mark.parametrize(
    ("folder", "damage"),
    [
        ("data", lambda data: data[:10]),
        ("data", lambda data: data[:-60]),
        ("_versions", lambda data: data[:2]),
        ("_versions", lambda data: b""),
    ],
)
def test_a_damaged_file_is_told_by_words_that_lead_to_a_copy(uri, folder, damage):
    # _DAMAGE of table_errors.py; without it the advice would be to try again.
    create(uri, rows("ab"))
    file = next(Path(uri, folder).glob("*.[lm]an*"))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(StorageError, match="restore it from a copy"), lance_errors("reading"):
        lance.dataset(uri).to_table()


def test_deleting_a_branch_that_is_not_there_says_so(uri):
    # delete_branch takes it for done. Both other texts it reads are pinned above ("referenced by",
    # "Clone operation").
    with pytest.raises(ValueError, match="does not exist"):
        create(uri).branches.delete("b")


def test_a_fuzzy_term_that_is_too_long_is_refused_by_the_size_of_an_automaton(uri):
    # full_text.py falls back to looking at every term when it reads this.
    dataset = index(create(uri, rows("ab")), "s", "INVERTED")
    search = MatchQuery("w" * 400, "s", fuzziness=2, max_expansions=1000)
    with pytest.raises(ValueError, match="automaton exceeds"):
        dataset.to_table(full_text_query=search)
    assert ids(dataset, full_text_query=MatchQuery("wort", "s", fuzziness=1)) == ["a", "b"]
