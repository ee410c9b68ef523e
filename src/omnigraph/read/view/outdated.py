"""Which states of tables leave the cache: those that no open snapshot needs and nothing starts from.

After each commit a reader numbers another state of the tables that were written. The older ones are of no
use, unless somebody reads the past: without this they would stay until the whole cache is full of them.

    open snapshots pin version 8; numbered are 5, 7 and 8; columns are there of 5 and 8
    -> 5 and 7 leave the cache

Of what is cached about a table the newest state stays in any case, because the next one is derived from it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.numbered import EdgeChangesKey, EdgesKey, NodeChangesKey
from omnigraph.read.view.pinned_table import Identity


def drop_outdated(cache: ByteCache, needed: Iterable[Identity]) -> None:
    """Drop what is cached about states other than the needed ones, those that others build on excepted."""
    keys = cache.kept()
    newest = _newest(keys)
    wanted = frozenset(needed)
    used = set(wanted)
    for key in keys:
        if isinstance(key, EdgesKey | NodeChangesKey | EdgeChangesKey) and (
            key in newest or wanted.issuperset(identities(key))
        ):
            # What a state is made of stays with it: its nodes, or the state that its changes begin at.
            used.update(identities(key))
            changes = None if isinstance(key, EdgesKey) else cache.peek(key)
            if changes is not None:
                used.update(identities((changes.base,)))
    for key in keys:
        mentioned = set(identities(key))
        if mentioned and key not in newest and not mentioned <= used:
            cache.drop(key)


def identities(key: Hashable) -> Iterator[Identity]:
    """Yield the states that a key is about."""
    if isinstance(key, Identity):
        yield key
    elif isinstance(key, tuple):
        for part in key:
            yield from identities(part)


def _newest(keys: Iterable[Hashable]) -> set[Hashable]:
    """Return the newest of the keys that differ by versions alone."""
    found: dict[Any, Hashable] = {}
    for key in keys:
        group = _without_versions(key)
        known = found.get(group)
        if known is None or _versions(key) >= _versions(known):
            found[group] = key
    return set(found.values())


def _versions(key: Hashable) -> list[int]:
    return [state.version for state in identities(key)]


def _without_versions(key: Hashable) -> Hashable:
    if isinstance(key, Identity):
        return key.lineage
    if isinstance(key, tuple):
        return type(key), *map(_without_versions, key)
    return key
