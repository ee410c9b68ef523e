"""The errors of a store, and the translation of obstore's and the system's failures into them."""

from __future__ import annotations

import errno
import re
from typing import Final

from obstore import exceptions

from omnigraph.errors import BadRequest, Contention, OmniGraphError, StorageError
from omnigraph.storage import full_disk
from omnigraph.storage.store_kinds.known import missing_bucket, without_body

_HTTP_REFUSAL = re.compile(r"status code: 40[13]\b")
_LOOKING: Final = frozenset({"read", "look for", "list", "delete"})
_OS_ERROR = re.compile(r"\(os error ([0-9]+)\)")


class ObjectNotFound(StorageError):
    """There is no object of that name."""


class AlreadyExists(StorageError):
    """The name is taken; what is there was left untouched."""


class ObjectChanged(StorageError):
    """The object is not the version the caller read: a lost race."""


class PermissionDenied(StorageError):
    """The store does not know the caller, or does not allow the request."""


class Unavailable(StorageError):
    """The store did not answer, or gave no usable answer; a write may have happened."""


class InvalidText(StorageError):
    """The object is there and is not UTF-8 text."""


class LockLost(Contention):
    """A lock was lost while it was held; the work it protected must stop."""


def lock_lost(name: str, why: str) -> LockLost:
    """The error for a lock that was lost."""
    return LockLost(
        f'the lock "{name}" was lost ({why}), so the operation stopped; run it again',
        attempts=1,
        lock=name,
    )


def translate(
    error: Exception, verb: str, name: str, address: str, needed: int | None = None
) -> OmniGraphError:
    """Turn a failure of obstore or of the system into an error of this module.

    ``needed``: how many bytes were to be written, if that is known.
    """
    cause = without_body(str(error)).split("\n", 1)[0].strip()
    what = f'cannot {verb} "{name}" under {address}'
    if _error_number(error) == errno.ENAMETOOLONG:
        return BadRequest(f"{what}: the name is too long for this disk; shorten it")
    if (missing := missing_bucket(error)) is not None:
        # A missing bucket is not a missing object.
        return Unavailable(f"{what}: {missing}", object=name)
    if full_disk.is_full(error):
        return full_disk.disk_full(what, error, needed, Unavailable)
    kind = _kind(error, verb)
    if kind is ObjectNotFound:
        return ObjectNotFound(f'there is no "{name}" under {address}', object=name)
    if kind is AlreadyExists:
        return AlreadyExists(f'"{name}" under {address} exists already', object=name)
    if kind is ObjectChanged:
        return ObjectChanged(
            f'"{name}" under {address} changed since it was read; read it again', object=name
        )
    if kind is PermissionDenied:
        return PermissionDenied(
            f"{what}: permission denied; check the credentials or the file permissions",
            object=name,
            cause=cause,
        )
    return kind(f"{what}: {cause}; check that the store is there and try again", object=name)


_KINDS: Final[dict[type[Exception], type[StorageError]]] = {
    FileNotFoundError: ObjectNotFound,
    FileExistsError: AlreadyExists,
    IsADirectoryError: AlreadyExists,
    PermissionError: PermissionDenied,
    exceptions.NotFoundError: ObjectNotFound,
    exceptions.AlreadyExistsError: AlreadyExists,
    exceptions.PreconditionError: ObjectChanged,
    exceptions.NotModifiedError: ObjectChanged,
    exceptions.PermissionDeniedError: PermissionDenied,
    exceptions.UnauthenticatedError: PermissionDenied,
}
_ERRNO_KINDS: Final[dict[int, type[StorageError]]] = {
    errno.ENOENT: ObjectNotFound,
    errno.EEXIST: AlreadyExists,
    errno.EISDIR: AlreadyExists,
    errno.ENOTEMPTY: AlreadyExists,
    errno.EACCES: PermissionDenied,
    errno.EPERM: PermissionDenied,
    errno.EROFS: PermissionDenied,
}


def _kind(error: Exception, verb: str) -> type[StorageError]:
    number = _error_number(error)
    if _HTTP_REFUSAL.search(str(error)):
        return PermissionDenied  # listings come as "generic" failures
    if number == errno.ENOTDIR:
        # An object is where the name needs a directory: nothing can be read or written there.
        return ObjectNotFound if verb in _LOOKING else AlreadyExists
    kind = _ERRNO_KINDS.get(number or 0) or _listed_kind(error)
    if verb in {"write", "claim"} and kind in {ObjectNotFound, ObjectChanged}:
        return Unavailable  # neither answers the request
    if isinstance(error, exceptions.AlreadyExistsError) and verb in {"write", "replace"}:
        # Two requests for one key overlapped.
        return ObjectChanged if verb == "replace" else Unavailable
    return kind


def _listed_kind(error: Exception) -> type[StorageError]:
    return next((ours for kind, ours in _KINDS.items() if isinstance(error, kind)), Unavailable)


def _error_number(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    # obstore types only the commonest failures of the local store; the rest are "generic".
    match = _OS_ERROR.search(str(error))
    return int(match[1]) if match else None
