"""Which operation ids the newest commits of a branch hold, remembered from one look-up to the next.

A caller may choose an id for its write, and a write that is sent twice under one id takes effect once.
For that the last ``LOOKED_AT`` commits of the branch count, those of its parents before the fork
included. The first look-up on a branch reads one page of records. Every later one reads only what was
committed since, and nothing if that was one commit, because the head is known anyway.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from omnigraph.manifest.history.records import BranchRecords, first_parents
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit

LOOKED_AT = 1000
"""This many commits of a branch are searched."""
REMEMBERED = 64
"""This many branches are remembered, those that were written last under an id."""


class _Made(NamedTuple):
    """A commit and the ids that its callers chose, if any."""

    operation_ids: tuple[str, ...]
    graph_commit_id: str


class _Known:
    """The newest commits of a branch, numbered from the oldest on, and which of them hold an id.

    Commits of many small writes hold hundreds of ids, so a commit that is added costs its own ids alone.
    """

    def __init__(self, identifier: str | None) -> None:
        self.identifier = identifier
        self.depth = 0
        """That of the newest commit."""
        self._made: deque[_Made] = deque()
        self._first = 0
        self._numbers: dict[str, int] = {}
        self._holding: dict[str, list[int]] = {}

    @property
    def head(self) -> str:
        """The newest commit."""
        return self._made[-1].graph_commit_id

    def knows(self, state: BranchState) -> bool:
        """Whether the head of a state of the branch is among them."""
        known = self._numbers.get(state.head.commit.graph_commit_id)
        return known is not None and self.identifier == state.identifier

    def find(self, head: str, operation_id: str) -> str | None:
        """Return the newest commit that holds an id, of those up to a head."""
        last = self._numbers[head]
        for number in reversed(self._holding.get(operation_id, ())):
            if number <= last:
                return self._made[number - self._first].graph_commit_id
        return None

    def add(self, newer: Sequence[_Made], depth: int) -> None:
        """Add the commits that follow, the newest of them first."""
        for one in reversed(newer):
            number = self._first + len(self._made)
            self._made.append(one)
            self._numbers[one.graph_commit_id] = number
            for operation_id in one.operation_ids:
                self._holding.setdefault(operation_id, []).append(number)
            if len(self._made) > LOOKED_AT:
                self._drop_oldest()
        self.depth = depth

    def _drop_oldest(self) -> None:
        oldest = self._made.popleft()
        self._first += 1
        del self._numbers[oldest.graph_commit_id]
        for operation_id in oldest.operation_ids:
            numbers = self._holding[operation_id]
            del numbers[0]
            if not numbers:
                del self._holding[operation_id]


class RecentOperations:
    """The operation ids of the newest commits of each branch; safe to share between threads."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def find(self, manifest: Manifest, state: BranchState, operation_id: str) -> GraphCommit | None:
        """Return the newest commit of that id among the last ones of a branch, or None."""
        head = state.head.commit.graph_commit_id
        while True:
            with self._lock:
                known = self._known.get(state.name)
                if known is not None and known.knows(state):
                    made = known.find(head, operation_id)
                    break
                if known is not None and known.identifier != state.identifier:
                    known = None
                last = None if known is None else known.head
                newer = LOOKED_AT if known is None else state.head.commit.depth - known.depth
            fresh, follows = _read(manifest, state, last, newer)
            self._remember(state, known if follows else None, last, fresh)
        return None if made is None else manifest.commit(state, made)

    def _remember(
        self, state: BranchState, known: _Known | None, last: str | None, fresh: Sequence[_Made]
    ) -> None:
        """Keep what was read: behind what is known up to ``last``, or alone."""
        with self._lock:
            if known is None:
                known = _Known(state.identifier)
            elif self._known.get(state.name) is not known or known.head != last:
                return  # another thread has read the same meanwhile; the caller looks again
            known.add(fresh, state.head.commit.depth)
            self._known.pop(state.name, None)
            self._known[state.name] = known
            while len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]


def _read(
    manifest: Manifest, state: BranchState, last: str | None, newer: int
) -> tuple[list[_Made], bool]:
    """Return the newest commits of a branch, and whether they follow the last one that is known."""
    # A state that is older than what is known is read as if nothing was.
    records = BranchRecords(manifest, state, page=newer if 0 < newer < LOOKED_AT else LOOKED_AT)
    fresh: list[_Made] = []
    for commit in first_parents(records, records.head):
        fresh.append(_Made(commit.operation_ids, commit.graph_commit_id))
        if last is not None and commit.parent_commit_id == last:
            return fresh, True
        # Asking for the next one would read its record.
        if len(fresh) == LOOKED_AT:
            break
    return fresh, False
