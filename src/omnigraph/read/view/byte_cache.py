"""What reads keep in memory: built once per key, dropped by bytes when there is too much of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from omnigraph.cancel import wait_for

T = TypeVar("T")


@dataclass(slots=True)
class _Entry:
    value: Any
    size: Callable[[Any], int]
    nbytes: int


class ByteCache:
    """Values by key, least recently used ones dropped first when their bytes exceed the budget.

    Dropping removes the cache's own reference only: callers that hold a value go on using it. A value
    larger than the whole budget is built and handed out, but not kept.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._total = 0
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
                        self._recount(entry)
                        self._shrink()
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
