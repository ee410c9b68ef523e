"""The errors of a table, and the translation of what Lance raises into them.

Each class narrows one of ``omnigraph.errors`` so that the layers above can act on it; a user who
meets one sees its parent's code. Lance itself raises bare ``OSError``, ``ValueError`` and
``RuntimeError`` whose texts end in paths of the machine that built it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.cancel import look
from omnigraph.errors import Conflict, OmniGraphError, StorageError
from omnigraph.storage import full_disk
from omnigraph.storage.store_kinds.known import missing_bucket, shown_cause, without_body


class TableMissing(StorageError):
    """There is no table, or no branch of it, at that address."""

    fields = ("table",)


class VersionMissing(StorageError):
    """The table has no such version: cleanup removed it, or it was never made."""

    fields = ("table", "version")


class BranchReplaced(StorageError):
    """The branch of the table that was pinned is gone; another may have its name."""

    fields = ("table", "branch")


class NothingToIndex(StorageError):
    """A vector column without a single value: there is nothing to train an index on."""

    fields = ("table", "column")


class TableMoved(Conflict):
    """Another writer committed first; this transaction was not committed."""

    fields = ("table", "expected", "actual")


class CommitMisplaced(Conflict):
    """The transaction was committed, but not as the version right after the one it was staged on."""

    fields = ("table", "expected", "actual", "transaction_uuid")


class RowCollision(Conflict):
    """Another writer inserted or updated one of the same rows; nothing was committed."""

    fields = ("table",)


# Lance appends `, /home/…/file.rs:12:34` once per layer an error passed.
_RUST_PLACES = re.compile(r",? ?\S*\.rs:\d+:\d+")
_REFUSALS = re.compile(
    r"[Pp]ermission denied|lacked the necessary privileges|\b40[13]\b|Forbidden|Unauthorized|AccessDenied"
)
_DAMAGE = re.compile(
    r"[Nn]ot found|corrupt|too small|Invalid range|sufficient data|key must be|missing field"
)


_INTERRUPTED = "External error: KeyboardInterrupt"


def reason(error: BaseException) -> str:
    """Lance's message, without the places in its source code and what a store repeats of a request."""
    text = without_body(str(error))
    return _RUST_PLACES.sub("", text).strip() or type(error).__name__


def is_not_found(error: BaseException) -> bool:
    """Whether Lance (or the store under it) says that a file or dataset is not there."""
    text = str(error)
    # A file where a directory should be holds no dataset either (ENOTDIR).
    return any(words in text for words in ("was not found", "Not found", "Not a directory"))


def is_panic(error: BaseException) -> bool:
    """Whether the error is a panic in Rust, a BaseException whose class cannot be imported."""
    return type(error).__name__ == "PanicException"


@contextmanager
def lance_errors(doing: str) -> Iterator[None]:
    """Turn whatever Lance raises inside into ``StorageError``: "<doing> failed: <what it said>"."""
    try:
        yield
    except OmniGraphError:
        raise
    except Exception as error:
        if _INTERRUPTED in str(error):
            # Arrow met Ctrl-C, or a token that fired, while it called back into Python.
            look()
            raise KeyboardInterrupt from error
        raise failed(f"{doing} failed", error) from shown_cause(error)
    except BaseException as error:
        if not is_panic(error):
            raise
        raise failed(f"{doing} failed inside Lance", error) from shown_cause(error)


def failed(what: str, error: BaseException) -> StorageError:
    """The error for something that Lance could not do."""
    if full_disk.is_full(error):
        return full_disk.disk_full(what, error)
    if (missing := missing_bucket(error)) is not None:
        return StorageError(f"{what}: {missing}")
    return StorageError(f"{what}: {reason(error)}; {_next_step(error)}")


def _next_step(error: BaseException) -> str:
    if _REFUSALS.search(str(error)):
        return "check the credentials or the file permissions"
    if _DAMAGE.search(str(error)):
        return "a file is missing or damaged: restore it from a copy"
    return "check that the store is there and try again"
