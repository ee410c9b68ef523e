"""What lies in the place of a graph that is being deleted, or was: telling it, and removing it.

A writer stages files before it takes a lock, so a delete may come between. Such a writer finds that there is no
graph any more, and removes what it has made since.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omnigraph import failpoints
from omnigraph.errors import Contention, NotAGraph, StorageError
from omnigraph.storage import layout
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.uris import Root

BEFORE_TOMBSTONE_REMOVED = failpoints.declare("graph_delete.before_tombstone_removed")


def has_manifest(store: ObjectStore) -> bool:
    """Return whether there is a graph to open, deleted or not."""
    return store.exists(layout.MANIFEST_VERSIONS)


def is_deleted_half(store: ObjectStore) -> bool:
    """Return whether a delete was begun that made the graph unreadable."""
    return not has_manifest(store) and store.exists(layout.TOMBSTONE)


def remove_rest(root: Root, store: ObjectStore) -> None:
    """Remove everything of a graph whose manifest has gone, and the tombstone last."""
    for prefix in sorted({name.partition("/")[0] for name in store.list()} - {layout.RECOVERY_DIR}):
        store.delete_prefix(prefix)
        store.delete(prefix)
    for name in store.list(layout.RECOVERY_DIR):
        if name != layout.TOMBSTONE:
            store.delete(name)
    if root.is_local:
        _remove_unlisted(Path(root.path))
    BEFORE_TOMBSTONE_REMOVED.hit()
    store.delete(layout.TOMBSTONE)
    if root.is_local:
        shutil.rmtree(root.path, ignore_errors=True)


def _remove_unlisted(root: Path) -> None:
    """Remove what stores do not list: directories without files, and temporary ones.

    Several may do so at once, the delete and writers that found the graph deleted: nothing has to be there.
    """
    try:
        entries = list(root.iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name == layout.RECOVERY_DIR:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with suppress(FileNotFoundError):
                entry.unlink()


@contextmanager
def leaving_nothing(root: Root, store: ObjectStore) -> Iterator[None]:
    """Do something with an open graph; if that was deleted meanwhile, it fails by ``NotAGraph`` and leaves no file."""
    try:
        yield
    except (StorageError, Contention) as error:
        if not _is_deleted(store):
            raise
        with suppress(StorageError, Contention, OSError):
            _remove_remains(root, store)
        if isinstance(error, NotAGraph):
            raise
        raise NotAGraph(
            f"the graph at {root.canonical} was deleted; check the address", root=root.canonical
        ) from error


def _is_deleted(store: ObjectStore) -> bool:
    """Return whether a delete has made the graph unreadable, or was finished.

    A graph that lost its manifest in another way still has the mirrors of its schema, and is left as it is.
    """
    try:
        if has_manifest(store):
            return False
        return store.exists(layout.TOMBSTONE) or not any(map(store.exists, layout.SCHEMA_MIRRORS))
    except StorageError:
        return False


def _remove_remains(root: Root, store: ObjectStore) -> None:
    if root.is_local and not Path(root.path).exists():
        return
    if is_deleted_half(store):
        remove_rest(root, store)
        return
    if not root.is_local and not store.list():
        return
    # Whoever makes a graph holds this lock from before its first file.
    locks = LockManager(root)
    held = locks.try_acquire(locks.graph_lock())
    if held is not None:
        with held:
            if not has_manifest(store):
                remove_rest(root, store)
