"""Tests whether a store really has the conditional writes that commits and locks depend on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from uuid import uuid4

from omnigraph.errors import StorageError
from omnigraph.storage.layout import PROBE_DIR
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import AlreadyExists, PreconditionFailed


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
        except PreconditionFailed:
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
