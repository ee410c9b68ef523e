"""The address of a graph: a directory, or a prefix in an S3 bucket.

A root is parsed once, where it enters the product. From then on two spellings of one place are
equal values: comparing roots, naming locks and recording a graph's place all use ``canonical``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal
from urllib.parse import quote, unquote_to_bytes, urlsplit, urlunsplit

from omnigraph.errors import BadRequest

Scheme = Literal["file", "s3"]

SUPPORTED: Final = "a local path, file:///path, s3://bucket/prefix"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
# Lance 14 percent-encodes any other character in the path of a branch directory.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9 /._+,=@:;&!$'()-]*")
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Root:
    """A graph root. ``path`` is an absolute directory, or a key prefix without outer slashes."""

    scheme: Scheme
    bucket: str
    path: str

    @classmethod
    def parse(cls, target: str | PurePath) -> Root:
        """Parse a root as a person writes it; ``BadRequest`` when nothing can be stored there."""
        if isinstance(target, PurePath):
            return cls._local(os.fspath(target), target)
        if not isinstance(target, str):
            raise BadRequest(f"a graph root is a text or a path, not {target!r}; give {SUPPORTED}")
        scheme = _SCHEME.match(target)
        name = scheme[1].lower() if scheme else None
        if name == "s3":
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
        bucket, _, key = target[len("s3://") :].partition("/")
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
        """Storage options for Lance (and obstore), from the environment as it is now."""
        if self.is_local:
            return {}
        return _s3_options(self.bucket, os.environ if environ is None else environ)


def _check_path(path: str, target: str | PurePath) -> None:
    if not path.strip() and not str(target).lower().startswith("s3:"):
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


def _s3_options(bucket: str, environ: Mapping[str, str]) -> dict[str, str]:
    def given(variable: str) -> str | None:
        return environ.get(variable, "").strip() or None

    options = {
        "aws_region": given("AWS_REGION"),
        "aws_access_key_id": given("AWS_ACCESS_KEY_ID"),
        "aws_secret_access_key": given("AWS_SECRET_ACCESS_KEY"),
        "aws_session_token": given("AWS_SESSION_TOKEN"),
    }
    if (options["aws_access_key_id"] is None) != (options["aws_secret_access_key"] is None):
        raise BadRequest(
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set; set both or neither"
        )
    path_style = _flag("AWS_S3_FORCE_PATH_STYLE", given("AWS_S3_FORCE_PATH_STYLE"))
    allow_http = _flag("AWS_ALLOW_HTTP", given("AWS_ALLOW_HTTP"))
    variable = "AWS_ENDPOINT_URL_S3" if given("AWS_ENDPOINT_URL_S3") else "AWS_ENDPOINT_URL"
    endpoint = given(variable)
    if endpoint is not None:
        virtual_host = bucket if path_style is False else None
        options["aws_endpoint"] = _endpoint(variable, endpoint, bool(allow_http), virtual_host)
    if path_style is not None:
        options["aws_virtual_hosted_style_request"] = "false" if path_style else "true"
    if allow_http is not None:
        options["allow_http"] = "true" if allow_http else "false"
    return {key: value for key, value in options.items() if value is not None}


def _flag(variable: str, text: str | None) -> bool | None:
    if text is None:
        return None
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise BadRequest(f'{variable} is "{text}"; set it to true or false, or unset it')


def _endpoint(variable: str, endpoint: str, allow_http: bool, virtual_host: str | None) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise BadRequest(
            f'{variable} is "{endpoint}"; write it as https://host or http://host:port'
        )
    if parts.scheme == "http" and not allow_http:
        raise BadRequest(
            f'{variable} is "{endpoint}", which is not encrypted; set AWS_ALLOW_HTTP=true to allow '
            "it, or use https"
        )
    if virtual_host is not None and not parts.netloc.startswith(f"{virtual_host}."):
        # Lance and obstore put the bucket into the host name only for Amazon's own endpoints.
        parts = parts._replace(netloc=f"{virtual_host}.{parts.netloc}")
    return urlunsplit(parts).rstrip("/")
