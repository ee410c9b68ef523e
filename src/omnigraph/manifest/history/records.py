"""Commit records: lists of a branch, single commits, and pages of them by depth.

For example, with `main` at commit C3 (parents C3 -> C2 -> C1), ``list_commits`` returns ``[C3, C2,
C1]``. Their depths are 3, 2 and 1. A parent always has a smaller depth than its child, so records
are read a range of depths at a time, from the head down, and never all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from omnigraph.errors import BadRequest, BranchNotFound, CommitNotFound
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.migrations import with_depths
from omnigraph.manifest.rows import GraphCommit

Test = Callable[[GraphCommit], bool]

PAGE = 256
"""So many depths are read at a time."""

MAINTENANCE = frozenset({"optimize", "ensure_indices"})
"""Operations that change no content."""


class BranchRecords:
    """The commit records that one state of a branch holds, read in pages and then remembered.

    Whenever a branch holds a commit, it holds all ancestors of that commit too.
    """

    def __init__(self, manifest: Manifest, state: BranchState) -> None:
        self.state = state
        self._manifest = manifest
        self._known: dict[str, GraphCommit] = {}
        self._covered: set[int] = set()
        self._all_known = False
        self.head = state.head.commit
        if self.head.depth == 0:
            # Written before depths were recorded, and not migrated because nobody has written since.
            self._known = with_depths(manifest.commits(state).values())
            self._all_known = True
            self.head = self._known[self.head.graph_commit_id]
        self._known[self.head.graph_commit_id] = self.head

    def find(self, graph_commit_id: str) -> GraphCommit | None:
        """Return one record, or None if the branch does not hold it."""
        found = self._known.get(graph_commit_id)
        if found is None and not self._all_known:
            found = self._manifest.commit(self.state, graph_commit_id)
            if found is not None:
                self._known[graph_commit_id] = found
        return found

    def holds(self, commit: GraphCommit) -> bool:
        """Return whether the branch holds this commit; a page around its depth is read."""
        self._read(commit.depth)
        return commit.graph_commit_id in self._known

    def parents(self, commit: GraphCommit) -> tuple[GraphCommit, ...]:
        """Return the parents of a commit that the branch holds, the first one first."""
        return tuple(self._parent(commit, parent) for parent in commit.parent_ids)

    def _parent(self, commit: GraphCommit, graph_commit_id: str) -> GraphCommit:
        if graph_commit_id not in self._known:
            # One of the parents is one less deep, and the other one is often close to it.
            self._read(commit.depth - 1)
        found = self.find(graph_commit_id)
        if found is None:
            raise commit_not_found(graph_commit_id)
        return found

    def _read(self, depth: int) -> None:
        """Read the page of records that ends with this depth, unless that was done before."""
        if self._all_known or depth in self._covered or depth < 1:
            return
        low = max(1, depth - PAGE + 1)
        while low in self._covered:
            low += 1
        for name, record in self._manifest.commits(self.state, (low, depth)).items():
            self._known.setdefault(name, record)
        self._covered.update(range(low, depth + 1))


def first_parents(records: BranchRecords, start: GraphCommit) -> Iterator[GraphCommit]:
    """Yield a commit of a branch, its first parent, and so on down to genesis."""
    commit = start
    yield commit
    while commit.parent_commit_id is not None:
        commit = records.parents(commit)[0]
        yield commit


def list_commits(
    manifest: Manifest,
    branch: str = MAIN,
    filters: str | Iterable[str] | None = None,
    limit: int | None = None,
) -> list[GraphCommit]:
    """Return the first-parent chain of a branch, newest first; ``limit`` applies after filtering."""
    _check_limit(limit)
    tests = [parse_filter(text) for text in _filter_texts(filters)]
    records = BranchRecords(manifest, manifest.state(branch))
    found: list[GraphCommit] = []
    for commit in first_parents(records, records.head):
        if all(test(commit) for test in tests):
            found.append(commit)
            if limit is not None and len(found) == limit:
                break
    return found


def _check_limit(limit: object) -> None:
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1):
        return
    raise BadRequest(f"limit is {limit!r}; it must be a whole number, at least 1")


def _filter_texts(filters: object) -> Iterable[object]:
    """Return the filters as an iterable; a single filter need not be in a list."""
    if filters is None:
        return ()
    return (filters,) if isinstance(filters, str) or not isinstance(filters, Iterable) else filters


def parse_filter(text: object) -> Test:
    """Return the test that a commit filter stands for: `actor=<id>` or `branch=<name>`."""
    if not isinstance(text, str):
        raise BadRequest(f"a commit filter is a text, actor=<id> or branch=<name>, not {text!r}")
    key, equals, value = text.partition("=")
    if not equals:
        raise BadRequest(f"the filter `{text}` has no `=`; write actor=<id> or branch=<name>")
    if key == "actor":
        return lambda commit: (commit.actor_id or "") == value
    if key == "branch":
        return lambda commit: (commit.branch or MAIN) == value
    raise BadRequest(f"commits cannot be filtered by `{key}`; the keys are actor and branch")


def find_commit(manifest: Manifest, graph_commit_id: str) -> GraphCommit:
    """Return the record of a commit, from whichever live branch holds it."""
    for branch in (MAIN, *manifest.branches()):
        # A branch that is deleted while this loop runs is no longer live.
        with contextlib.suppress(BranchNotFound):
            found = manifest.commit(manifest.state(branch), graph_commit_id)
            if found is not None:
                return found
    raise commit_not_found(graph_commit_id)


def commit_not_found(graph_commit_id: str) -> CommitNotFound:
    """Return the error for a commit that no live branch holds."""
    return CommitNotFound(
        f"no live branch holds the commit `{graph_commit_id}`; list the commits to see which there are",
        graph_commit_id=graph_commit_id,
    )
