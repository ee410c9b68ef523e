"""Which file this process saw last at a place, so that it notices when another one was put there.

Lance caches what it read of a table by directory and version. When a backup is put back, both stay the
same and the rows do not. So whoever opens a table that this process had open before asks here whether the
file it saw last is still there; if not, the caches begin empty.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables.lance_import import forget_sessions


class Sighting(NamedTuple):
    """A file, and its fingerprint when it was seen; None if it could not be told."""

    name: str
    fingerprint: str | None

    def holds(self, store: ObjectStore) -> bool:
        """Return whether the very same file is still there."""
        return self.fingerprint is not None and store.fingerprint(self.name) == self.fingerprint


_last: dict[str, Sighting] = {}
_lock = threading.Lock()


def note(place: str, sighting: Sighting) -> None:
    """Remember what was seen last at a place."""
    with _lock:
        _last[place] = sighting


def check_place(place: str, store: ObjectStore) -> None:
    """Drop what Lance caches unless the file that was seen last at a place is still there."""
    with _lock:
        known = _last.get(place)
    if known is not None and not known.holds(store):
        forget_place(place)


def forget_place(place: str) -> None:
    """Drop what Lance caches, because another file is at this place now."""
    with _lock:
        _last.pop(place, None)
    forget_sessions()
