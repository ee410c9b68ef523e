"""Pages of changes: how much fits on one, and where the next one begins."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from omnigraph.changes.cursors import ChangePlace
from omnigraph.errors import BadRequest, CursorRejected, ResourceLimit

DEFAULT_CHANGES = 1000
MAX_CHANGES = 8192
PAGE_BYTES = 4 * 1024 * 1024
"""A page ends before the change that would make it larger; a larger one is a page of its own."""
DEFAULT_COMMITS = 128
MAX_COMMITS = 512


class Placed(Protocol):
    """A change of one entity, as far as pages know it."""

    @property
    def kind(self) -> str:
        """`node` or `edge`."""

    @property
    def type(self) -> str:
        """The name of the type."""

    @property
    def id(self) -> str:
        """The id of the entity."""

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""


Change = TypeVar("Change", bound=Placed)


def check_changes(limit: object) -> int:
    """Return how many changes a page may have."""
    return _checked("limit", limit, DEFAULT_CHANGES, MAX_CHANGES, "page_changes")


def check_commits(max_commits: object) -> int:
    """Return how many commits a page of the feed may look at."""
    return _checked("max_commits", max_commits, DEFAULT_COMMITS, MAX_COMMITS, "page_commits")


def _checked(name: str, given: object, default: int, most: int, resource: str) -> int:
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise BadRequest(f"{name} is {given!r}; it is a whole number from 1 to {most:,}")
    if given > most:
        raise ResourceLimit(
            f"{name} is {given:,}, and the most is {most:,}; ask for less and go on with the page "
            "token or the cursor",
            resource=resource,
            limit=most,
            actual=given,
        )
    return given


@dataclass(slots=True)
class Budget:
    """What a page may still take."""

    changes: int
    bytes: int = field(default_factory=lambda: PAGE_BYTES)
    is_empty: bool = True

    @property
    def is_used_up(self) -> bool:
        """Whether no further change can be taken."""
        return self.changes < 1 or (self.bytes < 1 and not self.is_empty)

    def take(self, size: int) -> bool:
        """Count a change by its bytes; return False if it has to wait for the next page."""
        if self.changes < 1 or (size > self.bytes and not self.is_empty):
            return False
        self.changes -= 1
        self.bytes -= size
        self.is_empty = False
        return True


@dataclass(slots=True)
class TakenChanges(Generic[Change]):
    """The changes of a block that fit on a page; ``has_more`` says that others have to wait."""

    changes: list[Change] = field(default_factory=list)
    has_more: bool = False

    @property
    def place(self) -> ChangePlace:
        """Where the next page begins: behind the last change of this one."""
        last = self.changes[-1]
        return ChangePlace.of(last.kind, last.type, last.id)

    def ends_with(self, change: Placed) -> bool:
        """Return whether the last change is one of the same entity."""
        last = self.changes[-1] if self.changes else None
        return last is not None and _entity(last) == _entity(change)


def take(changes: Iterable[Change], budget: Budget) -> TakenChanges[Change]:
    """Return the first changes that fit into a page.

    A type that was dropped and added again has two changes of one entity; they stay together.
    """
    taken: TakenChanges[Change] = TakenChanges()
    for change in changes:
        fits = budget.take(_size(change))
        if not fits and not taken.ends_with(change):
            taken.has_more = True
            break
        taken.changes.append(change)
    return taken


def _entity(change: Placed) -> tuple[str, str, str]:
    return change.kind, change.type, change.id


def _size(change: Placed) -> int:
    return len(json.dumps(change.to_json(), ensure_ascii=False, separators=(",", ":")).encode())


def behind(changes: Iterator[Change], place: ChangePlace | None) -> Iterator[Change]:
    """Return the changes behind a place, of an iterator that begins behind ``place.id``.

    For a long id that is only the beginning of the id, so a few changes are passed over.
    """
    if place is None or place.digest is None:
        return changes
    rest = itertools.dropwhile(
        lambda change: not place.is_at(change.kind, change.type, change.id), changes
    )
    if next(rest, None) is None:
        raise CursorRejected("the place it names is not among the changes")
    return rest
