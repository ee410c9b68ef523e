"""What reads keep in memory: built once per key, dropped by bytes when there is too much of it, or when it is outdated.

After each commit a reader numbers another state of the tables that were written. The older ones are of no
use, unless somebody reads the past: without ``drop_outdated`` they would stay until the whole cache is full of them.

    open snapshots pin version 8; numbered are 5, 7 and 8; columns are there of 5 and 8
    -> 5 and 7 leave the cache

Of what is cached about a table the newest state stays in any case, because the next one is derived from it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from omnigraph.cancel import wait_for
from omnigraph.read.view.pinned_table import Identity, PinnedTable

T = TypeVar("T")
_COUNTED_USES = 16
"""After how many uses of a value its bytes are counted again; the first time after one."""


@dataclass(slots=True)
class _Entry:
    value: Any
    size: Callable[[Any], int]
    nbytes: int
    uses: int = 0


class ByteCache:
    """Values by key, least recently used ones dropped first when their bytes exceed the budget.

    Dropping removes the cache's own reference only: callers that hold a value go on using it. A value
    larger than the whole budget is built and handed out, but not kept.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._total = 0
        self.dropped = 0
        """How many values were dropped so far."""
        self._building: dict[Hashable, threading.Event] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes kept, as of the last time they were counted."""
        return self._total

    def get(self, key: Hashable, build: Callable[[], T], size: Callable[[T], int]) -> T:
        """The value of the key, built by the first thread that asks while others wait for it.

        A build that fails raises where it ran; of the threads that waited, one tries again.
        """
        done: threading.Event | None = None
        # Ctrl-C can come at any point, and no thread may be left waiting for a build that was given up.
        try:
            while True:
                with self._lock:
                    entry = self._entries.get(key)
                    if entry is not None:
                        self._entries.move_to_end(key)
                        # Most values are made of several arrays, and do not grow any more.
                        if entry.uses % _COUNTED_USES == 0:
                            self._recount(entry)
                            self._shrink()
                        entry.uses += 1
                        value: T = entry.value
                        return value
                    pending = self._building.get(key)
                    if pending is None:
                        done = self._building[key] = threading.Event()
                        break
                wait_for(pending)
            value = build()
            self._keep(key, value, size)
            return value
        finally:
            if done is not None:
                with self._lock:
                    self._building.pop(key, None)
                done.set()

    def use(self, key: Hashable) -> Any | None:
        """The value of the key when it is there, which counts as a use; never builds it."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.value

    def drop(self, key: Hashable) -> None:
        """Drop one value, if it is there."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._total -= entry.nbytes
                self.dropped += 1

    def peek(self, key: Hashable) -> Any | None:
        """The value of the key when it is there; neither builds it nor counts as a use."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.value

    def kept(self) -> list[Hashable]:
        """The keys of what is kept, least recently used first."""
        with self._lock:
            return list(self._entries)

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self.dropped += len(self._entries)
            self._entries.clear()
            self._total = 0

    def _keep(self, key: Hashable, value: T, size: Callable[[T], int]) -> None:
        with self._lock:
            # Other values may have grown since they were counted, and their room is needed now.
            for entry in self._entries.values():
                self._recount(entry)
            kept = _Entry(value, size, size(value))
            if kept.nbytes <= self.budget:
                self._entries[key] = kept
                self._total += kept.nbytes
                self._shrink()

    def _recount(self, entry: _Entry) -> None:
        nbytes = entry.size(entry.value)
        self._total += nbytes - entry.nbytes
        entry.nbytes = nbytes

    def _shrink(self) -> None:
        while self._total > self.budget and self._entries:
            _, dropped = self._entries.popitem(last=False)
            self._total -= dropped.nbytes
            self.dropped += 1


class NodesKey(NamedTuple):
    """The ids of a node table."""

    table: Identity


class EdgesKey(NamedTuple):
    """The edges of a table between the nodes of two others, whose ordinals they use."""

    table: Identity
    sources: Identity
    targets: Identity


class UnionKey(NamedTuple):
    """The edges of several tables as one."""

    parts: tuple[EdgesKey, ...]


class NodeChangesKey(NamedTuple):
    """What changed in a node table since an older state that is numbered."""

    table: Identity
    kind: Literal["changed nodes"] = "changed nodes"  # Keys of one content would be equal.


class EdgeChangesKey(NamedTuple):
    """What changed in an edge table since an older state that is numbered."""

    table: Identity
    kind: Literal["changed edges"] = "changed edges"  # Keys of one content would be equal.


def nodes_key(pinned: PinnedTable) -> NodesKey:
    """What the ids of a node table are cached under."""
    return NodesKey(pinned.identity)


def edges_key(pinned: PinnedTable, sources: PinnedTable, targets: PinnedTable) -> EdgesKey:
    """What the edges of a table are cached under."""
    return EdgesKey(pinned.identity, sources.identity, targets.identity)


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
