"""Cursors and page tokens: opaque texts in which a caller keeps its own place in the changes.

A token is URL-safe text of at most ``MAX_LENGTH`` characters. It names the graph, what it belongs to
(a branch, a commit, two sides of a diff) and the filter, and carries a check sum, so a token that is
damaged, or used for anything else than what it was made for, is refused:

    CursorToken  every commit up to and including one is consumed
    FeedToken    inside the changes of a commit of the feed
    CommitToken  inside the changes of one commit
    DiffToken    inside a diff of two commits
    NeighborsToken  inside the edges of a node
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Collection
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar, TypeVar

from omnigraph.errors import CursorRejected
from omnigraph.storage.decoded import has_type

MAX_LENGTH = 4096
_CHECK_BYTES = 16
_LONGEST_ID = 1024
"""An id that takes more bytes than this is kept by its beginning and a digest."""
_BEGINNING = 128


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """The last change that was given out: its kind, type and id.

    Of a long id ``id`` is only the beginning, and ``digest`` tells which id it is.
    """

    kind: str
    type: str
    id: str
    digest: str | None = None

    @classmethod
    def of(cls, kind: str, type: str, id: str) -> ChangePlace:
        """Return the place of a change."""
        if len(_json(id)) <= _LONGEST_ID:
            return cls(kind, type, id)
        return cls(kind, type, id[:_BEGINNING], _digest(id))

    def is_at(self, kind: str, type: str, id: str) -> bool:
        """Return whether this is the place of that change."""
        if (kind, type) != (self.kind, self.type):
            return False
        return id == self.id if self.digest is None else _digest(id) == self.digest


@dataclass(frozen=True, slots=True)
class TokenScope:
    """What a cursor or a page of the feed is bound to, besides the graph.

    ``root`` is the first commit of the history, ``incarnation`` the Lance identifier of the branch
    (empty for `main`), and ``filter`` a digest of the canonical filter.
    """

    root: str
    branch: str
    incarnation: str
    filter: str


@dataclass(frozen=True, slots=True)
class CursorToken:
    """A place between two commits: everything up to and including ``after`` is consumed."""

    kind: ClassVar[str] = "cursor"
    noun: ClassVar[str] = "a cursor"
    scope: TokenScope
    after: str


@dataclass(frozen=True, slots=True)
class FeedToken:
    """A place inside the changes of the commit that follows ``after``, in a poll up to ``cut``.

    ``page`` is a digest of what the order of changes depends on.
    """

    kind: ClassVar[str] = "feed"
    noun: ClassVar[str] = "a page token of the change feed"
    scope: TokenScope
    after: str
    cut: str
    page: str
    place: ChangePlace


@dataclass(frozen=True, slots=True)
class CommitToken:
    """A place inside the changes of one commit."""

    kind: ClassVar[str] = "commit"
    noun: ClassVar[str] = "a page token of a commit"
    graph_commit_id: str
    filter: str
    place: ChangePlace


@dataclass(frozen=True, slots=True)
class DiffToken:
    """A place inside a diff from one commit to another; ``filter`` also says whether it has images."""

    kind: ClassVar[str] = "diff"
    noun: ClassVar[str] = "a page token of a diff"
    before: str
    after: str
    filter: str
    place: ChangePlace


@dataclass(frozen=True, slots=True)
class NeighborsToken:
    """A place inside the edges of a node at a commit: the direction, edge type and id of the last one.

    ``request`` is a digest of the node and of what is followed and shown.
    """

    kind: ClassVar[str] = "neighbors"
    noun: ClassVar[str] = "a page token of neighbors"
    graph_commit_id: str
    request: str
    place: ChangePlace


Token = CursorToken | FeedToken | CommitToken | DiffToken | NeighborsToken
Kind = TypeVar("Kind", CursorToken, FeedToken, CommitToken, DiffToken, NeighborsToken)
_KINDS: dict[str, type[Token]] = {
    each.kind: each for each in (CursorToken, FeedToken, CommitToken, DiffToken, NeighborsToken)
}


def filter_digest(canonical: Any) -> str:
    """Return a short text for the canonical form of a filter."""
    return _digest(json.dumps(canonical, sort_keys=True))


def write_token(graph_id: str, token: Token) -> str:
    """Return a token as text that only this graph reads."""
    body = _body(token)
    text = _encode(_check(graph_id, body) + body)
    if len(text) > MAX_LENGTH:
        raise CursorRejected("its branch or type name is too long for a token")
    return text


def read_token(
    graph_id: str, text: object, kind: type[Kind], former_ids: Collection[str] = ()
) -> Kind:
    """Return the token that a caller gave back; raise ``CursorRejected`` for any other text.

    ``former_ids`` are those of the graphs that this one is a copy of. Their tokens are not for this one.
    """
    if not isinstance(text, str):
        raise CursorRejected(f"{kind.noun} is a text, not {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise CursorRejected(f"{kind.noun} has at most {MAX_LENGTH:,} characters")
    raw = _decode(text)
    check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    found = _read_body(body) if check == _check(graph_id, body) else None
    if found is None and any(check == _check(former, body) for former in former_ids):
        raise CursorRejected(
            "it was made by the graph that this one was copied from, and a copy is a graph of its own; "
            "begin anew here, or run `omnigraph repair --moved` on the copy if the original is gone"
        )
    if found is None:
        raise CursorRejected(
            "it is damaged, or was made by another graph; pass it on exactly as it was given"
        )
    if not isinstance(found, kind):
        raise CursorRejected(f"it is {found.noun}, and {kind.noun} is needed here")
    return found


_PARTS: dict[str, Any] = {"scope": TokenScope, "place": ChangePlace}


def _read_body(body: bytes) -> Token | None:
    """Return the token; None for content that this product never writes, even if its check sum is right."""
    try:
        name, *values = json.loads(body)
        kind = _KINDS[name]
        names = [each.name for each in fields(kind)]
        parts = zip(names, values, strict=True)
        token = kind(*(_PARTS[n](*value) if n in _PARTS else value for n, value in parts))
        return token if has_type(token, kind) and _body(token) == body else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def _body(token: Token) -> bytes:
    return _json([token.kind, *astuple(token)])


def _check(graph_id: str, body: bytes) -> bytes:
    key = hashlib.sha256(graph_id.encode()).digest()
    return hashlib.blake2b(body, key=key, digest_size=_CHECK_BYTES).digest()


def _digest(text: str) -> str:
    return _encode(hashlib.blake2b(text.encode(), digest_size=16).digest())


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Return the bytes of a text; empty for one that is not exactly what ``_encode`` gives."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
    # Several texts decode to the same bytes; only one of them is accepted as a token.
    return data if _encode(data) == text else b""
