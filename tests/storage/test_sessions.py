"""Which tables share what Lance caches, and when the caches begin empty again."""

from __future__ import annotations

import pytest

from omnigraph.storage.tables import lance_import
from omnigraph.storage.tables.lance_import import MANIFESTS_OPENED, forget_sessions, session


@pytest.fixture(autouse=True)
def fresh():
    forget_sessions()
    yield
    forget_sessions()


def same(first, second) -> bool:
    return first.is_same_as(second)


def test_tables_share_a_session_for_good():
    first = session("/g/nodes/a")
    for _ in range(2 * MANIFESTS_OPENED):
        assert same(session("/g/nodes/b"), first)


@pytest.mark.parametrize(
    ("place", "identifier"), [("/g/__manifest", None), ("/g/__manifest/tree/b", "1")]
)
def test_versions_of_a_manifest_are_not_kept_for_ever(place, identifier):
    first = session(place, identifier)
    for _ in range(MANIFESTS_OPENED - 1):
        assert same(session(place, identifier), first)
    second = session(place, identifier)
    assert not same(second, first)
    assert same(session("/h/__manifest"), second)
    assert not same(session("/g/nodes/a"), second)


@pytest.mark.parametrize("table", ["nodes/a", "__manifest"])
def test_a_branch_that_was_made_again_does_not_get_what_was_cached_of_the_old_one(table):
    place = f"/g/{table}/tree/b"
    old = session(place, "1")
    assert same(old, session(f"/g/{table}"))
    new = session(place, "2")
    assert not same(new, old)
    assert same(session(place, "2"), new)
    assert same(session(f"/g/{table}/tree/c", "3"), old)


def test_very_many_branches_are_not_remembered(monkeypatch):
    monkeypatch.setattr(lance_import, "_MAX_BRANCHES", 2)
    first = session("/g/nodes/a/tree/b", "1")
    assert same(session("/g/nodes/a/tree/c", "2"), first)
    assert not same(session("/g/nodes/a/tree/d", "3"), first)
