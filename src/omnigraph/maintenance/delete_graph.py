"""Delete a graph with everything it has. A delete that was cut short can be run again.

1. Take the graph lock, and the head lock and every table lock of every branch: no writer is under way.
2. Write the tombstone, which writers meet where they list sidecars.
3. Remove the manifest: from then on there is no graph, for new handles and for open ones.
4. Remove the rest, and the tombstone last. Writers that staged files meanwhile remove those themselves
   (``storage/remains.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Final

from omnigraph import failpoints
from omnigraph.clock import stamp_us
from omnigraph.errors import Contention
from omnigraph.manifest import refs
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage import layout
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.stores import open_store
from omnigraph.storage.remains import has_manifest, remove_rest
from omnigraph.storage.uris import Root

BEFORE_TOMBSTONE = failpoints.declare("graph_delete.before_tombstone")
AFTER_TOMBSTONE = failpoints.declare("graph_delete.after_tombstone")
AFTER_MANIFEST = failpoints.declare("graph_delete.after_manifest")

_TRIES: Final = 5
_V2_DIGITS: Final = 20
_LARGEST: Final = (1 << 64) - 1


def delete_graph(workspace: Workspace) -> None:
    """Delete an open graph; ``Contention`` if a writer does not end in time."""
    root, store = workspace.root, workspace.store
    with _held(workspace):
        BEFORE_TOMBSTONE.hit()
        store.write_text(layout.TOMBSTONE, json.dumps({"deleted_at": stamp_us()}))
        AFTER_TOMBSTONE.hit()
        _remove_manifest(root, store)
        AFTER_MANIFEST.hit()
        remove_rest(root, store)


def finish_delete(root: Root) -> None:
    """Finish a delete that was cut short after the manifest had gone."""
    remove_rest(root, open_store(root))


def withdraw(store: ObjectStore) -> None:
    """Take the tombstone of a delete away that removed nothing: the graph stays."""
    if has_manifest(store):
        store.delete(layout.TOMBSTONE)


@contextmanager
def _held(workspace: Workspace) -> Iterator[None]:
    """Hold every lock that a writer could need."""
    for _ in range(_TRIES):
        wanted = _every_lock(workspace)
        with workspace.locks.acquire(wanted, None, Purpose("graph_delete", False)):
            if _every_lock(workspace) <= wanted:
                yield
                return
    raise Contention(
        f"branches or types of {workspace.root.canonical} kept changing; try again", attempts=_TRIES
    )


def _every_lock(workspace: Workspace) -> set[str]:
    locks = workspace.locks
    names = {locks.graph_lock()}
    for branch in refs.list_refs(workspace.manifest):
        names.add(locks.head_lock(branch))
        tables = workspace.manifest.state(branch).head.tables.values()
        names |= {workspace.lock_name(table.location, branch) for table in tables}
    return names


def _remove_manifest(root: Root, store: ObjectStore) -> None:
    """Remove the manifest so that nobody ever sees an earlier state of it as the graph."""
    if not root.is_local:
        # A disk moves the directory aside in one step. In a store the newest version goes last.
        for name in sorted(store.list(layout.MANIFEST_VERSIONS), key=_version_of):
            store.delete(name)
    store.delete_prefix(layout.MANIFEST)


def _version_of(name: str) -> int:
    """Return the version that an object of the manifest is; Lance 14 counts names down from the largest."""
    stem = PurePosixPath(name).name.partition(".")[0]
    if not stem.isdigit():
        return -1
    return _LARGEST - int(stem) if len(stem) == _V2_DIGITS else int(stem)
