"""The kinds of object stores there are. Another one is a module beside ``s3``, and its value here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from omnigraph.storage.store_kinds.s3 import S3
from omnigraph.storage.store_kinds.store_kind import StoreKind, StoreOptions

STORE_KINDS: tuple[StoreKind, ...] = (S3(),)
"""All of them; the first is meant by options that come without an address of a store."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(text: str) -> str | None:
    """Return what stands before `://`, in lower case; None for a path."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else None


def kind_of(address: object) -> StoreKind | None:
    """Return the kind of store that an address names; None for anything else."""
    scheme = scheme_of(address) if isinstance(address, str) else None
    return next(
        (kind for kind in STORE_KINDS if scheme in (kind.scheme, *kind.other_schemes)), None
    )


def store_address(text: str) -> str | None:
    """Return an address in a store as `scheme://bucket/key`, however it begins; None for any other text."""
    kind = kind_of(text)
    return None if kind is None else f"{kind.scheme}://{text.partition('://')[2]}"


def parse_store_options(given: Mapping[str, object] | None, address: object) -> StoreOptions | None:
    """Check the options that a caller gives with the address of a graph; None for nothing.

    With a graph on a disk they are for the files and blobs that it loads from a store.
    """
    return (kind_of(address) or STORE_KINDS[0]).parse_options(given)


def without_body(message: str) -> str:
    """Return a message without what the answer of a store repeats of the request."""
    for kind in STORE_KINDS:
        message = kind.without_body(message)
    return message


def missing_bucket(error: BaseException) -> str | None:
    """Return what to say if a store answers that there is no such bucket; None for any other failure."""
    return next(filter(None, (kind.missing_bucket(str(error)) for kind in STORE_KINDS)), None)


def shown_cause(error: BaseException) -> BaseException | None:
    """Return an exception as the cause of ours; None if its text must not be shown."""
    return error if without_body(str(error)) == str(error) else None
