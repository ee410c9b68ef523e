"""The address of a graph: a directory, or a prefix in a bucket of an object store.

A root is parsed once, where it enters the product. From then on two spellings of one place are
equal values: comparing roots, naming locks and recording a graph's place all use ``canonical``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from omnigraph.errors import BadRequest
from omnigraph.storage.store_kinds.known import STORE_KINDS, kind_of, scheme_of, store_address
from omnigraph.storage.store_kinds.store_kind import StoreKind, StoreOptions

SUPPORTED: Final = ", ".join(
    ["a local path", "file:///path", *(kind.example("prefix") for kind in STORE_KINDS)]
)

# Lance 14 percent-encodes any other character in the path of a branch directory.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9 /._+,=@:;&!$'()-]*")


@dataclass(frozen=True, slots=True)
class Root:
    """A graph root. ``path`` is an absolute directory, or a key prefix without outer slashes.

    ``scheme`` is `file`, or that of a kind of store. ``options`` are what the caller gave to reach
    stores with. They are neither compared nor shown.
    """

    scheme: str
    bucket: str
    path: str
    options: StoreOptions | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, target: str | PurePath, options: StoreOptions | None = None) -> Root:
        """Parse a root as a person writes it; ``BadRequest`` when nothing can be stored there."""
        found = cls._parse(target)
        return found if options is None else replace(found, options=options)

    @classmethod
    def _parse(cls, target: str | PurePath) -> Root:
        if isinstance(target, PurePath):
            return cls._local(os.fspath(target), target)
        if not isinstance(target, str):
            raise BadRequest(f"a graph root is a text or a path, not {target!r}; give {SUPPORTED}")
        name, kind = scheme_of(target), kind_of(target)
        if kind is not None:
            return cls._in_store(target, kind)
        if name == "file" or target[:6].lower() == "file:/":
            return cls._local(_file_uri_path(target), target)
        if name in {"http", "https"}:
            raise BadRequest(
                f'"{target}" is a server, not a place to store a graph; give {SUPPORTED}'
            )
        if name is not None:
            raise BadRequest(f'"{target}" has the unknown scheme "{name}"; give {SUPPORTED}')
        return cls._local(target, target)

    @classmethod
    def _local(cls, path: str, target: str | PurePath) -> Root:
        _check_path(path, target)
        try:
            # realpath also makes it absolute, and resolves `link/..` the way the kernel does.
            resolved = os.path.realpath(path)
        except OSError as error:
            raise BadRequest(
                f'"{target}" cannot be resolved: {error.strerror}; give an absolute path'
            ) from error
        # The working directory and links may add characters that the text itself did not have.
        _check_path(resolved, target)
        return cls("file", "", resolved)

    @classmethod
    def _in_store(cls, target: str, kind: StoreKind) -> Root:
        # The key is taken as written, as the AWS tools do: no percent-decoding.
        bucket, _, key = target.partition("://")[2].partition("/")
        if not kind.is_bucket(bucket):
            raise BadRequest(
                f'"{target}" has no usable bucket name; write {kind.example("prefix")}'
            )
        prefix = key.rstrip("/")
        _check_path(prefix, target)
        if prefix and any(segment in {"", ".", ".."} for segment in prefix.split("/")):
            raise BadRequest(
                f'"{target}" has an empty, "." or ".." segment, which object stores take literally; '
                "leave it out"
            )
        return cls(kind.scheme, bucket, prefix)

    @property
    def is_local(self) -> bool:
        """Whether this is a directory on this machine."""
        return self.scheme == "file"

    @property
    def canonical(self) -> str:
        """The one spelling of this place: an absolute path, or an address such as `s3://…`."""
        if self.is_local:
            return self.path
        bucket = f"{self.scheme}://{self.bucket}"
        return f"{bucket}/{self.path}" if self.path else bucket

    def __str__(self) -> str:
        return self.canonical

    def child(self, location: str) -> str:
        """The address Lance opens for a dataset at ``location``, relative to the root."""
        if self.is_local:
            path = f"{self.path.rstrip('/')}/{location}"
            if _PLAIN_PATH.fullmatch(path):
                return path
            # Lance's other local driver takes encoded paths and writes only where it should.
            return "file-object-store://" + quote(path)
        key = f"{self.path}/{location}" if self.path else location
        return f"{self.scheme}://{self.bucket}/" + quote(key)

    def lance_options(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Storage options for Lance (and obstore): those given, and the environment as it is now."""
        kind = kind_of(self.canonical)
        return {} if kind is None else kind.reached(self.options, environ).for_lance(self.bucket)


def split_address(address: str, options: StoreOptions | None = None) -> tuple[Root, str]:
    """Return the bucket of an address in a store, and the key in it as it is written."""
    scheme, _, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    return Root(scheme, bucket, "", options), key


def _check_path(path: str, target: str | PurePath) -> None:
    if not path.strip() and store_address(str(target)) is None:
        raise BadRequest(f"the graph root is empty; give {SUPPORTED}")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{str(target)!r} is not UTF-8, which Lance needs; rename it") from None
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        raise BadRequest(f"{str(target)!r} has a control character in it; choose another path")
    if "?" in path:
        # Lance 14 cuts branch paths there and writes beside the root.
        raise BadRequest(
            f'"{target}" has a "?" in it, where Lance cannot keep branches; choose another path'
        )


def _file_uri_path(target: str) -> str:
    try:
        parts = urlsplit(target)
        path = os.fsdecode(unquote_to_bytes(parts.path))
    except ValueError:  # brackets around no host, a character that has no UTF-8 form
        raise BadRequest(f"{target!r} is not the URI of a file; give {SUPPORTED}") from None
    if parts.netloc.lower() not in {"", "localhost"}:
        raise BadRequest(
            f'"{target}" names the host "{parts.netloc}"; write file:///absolute/path for this one'
        )
    if parts.query or parts.fragment or target[-1] in "?#":
        raise BadRequest(
            f'"{target}" has a raw "?" or "#"; write %3F or %23, or give the plain path'
        )
    return path
