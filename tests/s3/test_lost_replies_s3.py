"""What a store did counts, and not whether its answer arrived: after an unclear one, look."""

from __future__ import annotations

import threading

import pytest

import omnigraph as og
from omnigraph.errors import BranchExists, StorageError
from omnigraph.storage.locks.leases import Leases
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.locks.waiting import Patience
from omnigraph.storage.objects.store_errors import AlreadyExists, ObjectChanged, Unavailable
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.store_kinds.store_kind import Limits
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch, delete_branch, list_branches
from omnigraph.storage.tables.table_ref import TableRef
from tests.opened import workspace_of
from tests.storage.table_places import contents, new_table, rows

PERIOD = 60.0
SCHEMA = "node Doc { ref: String @key }"
# Lance sends a request three more times.
ALL_TRIES = 4


def puts(part=""):
    return lambda environ: environ["REQUEST_METHOD"] == "PUT" and part in environ["PATH_INFO"]


def deletes(environ):
    return environ["REQUEST_METHOD"] == "POST" and environ["QUERY_STRING"] == "delete"


@pytest.fixture
def store(s3_root):
    """Each request is sent once: what its answer would have said is never heard."""
    return open_store(s3_root, Limits(retries=0))


# ------------------------------------------------------------------ control objects


def test_a_claim_that_nobody_answered_is_found_to_be_ours(s3, store):
    lost = s3.lose_replies(puts("object"))
    token = store.write_text_if_absent("object", "mine")
    assert len(lost) == 1
    assert store.read_versioned("object") == ("mine", token)


def test_a_swap_that_nobody_answered_is_found_to_be_ours(s3, store):
    first = store.write_text("object", "1")
    lost = s3.lose_replies(puts("object"))
    second = store.write_text_if_match("object", "2", first)
    assert len(lost) == 1
    assert store.read_versioned("object") == ("2", second)


def test_a_refusal_that_nobody_heard_is_one_all_the_same(s3, store):
    stale = store.write_text("object", "1")
    store.write_text("object", "theirs")
    lost = s3.lose_replies(puts("object"), times=2)
    # The same text as theirs, which does not make theirs ours.
    with pytest.raises(AlreadyExists):
        store.write_text_if_absent("object", "theirs")
    with pytest.raises(ObjectChanged):
        store.write_text_if_match("object", "theirs", stale)
    assert len(lost) == 2
    assert store.read_text("object") == "theirs"


def test_a_put_that_never_arrived_is_a_failure(s3, store):
    first = store.write_text("object", "1")
    s3.before(lambda environ: ("500 Oops", b"") if puts()(environ) else None)
    with pytest.raises(Unavailable):
        store.write_text_if_absent("other", "x")
    with pytest.raises(Unavailable):
        store.write_text_if_match("object", "2", first)
    s3.disarm()
    assert store.list() == ["object"]
    assert store.read_text("object") == "1"


def test_a_store_that_cannot_be_asked_either_is_a_failure(s3, store):
    s3.lose_replies(lambda environ: environ["REQUEST_METHOD"] in {"PUT", "HEAD"}, times=2)
    with pytest.raises(Unavailable):
        store.write_text_if_absent("object", "mine")


# ------------------------------------------------------------------ locks


@pytest.mark.parametrize("used_before", [False, True], ids=["claimed", "taken again"])
def test_a_lock_whose_put_nobody_answered_is_held_and_given_back(s3, s3_root, store, used_before):
    locks = LockManager(store, lease_period=PERIOD)
    if used_before:
        locks.acquire("table").release()
    lost = s3.lose_replies(puts("__locks"))
    with locks.acquire("table", Patience(0)) as held:
        assert len(lost) == 1
        held.check()
        other = LockManager(open_store(s3_root), lease_period=PERIOD)
        assert other.try_acquire("table") is None
    with other.acquire("table", Patience(0)) as held:
        held.check()


def test_a_lock_whose_put_is_answered_too_late_is_held(s3, s3_root):
    period = 15.0  # requests are given up after a third of it
    locks = LockManager(s3_root, lease_period=period)
    late = threading.Event()

    def answer_late(environ):
        if puts("__locks")(environ) and not late.is_set():
            late.wait(30)

    s3.after(answer_late)
    with locks.acquire("table") as held:
        late.set()
        held.check()


def test_giving_a_lock_back_that_nobody_answered_frees_it(s3, s3_root, store):
    held = LockManager(store, lease_period=PERIOD).acquire("table")
    lost = s3.lose_replies(lambda environ: environ["REQUEST_METHOD"] in {"PUT", "HEAD"}, times=2)
    held.release()
    assert len(lost) == 2
    other = LockManager(open_store(s3_root), lease_period=PERIOD)
    other.acquire("table", Patience(0)).release()


def test_a_lease_is_given_back_after_a_renewal_that_nobody_answered(s3, s3_root, store):
    lease = Leases(store, PERIOD).attempt("__locks/table", "me")
    lost = s3.lose_replies(lambda environ: environ["REQUEST_METHOD"] in {"PUT", "HEAD"}, times=2)
    lease.renew()
    assert len(lost) == 2
    lease.release()
    assert Leases(open_store(s3_root), PERIOD).attempt("__locks/table", "them") is not None


def test_a_lease_that_somebody_else_holds_is_not_claimed_by_an_unclear_answer(s3, s3_root, store):
    ours, theirs = Leases(store, PERIOD), Leases(open_store(s3_root), PERIOD)

    def they_come_first(environ):
        if puts("__locks")(environ) and not taken:
            taken.append(None)
            taken.append(theirs.attempt("__locks/table", "them"))

    taken: list[object] = []
    s3.before(they_come_first)
    lost = s3.lose_replies(lambda environ: puts("__locks")(environ) and len(taken) == 2)
    assert ours.attempt("__locks/table", "us") is None
    assert len(lost) == 1
    s3.disarm()
    taken[1].check()
    assert '"them"' in store.read_text("__locks/table")


# ------------------------------------------------------------------ branches of a table


@pytest.fixture
def ref(s3_root):
    return TableRef(s3_root.child("table"), storage_options=s3_root.lance_options())


@pytest.mark.parametrize("times", [1, ALL_TRIES])
def test_a_branch_whose_ref_nobody_answered_for_is_made(s3, ref, times):
    table = new_table(ref, rows("ab"))
    lost = s3.lose_replies(puts("/_refs/branches/"), times)
    assert contents(create_branch(table, "feature/x")) == {"a": 0, "b": 1}
    assert len(lost) == times
    made = list_branches(ref)["feature/x"]
    assert (made.parent, made.parent_version) == (None, table.version)


def test_a_branch_that_was_there_is_not_taken_for_ours(s3, ref):
    table = new_table(ref, rows("ab"))
    create_branch(table, "b")
    identifier = list_branches(ref)["b"].identifier
    s3.lose_replies(lambda environ: True, ALL_TRIES)
    with pytest.raises((BranchExists, StorageError)):
        create_branch(table, "b")
    s3.disarm()
    assert list_branches(ref)["b"].identifier == identifier


def test_a_branch_whose_files_cannot_be_removed_is_deleted_all_the_same(s3, ref):
    table = new_table(ref, rows("ab"))
    create_branch(table, "b")
    refused = []

    def refuse_the_second(environ):
        if deletes(environ):
            refused.append(environ)
            return None if len(refused) == 1 else ("500 Internal Server Error", b"")
        return None

    s3.before(refuse_the_second)
    delete_branch(ref, "b")
    s3.disarm()
    assert len(refused) > 1
    assert list_branches(ref) == {}
    with pytest.raises(BranchExists):  # the files are there, and are removed by whoever needs room
        create_branch(table, "b")


def test_a_branch_that_cannot_be_deleted_is_there_and_the_error_says_so(s3, ref):
    table = new_table(ref, rows("ab"))
    create_branch(table, "b")
    s3.before(lambda environ: ("500 Internal Server Error", b"") if deletes(environ) else None)
    with pytest.raises(StorageError, match="deleting the branch b"):
        delete_branch(ref, "b")
    s3.disarm()
    assert list(list_branches(ref)) == ["b"]
    assert contents(open_table(ref.on("b"))) == {"a": 0, "b": 1}


# ------------------------------------------------------------------ a graph


@pytest.fixture
def graph(s3_root):
    with og.init(s3_root.canonical, SCHEMA) as graph:
        graph.load([{"type": "Doc", "data": {"ref": "a"}}])
        yield graph


def refs(graph, branch="main"):
    query = "query q() { match { $d: Doc } return { $d.ref as ref } order { ref } }"
    return [row["ref"] for row in graph.query(query, branch=branch).rows]


def test_a_branch_create_with_a_lost_reply_succeeds(s3, graph):
    lost = s3.lose_replies(puts("/_refs/branches/"))
    assert graph.branches.create("dev").name == "dev"
    assert len(lost) == 1
    assert graph.branches.list() == ["main", "dev"]
    assert refs(graph, "dev") == ["a"]


def test_a_load_that_makes_its_branch_with_a_lost_reply_succeeds(s3, graph):
    # The ref of the graph's branch, and that of the table's fork.
    lost = s3.lose_replies(puts("/_refs/branches/"), times=2)
    result = graph.load([{"type": "Doc", "data": {"ref": "b"}}], branch="dev", from_branch="main")
    assert len(lost) == 2
    assert result.branch_created
    assert (refs(graph, "dev"), refs(graph)) == (["a", "b"], ["a"])


def test_a_write_goes_on_when_nobody_answers_its_locks_and_the_next_need_not_wait(
    s3, graph, monkeypatch
):
    # A request for a lock is sent twice.
    lost = s3.lose_replies(puts("/__locks/"), times=2)
    graph.load([{"type": "Doc", "data": {"ref": "b"}}])
    assert len(lost) == 2
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "1000")
    with og.open(graph.uri) as other:
        other.load([{"type": "Doc", "data": {"ref": "c"}}])
        assert refs(other) == ["a", "b", "c"]


def test_a_write_whose_sidecar_nobody_answered_for_succeeds(s3, graph):
    lost = s3.lose_replies(puts("/__recovery/"), times=10)
    graph.load([{"type": "Doc", "data": {"ref": "b"}}])
    assert len(lost) > 1
    s3.disarm()
    assert refs(graph) == ["a", "b"]
    assert workspace_of(graph).store.list("__recovery") == []
