"""Opens the object store of a graph root: a local directory, or a prefix in a bucket.

Commits and locks depend on conditional writes; whether a store really has them is tested here too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from obstore import exceptions

from omnigraph.errors import StorageError
from omnigraph.storage.layout import PROBE_DIR
from omnigraph.storage.objects.local_objects import LocalObjectStore
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import AlreadyExists, ObjectChanged, translate
from omnigraph.storage.store_kinds.known import kind_of, shown_cause
from omnigraph.storage.store_kinds.store_kind import Limits
from omnigraph.storage.uris import Root

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Opened


_LIMITS = Limits()


def open_store(
    root: Root, limits: Limits = _LIMITS, given: Mapping[str, str] | None = None
) -> ObjectStore:
    """Open the control objects of a root. The limits are for each request to a store; a disk has none.

    ``given`` as for ``open_bucket``.
    """
    kind = kind_of(root.canonical)
    if kind is None:
        return LocalObjectStore(root.path)
    return ObjectStore(open_bucket(root, limits, given), root.canonical, kind.version_field)


def open_bucket(
    root: Root, limits: Limits = _LIMITS, given: Mapping[str, str] | None = None
) -> Opened:
    """Open the bucket of a root, or its part of it, with obstore.

    Endpoint and credentials are those of the root, or ``given`` by a process that has them.
    """
    kind = kind_of(root.canonical)
    assert kind is not None
    options = root.lance_options() if given is None else given
    try:
        return kind.open(root.bucket, root.path, options, limits)
    except (ValueError, exceptions.BaseError) as error:
        address = f"{root.scheme}://{root.bucket}"
        raise translate(error, "open", root.path, address) from shown_cause(error)


def probe_put_if_absent(store: ObjectStore) -> None:
    """Claim a scratch object twice; ``StorageError`` when the second claim gets through."""
    with _scratch(store) as name:
        store.write_text_if_absent(name, "first")
        try:
            store.write_text_if_absent(name, "second")
        except AlreadyExists:
            if store.read_text(name) == "first":
                return
        raise StorageError(
            f"{store.address} ignores put-if-absent: a second claim of one object got through, so "
            "concurrent commits would overwrite each other and lose data silently; use a store "
            "that honours `If-None-Match: *`"
        )


def probe_compare_and_set(store: ObjectStore) -> None:
    """Replace a scratch object by a stale token; ``StorageError`` when that gets through."""
    with _scratch(store) as name:
        stale = store.write_text(name, "first")
        store.write_text_if_match(name, "second", stale)
        try:
            store.write_text_if_match(name, "third", stale)
        except ObjectChanged:
            if store.read_text(name) == "second":
                return
        raise StorageError(
            f"{store.address} ignores compare-and-set: a stale write got through, so two writers "
            "could hold one lock and lose data silently; use a store that honours `If-Match`"
        )


@contextlib.contextmanager
def _scratch(store: ObjectStore) -> Iterator[str]:
    directory = f"{PROBE_DIR}/{uuid4().hex}"
    try:
        yield f"{directory}/claim"
    finally:
        store.delete_prefix(directory)
