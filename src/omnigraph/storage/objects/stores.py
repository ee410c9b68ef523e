"""Opens the object store of a graph root: a local directory, or a prefix in a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from obstore import exceptions

from omnigraph.storage.objects.local_objects import LocalObjectStore
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.objects.store_errors import translate
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
