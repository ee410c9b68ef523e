"""Where blobs may come from: which addresses may be stored, and which files may be taken in.

An address is allowed below one of the policy's bases and nowhere else; without bases none is. A local
file may be taken in below the directory that the owner of the process named, or beside the file of
records that names it (``local_files``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.storage.local_files import (
    LocalFiles,
    file_uri_path,
    given_directory,
    is_below,
    open_real,
    record_file,
)
from omnigraph.storage.objects.store_errors import translate
from omnigraph.storage.objects.stores import open_bucket
from omnigraph.storage.store_kinds.known import STORE_KINDS, kind_of, scheme_of, store_address
from omnigraph.storage.store_kinds.store_kind import StoreOptions
from omnigraph.storage.uris import split_address
from omnigraph.types import Unfit, is_unicode, shown_place

STORED_SCHEMES: Final = ("s3", "gs", "az", "file")
"""The addresses that a table takes: Lance stores none that it could not open."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class BlobSource(NamedTuple):
    """A file that can be taken in: its address as a URI, and its length."""

    uri: str
    size: int


@dataclass(frozen=True, slots=True)
class BlobPolicy:
    """The bases that addresses must lie below, and which local files records may take in.

    ``local`` is the rule for records from anywhere, None where they may take in none. ``beside``: the
    records of a file on this machine may take in what lies below its directory. Without ``files`` no
    record takes in any file of this machine, not even below a base. ``options`` are for files in a store, and
    win over those of the environment.
    """

    bases: tuple[str, ...] = ()
    local: LocalFiles | None = None
    beside: bool = False
    files: bool = True
    options: StoreOptions | None = field(default=None, compare=False, repr=False)

    def allowed_address(self, uri: str) -> str:
        """Return the address as it is stored, `s3a://` as `s3://`; ``Unfit`` if it may not be."""
        if not self.bases:
            raise Unfit(
                f"the external blob {shown_place(uri)} is refused, no external place is allowed here; name "
                "its base when the graph is opened (external_blobs=[…]), or take the bytes in with "
                '{"$file": …}'
            )
        if flaw := _flaw(uri):
            raise Unfit(f"the external blob {shown_place(uri)} is refused, {flaw}")
        address = store_address(uri) or uri
        base = next((base for base in self.bases if _is_below(address, base)), None)
        if base is None or (_is_file(address) and _leaves(address, base)):
            raise Unfit(
                f"the external blob {shown_place(uri)} is refused, it lies below none of the bases that the "
                "graph was opened with (external_blobs=[…])"
            )
        return address

    def reached_from_here(self) -> BlobPolicy:
        """Return the policy with the way to its store, for a process with another environment."""
        kind = next(filter(None, map(kind_of, self.bases)), None)
        return self if kind is None else replace(self, options=kind.reached(self.options))

    def find_source(self, path: str, beside: str | None = None) -> BlobSource:
        """The file behind ``{"$file": path}``; ``Unfit`` when it must not or cannot be read.

        ``beside`` is the directory of the file of records that names it.
        """
        if scheme_of(path) is None:
            return self._local(path, path, beside)
        if _is_file(path):
            place = file_uri_path(path)
            if place is None:
                raise Unfit(f"the file {shown_place(path)} is on another host; write file:///path")
            return self._local(place, path, beside)
        address = self.allowed_address(path)
        if kind_of(address) is None:
            schemes = " and ".join(f"{kind.scheme}://" for kind in STORE_KINDS)
            raise Unfit(
                f"the file {shown_place(path)} cannot be read: bytes are taken in from local paths and "
                f"{schemes} addresses; download it first"
            )
        return _object_in_store(address, self.options)

    def _local(self, path: str, given: str, beside: str | None) -> BlobSource:
        try:
            real = self._allowed_file(path, given, beside)
            return _measure(real)
        except (OSError, ValueError) as error:
            flaw = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise Unfit(f"the file {shown_place(given)} cannot be read: {flaw}")

    def _allowed_file(self, path: str, given: str, beside: str | None) -> str:
        bases = self.bases if self.files else ()
        rules = [LocalFiles(folder) for base in bases if (folder := _base_folder(base))]
        if self.beside and beside is not None:
            rules.insert(0, LocalFiles(beside, bounded=self.local is None))
        elif self.local is not None:
            rules.insert(0, self.local)
        elif not rules or not _is_file(given):
            raise Unfit(
                f"the file {shown_place(given)} is refused, these records may take in no local files; "
                "open the graph with local_files=DIR, or load a file of records that lies beside it"
            )
        for rule in rules:
            if (real := rule.find(path)) is not None:
                return real
            if not _is_file(given):
                break  # a base is for addresses
        raise Unfit(
            f"the file {shown_place(given)} is refused, it lies outside the directory that these records "
            "may take files from, links followed; move it there, or open the graph with local_files=DIR"
        )


NO_POLICY: Final = BlobPolicy()
"""Allows nothing: neither addresses nor files."""


def blob_policy(
    bases: Iterable[str] | None,
    local_files: str | os.PathLike[str] | bool | None = None,
    options: StoreOptions | None = None,
) -> BlobPolicy:
    """A checked policy with these bases, and with local files below a directory, all (True) or none.

    With None, the records of a file may take in what lies below its directory, and addresses that lie below
    a base; with False there are no local files for anyone.
    """
    given = given_directory(local_files)
    local = None
    if given is True:
        local = LocalFiles("", bounded=False)
    elif isinstance(given, str):
        local = LocalFiles(given)
    beside = given is None or given is True
    return BlobPolicy(_check_bases(bases), local, beside, given is not False, options)


def _check_bases(bases: Iterable[str] | None) -> tuple[str, ...]:
    if bases is None:
        return ()
    if isinstance(bases, str) or not isinstance(bases, Iterable):
        raise BadRequest("external_blobs is a list of addresses, such as ['s3://bucket/photos/']")
    checked: list[str] = []
    for base in bases:
        one = _check_base(base)
        for other in checked:
            if one.startswith(other) or other.startswith(one):
                raise BadRequest(
                    f'the bases "{other}" and "{one}" overlap; name the wider one alone'
                )
        checked.append(one)
    return tuple(checked)


def _check_base(base: object) -> str:
    if not isinstance(base, str) or scheme_of(base) is None:
        raise BadRequest(
            f"{base!r} is no base of external blobs; write an absolute address, such as s3://bucket/x/"
        )
    if flaw := _flaw(base):
        raise BadRequest(f"{shown_place(base)} is no base of external blobs, {flaw}")
    parts = urlsplit(base)
    if kind_of(base) is None and parts.scheme.lower() not in STORED_SCHEMES:
        raise BadRequest(
            f'addresses such as "{base}" cannot be stored as blobs; a base begins with '
            + ", ".join(f"{scheme}://" for scheme in STORED_SCHEMES)
        )
    if parts.query or parts.fragment or base[-1] in "?#":
        raise BadRequest(f'the base "{base}" has a query or a fragment; leave it out')
    if parts.username is not None or parts.password is not None:
        raise BadRequest("the base of external blobs has credentials in it; leave them out")
    if not parts.netloc and parts.scheme.lower() != "file":
        raise BadRequest(f'the base "{base}" names no host or bucket; write the whole address')
    base = store_address(base) or base
    return base if base.endswith("/") else f"{base}/"


def _is_below(uri: str, base: str) -> bool:
    return uri.startswith(base) and len(uri) > len(base)


def _flaw(uri: str) -> str | None:
    """Why an address could be stored as another one than was checked, or not at all.

    Parsers of URLs, Lance's among them, leave out control characters and outer blanks before they look
    for segments that lead upwards, and decode percent signs after it.
    """
    if uri != uri.strip() or _CONTROL.search(uri):
        return "it has a control character or a blank around it; write it without"
    try:
        urlsplit(uri)
        plain = unquote(unquote(uri, errors="strict")).replace("\\", "/")
    except ValueError:
        return "it is no valid URI; check its host and its percent signs"
    segments = plain.partition("://")[2].split("/")
    # An empty host (file:///x) and a slash at the end are no empty segments.
    if (
        _CONTROL.search(plain)
        or any(part in {".", ".."} for part in segments)
        or "" in segments[1:-1]
    ):
        return 'it has a control character or an empty, "." or ".." segment in its path; write it without'
    return None


def _is_file(uri: str) -> bool:
    return uri[: len("file://")].lower() == "file://"


def _base_folder(base: str) -> str | None:
    """The directory that a base of local addresses names; None for any other base."""
    return file_uri_path(base) if _is_file(base) else None


def _leaves(address: str, base: str) -> bool:
    """Whether a local address leads out of its base, over a link."""
    path, folder = file_uri_path(address), _base_folder(base)
    if path is None or folder is None:
        return False  # on another host, where the links are not known
    return not is_below(os.path.realpath(path), folder)


def _measure(real: str) -> BlobSource:
    """The file at a real path; ``ValueError`` says why it cannot be taken in."""
    file = open_real(real)
    with open(file, "rb", closefd=True) as opened:  # noqa: PTH123 - a descriptor
        size = os.fstat(file).st_size
        if _CONTROL.search(real) or not is_unicode(real):
            raise ValueError("its path has characters that cannot be passed on; rename it")
        # Files of /proc, for example, have bytes but no length.
        if not size and opened.read(1):
            raise ValueError("its length is not known; copy it first")
    return BlobSource(record_file(real), size)


def _object_in_store(address: str, options: StoreOptions | None) -> BlobSource:
    import obstore

    bucket, key = split_address(address, options)
    if not bucket.bucket or not key:
        raise Unfit(
            f"the file {shown_place(address)} names no object; write {bucket.scheme}://bucket/key"
        )
    try:
        size = obstore.head(open_bucket(bucket), key)["size"]
    except OmniGraphError as error:
        raise Unfit(f"the file {shown_place(address)} cannot be read: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever the store says, the file cannot be read
        failure = translate(error, "read", key, str(bucket))
        raise Unfit(f"the file {shown_place(address)} cannot be read: {failure}") from None
    # Lance takes addresses percent-encoded.
    return BlobSource(bucket.child(key), size)
