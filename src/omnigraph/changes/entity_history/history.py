"""The history of an entity: its changes, newest first, a page at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from omnigraph.cancel import look
from omnigraph.changes.change_filter import Kind, Op
from omnigraph.changes.entity_history.authors import Authors
from omnigraph.changes.entity_history.entity_states import PRESENCE, EntityState, image_pair
from omnigraph.changes.entity_history.results import EntityHistory, HistoryEntry
from omnigraph.changes.entity_history.walk import Stop, Walk, WalkState
from omnigraph.changes.schemas.type_pairs import rank_of
from omnigraph.errors import BadRequest
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import check_limit

USUAL: Final = 100
"""The number of entries on a page, by default."""


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """How a history is shown: with images or without, short ones, and which page of it."""

    images: bool = True
    short: bool = False
    limit: int | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    """A stop of one entity."""

    stop: Stop
    walk: Walk

    @property
    def rank(self) -> tuple[tuple[int, str], str]:
        """Where it stands among the changes of its commit: as in a diff."""
        entity = self.walk.states.entity
        return rank_of(kind_of(self.walk), entity.name), self.walk.states.id

    @property
    def moment(self) -> tuple[int, str]:
        """When its commit was made."""
        return self.stop.commit.created_us, self.stop.commit.graph_commit_id

    def __lt__(self, other: _Change) -> bool:
        """Whether it comes before another change on the same line of commits.

        A commit may say that it was made before its parent: clocks differ, and who begins first may end last.
        """
        mine = (self.stop.commit.depth, *self.moment)
        theirs = (other.stop.commit.depth, *other.moment)
        return mine > theirs if mine != theirs else self.rank < other.rank


def entity_history(
    starts: Sequence[tuple[Walk, WalkState]], authors: Authors, options: HistoryOptions
) -> EntityHistory:
    """Return a page of the changes of some entities, each walked back from its place."""
    check_limit(options.limit)
    limit = USUAL if options.limit is None else options.limit
    changes = _from(_newest_first(starts), options.before)
    page: list[_Change] = []
    more = False
    for change in changes:
        name = change.stop.commit.graph_commit_id
        # The entries of one commit are never parted.
        if len(page) >= limit and name != page[-1].stop.commit.graph_commit_id:
            more = True
            break
        page.append(change)
    entries = [_entry(change, authors, options) for change in page]
    complete = all(walk.is_complete for walk, _ in starts)
    return EntityHistory(entries, entries[-1].graph_commit_id if more else None, complete)


def _from(changes: Iterator[_Change], before: object) -> Iterator[_Change]:
    """Skip everything up to a commit, and what the commit did."""
    if before is None:
        return changes
    found = False
    rest: list[_Change] = []
    for change in changes:
        if change.stop.commit.graph_commit_id == before:
            found = True
        elif found:
            rest.append(change)
            break
    if not found:
        raise BadRequest(
            f"before is {before!r}, which is no entry of this history; give the `next` of a page"
        )
    return _chained(rest, changes)


def _chained(first: Iterable[_Change], others: Iterator[_Change]) -> Iterator[_Change]:
    yield from first
    yield from others


def _newest_first(starts: Sequence[tuple[Walk, WalkState]]) -> Iterator[_Change]:
    """Yield the changes of all entities, each once, the youngest commit first, and those of a commit together."""
    waiting: dict[str, list[_Change]] = {}  # by the line of their commit
    lines: dict[str, str] = {}
    known: set[tuple[int, str]] = set()

    def line_of(stop: Stop) -> str:
        """The first parents of the start are one line; what merges brought is one for each branch."""
        line = "" if stop.merge is None else stop.commit.branch or MAIN
        return lines.setdefault(stop.commit.graph_commit_id, line)

    def add(walk: Walk, place: WalkState) -> None:
        look()
        stop = walk.next_stop(place, lambda one, other: not walk.states.differing(one, other))
        if stop is None or (id(walk), stop.commit.graph_commit_id) in known:
            return
        known.add((id(walk), stop.commit.graph_commit_id))
        heapq.heappush(waiting.setdefault(line_of(stop), []), _Change(stop, walk))

    for walk, place in starts:
        add(walk, place)
    while waiting:
        line = max(waiting.values(), key=lambda one: one[0].moment)
        first = line[0].stop.commit
        together = []
        while line and line[0].stop.commit.graph_commit_id == first.graph_commit_id:
            together.append(heapq.heappop(line))
        if not line:
            del waiting[lines[first.graph_commit_id]]
        yield from together
        for change in together:
            for parent in change.stop.parents:
                add(change.walk, parent)


def kind_of(walk: Walk) -> Kind:
    """Return whether a walk is about a node or an edge."""
    return "edge" if isinstance(walk.states.entity, EdgeType) else "node"


def _entry(change: _Change, authors: Authors, options: HistoryOptions) -> HistoryEntry:
    stop, states = change.stop, change.walk.states
    entity, seen = states.entity, stop.seen
    before = _before(stop)
    op = _op(stop, before)
    changed = None
    if op == "update" and before is not None:
        differing = [states.differing(seen, one.seen) for one in stop.parents]
        changed = sorted(frozenset.intersection(*differing) - {PRESENCE})
    was, now = image_pair(before, seen, properties=options.images, short=options.short)
    return HistoryEntry(
        kind_of(change.walk),
        entity.name,
        states.id,
        op,
        changed,
        was,
        now,
        **authors.of(stop, entity.table_key, states.id),
    )


def _before(stop: Stop) -> EntityState | None:
    """Return what the entity was before: at the first parent that had it; None if there was none."""
    return next((one.seen for one in stop.parents if one.seen.is_there), None)


def _op(stop: Stop, before: EntityState | None) -> Op:
    if not stop.seen.is_there:
        return "delete"
    if before is not None:
        return "update"
    if stop.parents or not stop.reclaimed:
        return "insert"
    return "insert" if stop.is_insert else "update"
