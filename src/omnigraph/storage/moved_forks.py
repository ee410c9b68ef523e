"""Forks of tables in a graph that lies elsewhere than before: where they find what they inherited.

The manifest of every fork holds the absolute addresses of the tables and forks it was made from
(``lance_format/file_ends.py``). All of them lie in the same graph, so the new address follows from the
old one: what stands behind the location of the table stays. For example, at the root `/new`:

    /old/nodes/5b1f9d6a/tree/review   in a manifest of   nodes/5b1f9d6a/tree/draft
    /new/nodes/5b1f9d6a/tree/review

What is right already is left alone, so this may be done again and again, after a crash too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from omnigraph.errors import StorageError
from omnigraph.storage.lance_format.file_ends import with_base_paths
from omnigraph.storage.layout import MANIFEST, TABLE_DIRS
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import ObjectNotFound
from omnigraph.storage.uris import Root

_AT_ONCE: Final = 8
_OF_A_FORK: Final = re.compile(
    rf"(?P<table>{MANIFEST}|(?:{'|'.join(TABLE_DIRS)})/[^/]+)/tree/.+/_versions/[0-9]{{20}}\.manifest"
)


def settle_forks(root: Root, store: ObjectStore, done: Callable[[], object] = lambda: None) -> int:
    """Make every version of every fork find its files below this root; return how many were changed.

    ``done`` is called after each.
    """

    def settle(manifest: tuple[str, str]) -> int:
        changed = _settle(root, store, *manifest)
        if changed:
            done()
        return changed

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(settle, list(_fork_manifests(store))))


def _fork_manifests(store: ObjectStore) -> Iterator[tuple[str, str]]:
    """Yield the location of a table and the name of a manifest of one of its forks, for all of them."""
    for place in (MANIFEST, *TABLE_DIRS):
        for name in store.list(place):
            found = _OF_A_FORK.fullmatch(name)
            if found is not None:
                yield found["table"], name


def _settle(root: Root, store: ObjectStore, table: str, name: str) -> int:
    try:
        file = store.read_bytes(name)
    except ObjectNotFound:
        return 0  # its branch is being deleted
    try:
        changed = with_base_paths(file, lambda path: moved_base(path, table, root.child(table)))
    except (StorageError, UnicodeDecodeError) as error:
        raise StorageError(
            f"{name} under {root.canonical} cannot be read, so its branch would not find its rows here "
            f"({error}); restore the file from a copy"
        ) from error
    if changed is None:
        return 0
    store.replace_bytes(name, changed)
    return 1


def moved_base(path: str, table: str, address: str) -> str:
    """Return a base path of a table that is at this address now; one of another table stays.

    The first place that fits is the table: a branch may be called `x/__manifest`.
    """
    for found in re.finditer(re.escape(f"/{table}"), path):
        rest = path[found.end() :]
        if not rest or rest.startswith("/tree/"):
            return f"{address}{rest}"
    return path
