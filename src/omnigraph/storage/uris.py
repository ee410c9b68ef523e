"""The address of a graph: a directory, or a prefix in an S3 bucket.

A root is parsed once, where it enters the product. From then on two spellings of one place are
equal values: comparing roots, naming locks and recording a graph's place all use ``canonical``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final, Literal
from urllib.parse import quote, unquote_to_bytes, urlsplit

from omnigraph.errors import BadRequest
from omnigraph.storage.s3_options import S3Options, sdk_region

Scheme = Literal["file", "s3"]

S3_SCHEMES: Final = ("s3", "s3a")
"""How an S3 address may begin; `s3a` is what Hadoop and Spark call it."""

SUPPORTED: Final = "a local path, file:///path, s3://bucket/prefix"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
# Lance 14 percent-encodes any other character in the path of a branch directory.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9 /._+,=@:;&!$'()-]*")


@dataclass(frozen=True, slots=True)
class Root:
    """A graph root. ``path`` is an absolute directory, or a key prefix without outer slashes.

    ``options`` are what the caller gave to reach S3 with. They are neither compared nor shown.
    """

    scheme: Scheme
    bucket: str
    path: str
    options: S3Options | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, target: str | PurePath, options: S3Options | None = None) -> Root:
        """Parse a root as a person writes it; ``BadRequest`` when nothing can be stored there."""
        found = cls._parse(target)
        return found if options is None else replace(found, options=options)

    @classmethod
    def _parse(cls, target: str | PurePath) -> Root:
        if isinstance(target, PurePath):
            return cls._local(os.fspath(target), target)
        if not isinstance(target, str):
            raise BadRequest(f"a graph root is a text or a path, not {target!r}; give {SUPPORTED}")
        scheme = _SCHEME.match(target)
        name = scheme[1].lower() if scheme else None
        if name in S3_SCHEMES:
            return cls._s3(target)
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
    def _s3(cls, target: str) -> Root:
        # The key is taken as written, as the AWS tools do: no percent-decoding.
        bucket, _, key = target.partition("://")[2].partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise BadRequest(f'"{target}" has no usable bucket name; write s3://bucket/prefix')
        prefix = key.rstrip("/")
        _check_path(prefix, target)
        if prefix and any(segment in {"", ".", ".."} for segment in prefix.split("/")):
            raise BadRequest(
                f'"{target}" has an empty, "." or ".." segment, which object stores take literally; '
                "leave it out"
            )
        return cls("s3", bucket, prefix)

    @property
    def is_local(self) -> bool:
        """Whether this is a directory on this machine."""
        return self.scheme == "file"

    @property
    def canonical(self) -> str:
        """The one spelling of this place: an absolute path, or an `s3://` address."""
        if self.is_local:
            return self.path
        return f"s3://{self.bucket}/{self.path}" if self.path else f"s3://{self.bucket}"

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
        return f"s3://{self.bucket}/" + quote(key)

    def lance_options(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Storage options for Lance (and obstore): those given, and the environment as it is now."""
        return {} if self.is_local else self.s3_options(environ).for_lance(self.bucket)

    def s3_options(self, environ: Mapping[str, str] | None = None) -> S3Options:
        """How S3 is reached from here: the options given, and the environment as it is now.

        The region may also stand in the configuration file of AWS.
        """
        found = S3Options.of_environment(os.environ if environ is None else environ)
        options = found if self.options is None else self.options.over(found)
        if options.region is None and environ is None:
            return replace(options, region=sdk_region())
        return options


def s3_address(text: str) -> str | None:
    """Return an address in S3 as `s3://bucket/key`, however it begins; None for any other text."""
    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() not in S3_SCHEMES:
        return None
    return f"s3://{text[scheme.end() :]}"


def _check_path(path: str, target: str | PurePath) -> None:
    if not path.strip() and s3_address(str(target)) is None:
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
