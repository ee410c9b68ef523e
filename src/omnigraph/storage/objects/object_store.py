"""Control objects: the small text files of a graph, on a disk, in S3 or in memory.

One adapter over obstore. A name is `/`-separated and relative to the root. Every write says what it
expects to find, and every failure is one of the classes in ``store_errors``, never one of obstore's.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from uuid import uuid4

import obstore
from obstore import exceptions
from obstore.store import MemoryStore

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.storage.objects.store_errors import (
    InvalidText,
    ObjectNotFound,
    Unavailable,
    translate,
)
from omnigraph.storage.store_kinds.known import shown_cause

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, PutResult
    from obstore.store import ObjectStore as Opened

#: Path segments that begin with this are the adapter's own and show in no listing.
RESERVED: Final = ".omnigraph-"

_RECEIPT = "omnigraph-receipt"
_CLAIM_ATTEMPTS: Final = 3
_SENT_AT_MOST: Final = 2
_UNSTORABLE = re.compile(
    rf"""(?:\A|/)(?:\.?\.?(?=/|\Z)|{re.escape(RESERVED)})  # a segment
    |[\x00-\x1f\x7f\ud800-\udfff]
    # What obstore's local store cannot keep: it hides names like its own temporary files (`x#1`) and
    # takes a last segment ending in a letter and `:` or `|` for a drive letter.
    |\#[0-9]+\Z|[A-Za-z][:|]\Z""",
    re.VERBOSE,
)


class Versioned(NamedTuple):
    """A text and the token that identifies exactly this content of the object."""

    text: str
    version: str


class ObjectStore:
    """Control objects under one root; ``open_store`` picks the implementation.

    ``version_field`` is what the store tells versions of an object apart by, as obstore calls it.
    """

    def __init__(
        self,
        opened: Opened | None,
        address: str,
        version_field: Literal["e_tag", "version"] = "e_tag",
    ) -> None:
        self._opened = opened
        self.address = address
        self._version_field = version_field

    @classmethod
    def in_memory(cls) -> ObjectStore:
        """A store that lives as long as this value; for tests of the adapter and the protocol."""
        return cls(MemoryStore(), "memory")

    def write_text(self, name: str, text: str) -> str:
        """Put or replace an object: readers see the old or the new whole text. Returns its token."""
        data = _encoded(name, text)
        with self._translated("write", check_name(name), len(data)):
            return self._replace(name, data)

    def write_text_if_absent(self, name: str, text: str) -> str:
        """Claim a name: exactly one of many claimants wins, the others get ``AlreadyExists``."""
        data = _encoded(name, text)
        with self._translated("claim", check_name(name), len(data)):
            return self._claim(name, data)

    def write_text_if_match(self, name: str, text: str, version: str) -> str:
        """Replace exactly the version that was read, else ``PreconditionFailed``."""
        data = _encoded(name, text)
        with self._translated("replace", check_name(name), len(data)):
            return self._swap(name, data, version)

    def read_text(self, name: str) -> str:
        """The whole text of an object."""
        return self.read_versioned(name).text

    def read_versioned(self, name: str) -> Versioned:
        """The text of an object with its token for ``write_text_if_match``."""
        with self._translated("read", check_name(name)):
            data, version = self._get(name)
        try:
            return Versioned(data.decode(), version)
        except UnicodeDecodeError as error:
            raise InvalidText(
                f'"{name}" under {self.address} is not UTF-8 text ({error.reason} at byte '
                f"{error.start}); it was not written by this product",
                object=name,
            ) from None

    def read_bytes(self, name: str) -> bytes:
        """The whole content of an object, whatever it is."""
        with self._translated("read", check_name(name)):
            return self._get(name)[0]

    def replace_bytes(self, name: str, data: bytes) -> None:
        """Put or replace an object: readers see the old or the new whole content."""
        with self._translated("write", check_name(name)):
            self._replace(name, data)

    def exists(self, name: str) -> bool:
        """Whether this is an object, or a prefix with at least one object below it."""
        check_prefix(name)
        if name and not name.endswith("/"):
            with contextlib.suppress(ObjectNotFound), self._translated("look for", name):
                self._head(name)
                return True
        with contextlib.suppress(ObjectNotFound), self._translated("look for", name):
            return next(self._names(name), None) is not None
        return False

    def fingerprint(self, name: str) -> str | None:
        """A value that changes whenever the object is replaced; None when there is no object."""
        with contextlib.suppress(ObjectNotFound), self._translated("look for", check_name(name)):
            return self._fingerprint(name)
        return None

    def list(self, prefix: str = "") -> builtins.list[str]:
        """The names of all objects below a prefix (whole segments), sorted by code point."""
        with contextlib.suppress(ObjectNotFound), self._translated("list", check_prefix(prefix)):
            return sorted(self._names(prefix))
        return []

    def sizes(self, prefix: str) -> dict[str, int]:
        """The bytes of every object below a prefix (whole segments), by its name."""
        with contextlib.suppress(ObjectNotFound), self._translated("measure", check_prefix(prefix)):
            return dict(self._sizes(prefix))
        return {}

    def modified(self, prefix: str) -> dict[str, int]:
        """When each object below a prefix was last written, by the store's clock, in nanoseconds."""
        with contextlib.suppress(ObjectNotFound), self._translated("list", check_prefix(prefix)):
            return dict(self._modified(prefix))
        return {}

    def touch(self, name: str) -> int:
        """Write an object again, whatever it says, and return when that was, by the store's clock."""
        with self._translated("write", check_name(name)):
            return self._touch(name)

    def total_size(self, prefix: str) -> int:
        """How many bytes all objects below a prefix (whole segments) have."""
        return sum(self.sizes(prefix).values())

    def rename(self, source: str, target: str) -> None:
        """Move an object, replacing the target if there is one: one step on a disk, two in S3."""
        check_name(target)
        with self._translated("rename", check_name(source)):
            if source == target:
                # obstore copies and then deletes the source, which here would be the target.
                self._head(source)
            else:
                self._rename(source, target)

    def delete(self, name: str) -> None:
        """Remove an object; a missing one is fine."""
        with contextlib.suppress(ObjectNotFound), self._translated("delete", check_name(name)):
            self._delete(name)

    def discard(self, name: str) -> None:
        """Remove an object that does no harm if it is there again after a loss of power."""
        with contextlib.suppress(ObjectNotFound), self._translated("delete", check_name(name)):
            self._discard(name)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object below a prefix; an object of that very name stays."""
        name = check_name(prefix.removesuffix("/"))
        with contextlib.suppress(ObjectNotFound), self._translated("delete", name):
            self._delete_prefix(name)

    @property
    def _backend(self) -> Opened:
        assert self._opened is not None
        return self._opened

    def _replace(self, name: str, data: bytes) -> str:
        # A single request: a multipart upload has no content hash for an e-tag.
        result = obstore.put(self._backend, name, data, use_multipart=False)
        return self._token(name, result)

    def _claim(self, name: str, data: bytes) -> str:
        return self._conditional_put(name, data, "create")

    def _swap(self, name: str, data: bytes, version: str) -> str:
        return self._conditional_put(name, data, self._exactly(version))

    def _exactly(self, version: str) -> PutMode:
        """Return the condition that the object still has this version."""
        return {"e_tag": version} if self._version_field == "e_tag" else {"version": version}

    def _conditional_put(self, name: str, data: bytes, mode: PutMode) -> str:
        receipt = uuid4().hex
        for attempt in itertools.count(1):
            try:
                result = obstore.put(
                    self._backend,
                    name,
                    data,
                    mode=mode,
                    use_multipart=False,
                    attributes={_RECEIPT: receipt},
                )
                return self._token(name, result)
            except (
                exceptions.AlreadyExistsError,
                exceptions.PreconditionError,
                exceptions.NotModifiedError,
            ):
                found = self._version_and_receipt(name)
                # A request that landed but whose answer was lost is sent again by obstore and then
                # loses against itself. The receipt tells that apart from a real loss.
                if found is not None and found[1] == receipt:
                    return found[0]
                if found is not None or mode != "create":
                    raise
                # S3 also refuses a claim because another request is in flight, which may yet fail.
                if attempt == _CLAIM_ATTEMPTS:
                    raise Unavailable(
                        f'claims of "{name}" under {self.address} keep colliding with requests that '
                        "leave nothing behind; try again",
                        object=name,
                    ) from None
                time.sleep(0.05 * attempt)
            except exceptions.GenericError as error:
                written = self._after_no_answer(name, mode, receipt, error)
                if written is not None:
                    return written
                # obstore does not send a conditional put again when its connection breaks.
                if attempt >= _SENT_AT_MOST:
                    raise
        raise AssertionError

    def _after_no_answer(
        self, name: str, mode: PutMode, receipt: str, error: exceptions.GenericError
    ) -> str | None:
        """Decide a put that was never answered by looking at the object: it may have been written.

        None if it was not, and its condition still holds.
        """
        try:
            found = self._version_and_receipt(name)
        except (OSError, exceptions.BaseError):
            raise error from None
        if found is None:
            if mode == "create":
                return None
            raise error
        version, whose = found
        if whose == receipt:
            return version
        if mode == "create":
            raise exceptions.AlreadyExistsError(str(error))
        if mode != self._exactly(version):
            raise exceptions.PreconditionError(str(error))
        return None

    def _version_and_receipt(self, name: str) -> tuple[str, str | None] | None:
        try:
            found = obstore.get(self._backend, name, options={"head": True})
        except FileNotFoundError:
            return None
        return self._token(name, found.meta), found.attributes.get(_RECEIPT)

    def _token(self, name: str, found: PutResult | ObjectMeta) -> str:
        token = found[self._version_field]
        if token is None:
            raise Unavailable(
                f'{self.address} gave no e-tag for "{name}", so lost races would go unseen; '
                "use a store with conditional writes",
                object=name,
            )
        return token

    def _get(self, name: str) -> tuple[bytes, str]:
        found = obstore.get(self._backend, name)
        return bytes(found.bytes()), self._token(name, found.meta)

    def _head(self, name: str) -> None:
        obstore.head(self._backend, name)

    def _fingerprint(self, name: str) -> str:
        meta = obstore.head(self._backend, name)
        return f"{meta['e_tag']} {meta['last_modified'].isoformat()}"

    def _names(self, prefix: str) -> Iterator[str]:
        return (name for name, _ in self._sizes(prefix))

    def _sizes(self, prefix: str) -> Iterator[tuple[str, int]]:
        for batch in obstore.list(self._backend, prefix.removesuffix("/") or None):
            for meta in batch:
                yield meta["path"], meta["size"]

    def _modified(self, prefix: str) -> Iterator[tuple[str, int]]:
        for batch in obstore.list(self._backend, prefix.removesuffix("/") or None):
            for meta in batch:
                yield meta["path"], _nanoseconds(meta["last_modified"])

    def _touch(self, name: str) -> int:
        self._replace(name, b"{}")
        return _nanoseconds(obstore.head(self._backend, name)["last_modified"])

    def _rename(self, source: str, target: str) -> None:
        obstore.rename(self._backend, source, target, overwrite=True)

    def _delete(self, name: str) -> None:
        obstore.delete(self._backend, name)

    def _discard(self, name: str) -> None:
        self._delete(name)

    def _delete_prefix(self, prefix: str) -> None:
        names = list(self._names(prefix))
        if names:
            obstore.delete(self._backend, names)

    @contextlib.contextmanager
    def _translated(self, verb: str, name: str, needed: int | None = None) -> Iterator[None]:
        """Run obstore calls; whatever they raise is turned into a class of ``store_errors``.

        ``needed``: how many bytes they write.
        """
        _refuse_after_fork()
        try:
            yield
        except OmniGraphError:
            raise
        except (OSError, ValueError, RuntimeError, exceptions.BaseError) as error:
            raise translate(error, verb, name, self.address, needed) from shown_cause(error)


@functools.lru_cache(maxsize=1024)
def check_name(name: str) -> str:
    """Return the name if every store can keep it unchanged; otherwise raise ``BadRequest``."""
    if _UNSTORABLE.search(name):
        raise BadRequest(
            f"{name!r} cannot be the name of an object on every store: segments are not empty, "
            f'"." or "..", do not begin with "{RESERVED}", hold no control characters, and the '
            'last one does not end in "#" and digits or in a letter and ":" or "|"'
        )
    return name


def check_prefix(prefix: str) -> str:
    """Like ``check_name``, for listings: an empty prefix and a trailing slash are allowed too."""
    if prefix:
        check_name(prefix.removesuffix("/"))
    return prefix


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(
            f'the text for "{name}" has a lone surrogate at {error.start}, which UTF-8 cannot '
            "carry; nothing was written",
            object=name,
        ) from None


_used = False
_forked_after_use = False


def _refuse_after_fork() -> None:
    global _used  # noqa: PLW0603
    if _forked_after_use:
        raise Unavailable(
            "this process was forked from one that had used the store already, whose threads are "
            "missing here; start workers with `spawn` or `forkserver`"
        )
    _used = True


def _note_fork() -> None:
    global _forked_after_use  # noqa: PLW0603
    _forked_after_use = _used


os.register_at_fork(after_in_child=_note_fork)
