"""Which operation ids the newest commits of a branch hold, remembered from one look-up to the next.

A caller may choose an id for its write, and a write that is sent twice under one id takes effect once.
For that the last ``LOOKED_AT`` commits of the branch count, those of its parents before the fork
included. The first look-up on a branch reads one page of records. Every later one reads only what was
committed since, and nothing if that was one commit, because the head is known anyway.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Known:
    """The newest commits of a branch as they were at some moment, the newest first."""

    identifier: str | None
    depth: int
    made: tuple[_Made, ...]

    def at(self, state: BranchState) -> tuple[_Made, ...] | None:
        """Return the commits up to the head of a state; None if it has newer ones."""
        if self.identifier != state.identifier:
            return None
        head = state.head.commit.graph_commit_id
        for place, one in enumerate(self.made):
            if one.graph_commit_id == head:
                return self.made[place:]
        return None


class RecentOperations:
    """The operation ids of the newest commits of each branch; safe to share between threads."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def find(self, manifest: Manifest, state: BranchState, operation_id: str) -> GraphCommit | None:
        """Return the newest commit of that id among the last ones of a branch, or None."""
        for one in self._newest(manifest, state):
            if operation_id in one.operation_ids:
                return manifest.commit(state, one.graph_commit_id)
        return None

    def _newest(self, manifest: Manifest, state: BranchState) -> tuple[_Made, ...]:
        known = self._known.get(state.name)
        if known is not None:
            found = known.at(state)
            if found is not None:
                return found
            if known.identifier != state.identifier:
                known = None
        made = _read(manifest, state, known)
        with self._lock:
            # Of two threads the last one stays. If it knows less, the next look-up reads a little more.
            self._known.pop(state.name, None)
            self._known[state.name] = _Known(state.identifier, state.head.commit.depth, made)
            while len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        return made


def _read(manifest: Manifest, state: BranchState, known: _Known | None) -> tuple[_Made, ...]:
    """Return the newest commits of a branch; records are read down to what is known."""
    head = state.head.commit
    newer = LOOKED_AT if known is None else head.depth - known.depth
    records = BranchRecords(manifest, state, page=max(1, min(LOOKED_AT, newer)))
    last = None if known is None else known.made[0].graph_commit_id
    fresh: list[_Made] = []
    for commit in first_parents(records, records.head):
        fresh.append(_Made(commit.operation_ids, commit.graph_commit_id))
        # Asking for the next one would read its record.
        if len(fresh) == LOOKED_AT or commit.parent_commit_id == last:
            break
    older = () if known is None or commit.parent_commit_id != last else known.made
    return (*fresh, *older)[:LOOKED_AT]
