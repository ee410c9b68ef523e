"""What operations take and give.

A request is a frozen dataclass of plain values, flat as the body of an HTTP request: a read query on a
tag is ``QueryRequest(query="query q() { … }", tag="v1")``.

A document is a plain dict ready for JSON, or has a list that is too long to be held.

The rows of a query come as JSON texts, some thousands at a time:

    Streamed({"row_count": 2}, "rows", [['{"n":1}', '{"n":2}']], {"graph_commit_id": "01J…"})

is the document ``{"row_count": 2, "rows": [{"n": 1}, {"n": 2}], "graph_commit_id": "01J…"}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict

Document = dict[str, Any]

_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True, slots=True)
class Streamed:
    """A document, one list of which comes in pieces. It can be read once.

    ``head`` stands before the list and ``tail`` behind it; a tail that is known only when the list has
    ended is a function. ``held`` is how many bytes the list takes in memory until it has been read.
    """

    head: Document
    name: str
    pieces: Iterable[list[str]]
    tail: Document | Callable[[], Document] = field(default_factory=dict)
    held: int = 0

    def values(self) -> Iterator[list[Any]]:
        """Return the items of the list as plain data, a piece at a time."""
        for texts in self.pieces:
            yield json.loads(f"[{','.join(texts)}]")

    def end(self) -> Document:
        """Return what stands behind the list; ask when the list has been read."""
        return self.tail() if callable(self.tail) else self.tail

    def collected(self) -> Document:
        """Return the whole document, for a caller who knows that it is small."""
        items = [item for piece in self.values() for item in piece]
        return {**self.head, self.name: items, **self.end()}

    def json_text(self, *, pretty: bool = False) -> Iterator[str]:
        """Return the whole document as JSON, in pieces; if ``pretty``, with an item on each line."""
        gap, margin = ("\n    ", "\n  ") if pretty else ("", "")
        head = _members(self.head, pretty=pretty)
        yield f"{{{head}," if head else "{"
        yield f"{margin}{json.dumps(self.name)}:{' ' if pretty else ''}["
        opening = gap
        for texts in self.pieces:
            if texts:
                yield opening + f",{gap}".join(texts)
                opening = f",{gap}"
        yield "]" if opening == gap else f"{margin}]"
        tail = _members(self.end(), pretty=pretty)
        yield f",{tail}" if tail else ""
        yield "\n}" if pretty else "}"


def _members(document: Document, *, pretty: bool) -> str:
    """Return the members of an object, each with the line break before it if there are such."""
    if not document:
        return ""
    if pretty:
        return json.dumps(document, ensure_ascii=False, indent=2)[1:-2]
    return _ENCODE(document)[1:-1]


def ascii_json(text: str) -> str:
    """Return JSON text with all other characters escaped, for an output that cannot express them."""
    return text if text.isascii() else _NOT_ASCII.sub(lambda found: _escapes(found[0]), text)


def _escapes(characters: str) -> str:
    return json.dumps(characters)[1:-1]


class TargetValues(TypedDict):
    """The values that name one state of the graph; None where they are not given."""

    branch: str | None
    snapshot: str | None
    tag: str | None
    version: int | None
    time: str | None


class NamesState:
    """What has the five fields that name one state of the graph."""

    __slots__ = ()

    branch: str | None
    snapshot: str | None
    tag: str | None
    version: int | None
    time: str | None

    @property
    def target(self) -> TargetValues:
        """The state, as the methods of a session take it."""
        return {
            "branch": self.branch,
            "snapshot": self.snapshot,
            "tag": self.tag,
            "version": self.version,
            "time": self.time,
        }


class SeenValues(TargetValues):
    """The same, and the moment at which things are seen that hold."""

    as_of: str | None


class SeesWhatHolds(NamesState):
    """What has the fields that name a state of the graph, and a moment."""

    __slots__ = ()

    as_of: str | None

    @property
    def seen(self) -> SeenValues:
        """The state and the moment, as the methods of a session take them that see what holds."""
        return {**self.target, "as_of": self.as_of}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest(NamesState):
    """A request about one state of the graph, the head of `main` unless it names another.

    At most one of: ``branch``, alone or with ``version`` or ``time``; ``snapshot``, a commit id; ``tag``.
    """

    branch: str | None = None
    snapshot: str | None = None
    tag: str | None = None
    version: int | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest(TargetRequest, SeesWhatHolds):
    """A request that sees what holds: ``as_of`` a moment, or `ever`; by default that of the state."""

    as_of: str | None = None
