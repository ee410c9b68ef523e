"""The files of the explorer as a server answers them: `/ui`, `/ui/` and `/ui/assets/*`.

They hold no data, so no token is asked for. Every answer carries the headers that keep a page from running
anything but these files, also where a graph has markup for a name.
"""

from __future__ import annotations

import gzip
import importlib
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from secrets import token_urlsafe
from typing import Final, Literal

from omnigraph.server.refusals import Header, Refusal

logger = logging.getLogger(__name__)

PREFIX: Final = b"/ui"
SESSION_PATH: Final = b"/ui/session"
_ASSETS: Final = b"/ui/assets/"
_NONCE: Final = b"{{nonce}}"
"""Stands in `index.html` where each answer has a nonce of its own."""
_ACCESS: Final = b"{{access}}"
"""Stands there for how the server lets people in, so that the page need not try."""
_YEAR: Final = b"public, max-age=31536000, immutable"
_MEDIA_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types omnigraph-worker"
)


_FIRST_PICTURE: Final = (
    "omnigraph.read.execute",
    "omnigraph.read.output.picture",
    "omnigraph.changes.drawing.subgraph",
)
"""What the first picture needs, and no start of a server: to load it takes longer than to draw."""


@cache
def load_ahead() -> None:
    """Load what the first picture needs, beside everything else; once in a process."""

    def load() -> None:
        for name in _FIRST_PICTURE:
            importlib.import_module(name)

    threading.Thread(target=load, name="omnigraph-first-picture", daemon=True).start()


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """An answer that is whole."""

    status: int
    headers: tuple[Header, ...]
    body: bytes = b""


def is_page(raw_path: bytes) -> bool:
    """Return whether a path belongs to the explorer."""
    return raw_path == PREFIX or raw_path.startswith(b"/ui/")


def new_nonce() -> str:
    """Return a nonce for one answer: 128 bits that nobody can guess."""
    return token_urlsafe(16)


def guarding_headers(nonce: str) -> list[Header]:
    """Return the headers of every answer of the explorer."""
    return [
        (b"content-security-policy", _POLICY.format(nonce=nonce).encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    ]


Access = Literal["open", "token", "code"]
"""How a server lets people in: all of them, with a token, or with the code of `omnigraph ui`."""


class Pages:
    """The built files, read when they are asked for the first time."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def answer(self, raw_path: bytes, method: str, accepts: bytes, nonce: str) -> PageAnswer:
        """Return what stands at a path; ``Refusal`` if nothing does, or it takes no such method."""
        if raw_path == PREFIX:
            _check_method(method)
            return PageAnswer(308, ((b"location", b"/ui/"),))
        if raw_path == b"/ui/" and self._index is not None:
            _check_method(method)
            load_ahead()  # the page asks for its picture as soon as it is there
            return PageAnswer(200, _index_headers(), self._index.replace(_NONCE, nonce.encode()))
        name = raw_path[len(_ASSETS) :].decode("latin-1") if raw_path.startswith(_ASSETS) else ""
        plain = self._assets.get(name)
        if plain is None:
            raise no_page()
        _check_method(method)
        headers: list[Header] = [
            (b"content-type", _MEDIA_TYPES[name.rpartition(".")[2]]),
            (b"cache-control", _YEAR),
            (b"vary", b"accept-encoding"),
        ]
        if _takes_gzip(accepts):
            return PageAnswer(
                200, (*headers, (b"content-encoding", b"gzip")), self._packed(name, plain)
            )
        return PageAnswer(200, tuple(headers), plain)

    @cached_property
    def _index(self) -> bytes | None:
        place = files("omnigraph.explorer") / "static" / "index.html"
        if place.is_file():
            return place.read_bytes().replace(_ACCESS, self._access.encode())
        logger.warning(
            "the explorer is not part of this installation, so /ui/ is 404; build it with ./dev ui"
        )
        return None

    @cached_property
    def _assets(self) -> Mapping[str, bytes]:
        """The files with hashed names. No request makes a path, so none can leave the directory."""
        place = files("omnigraph.explorer") / "static" / "assets"
        if not place.is_dir():
            return {}
        return {
            each.name: each.read_bytes()
            for each in place.iterdir()
            if each.name.rpartition(".")[2] in _MEDIA_TYPES
        }

    @cached_property
    def _gzip(self) -> dict[str, bytes]:
        return {}

    def _packed(self, name: str, plain: bytes) -> bytes:
        if name not in self._gzip:
            self._gzip[name] = gzip.compress(plain, 9, mtime=0)
        return self._gzip[name]


def no_page() -> Refusal:
    """The answer to a path below `/ui` where there is nothing."""
    return Refusal(404, "route_not_found", "there is no such page; the explorer is at /ui/")


def _check_method(method: str) -> None:
    if method not in {"GET", "HEAD"}:
        raise Refusal(
            405,
            "method_not_allowed",
            f"this path does not take {method[:20]}; use GET",
            [(b"allow", b"GET, HEAD")],
        )


def _index_headers() -> tuple[Header, ...]:
    return (b"content-type", _MEDIA_TYPES["html"]), (b"cache-control", b"no-store")


def _takes_gzip(accepts: bytes) -> bool:
    """Whether `Accept-Encoding` names gzip, and not with the weight 0."""
    for part in accepts.lower().split(b","):
        name, _, weight = part.strip().partition(b";")
        if name.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0.") != b"q="
    return False
