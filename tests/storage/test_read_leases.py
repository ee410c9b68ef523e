"""Read leases: what they name, how long they live, and what becomes of them when a store fails."""

import json
import threading

import pytest

from omnigraph.clock import now_us
from omnigraph.errors import StorageError
from omnigraph.storage.locks.read_leases import (
    DEAD_AFTER_US,
    LeasedTable,
    live_leases,
    put_lease,
    remove_dead_leases,
)
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import Unavailable
from omnigraph.storage.owner import OwnerProcess

TABLES = (
    LeasedTable("edge:Knows", "edges/1", 3),
    LeasedTable("node:Person", "nodes/2", 8, "review", "0b7c"),
)


@pytest.fixture
def store():
    return ObjectStore.in_memory()


def test_a_lease_names_its_reader_and_its_tables_until_it_ends(store):
    before = now_us()
    with put_lease(store, "graph", "export", TABLES) as held:
        (lease,) = live_leases(store, now_us())
        assert lease == held.lease
        assert (lease.graph_id, lease.operation, lease.tables) == ("graph", "export", TABLES)
        assert lease.owner == OwnerProcess.current()
        assert before <= lease.created_at == lease.renewed_at <= now_us()
        assert store.list() == [f"__leases/{lease.id}.json"]
    assert store.list() == []


def test_a_lease_lives_for_fifteen_minutes_after_its_last_renewal(store):
    with put_lease(store, "graph", "export", TABLES) as held:
        last = held.lease.renewed_at
        assert DEAD_AFTER_US == 15 * 60 * 1_000_000
        assert live_leases(store, last + DEAD_AFTER_US - 1) == [held.lease]
        assert live_leases(store, last + DEAD_AFTER_US) == []
        assert remove_dead_leases(store, last + DEAD_AFTER_US - 1) == []
        assert remove_dead_leases(store, last + DEAD_AFTER_US) == [held.lease]
        assert store.list() == []


class Watched:
    """A store that tells when a lease is written again, and can refuse it."""

    def __init__(self, store):
        self.store = store
        self.tries = threading.Semaphore(0)
        self.down = False

    def write_text_if_match(self, name, text, version):
        self.tries.release()
        if self.down:
            raise Unavailable("out of reach")
        return self.store.write_text_if_match(name, text, version)

    def __getattr__(self, name):
        return getattr(self.store, name)


def test_a_lease_is_renewed_also_after_a_renewal_failed_and_never_after_its_end(store):
    watched = Watched(store)
    watched.down = True
    held = put_lease(watched, "graph", "export", TABLES, renew_seconds=0.001)
    for _ in range(3):
        assert watched.tries.acquire(timeout=600)
    assert live_leases(store, now_us()) == [held.lease]
    watched.down = False
    # The try after the next one began when the next one had been written.
    for _ in range(3):
        assert watched.tries.acquire(timeout=600)
    (renewed,) = live_leases(store, now_us())
    assert renewed.renewed_at > held.lease.renewed_at
    assert (renewed.created_at, renewed.tables) == (held.lease.created_at, TABLES)
    held.end()
    assert store.list() == []
    assert not [one for one in threading.enumerate() if one.name == "read lease"]


def test_a_lease_that_somebody_removed_is_not_put_back(store):
    held = put_lease(store, "graph", "export", TABLES, renew_seconds=0.001)
    (name,) = store.list()
    store.delete(name)
    held._thread.join(600)
    assert not held._thread.is_alive()
    assert store.list() == []
    held.end()


def test_a_renewal_that_was_never_answered_stops_nothing(store):
    watched = Watched(store)
    held = put_lease(watched, "graph", "export", TABLES, renew_seconds=0.001)
    (name,) = store.list()
    store.write_text(name, store.read_text(name))  # the same content, under another version
    before = held.lease.renewed_at
    for _ in range(8):
        assert watched.tries.acquire(timeout=600)
    (renewed,) = live_leases(store, now_us())
    assert renewed.renewed_at > before
    held.end()
    assert store.list() == []


def test_a_lease_that_cannot_be_deleted_does_no_harm(store, caplog):
    class Stuck(Watched):
        def delete(self, name):
            raise Unavailable("out of reach")

    put_lease(Stuck(store), "graph", "export", TABLES).end()
    assert "stays for 15 minutes" in caplog.text
    assert len(store.list()) == 1


def test_other_objects_are_no_leases_and_a_broken_lease_is_named(store):
    store.write_text("__leases/notes.txt", "x")
    assert live_leases(store, now_us()) == []
    name = "__leases/01J0ABCDEFGHJKMNPQRSTVWXYZ.json"
    with put_lease(store, "graph", "export", TABLES) as held:
        whole = json.loads(store.read_text(f"__leases/{held.lease.id}.json"))
    half = {"id": "x", "owner": {}, "tables": []}
    never = {**whole, "renewed_at": None}
    table = {**whole["tables"][0], "table_version": "8"}
    nameless = {**whole, "tables": [table]}
    wrong = [half, never, nameless, {**whole, "graph_id": 7}]
    for text in ("", "[]", "{}", "[" * 2000, *map(json.dumps, wrong)):
        store.write_text(name, text)
        with pytest.raises(StorageError, match=name):
            live_leases(store, now_us())
        with pytest.raises(StorageError, match=name):
            remove_dead_leases(store, now_us())
