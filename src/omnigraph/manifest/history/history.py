"""The commits of several branches in one order, as a drawing of history shows them.

A commit comes after all its children; where that leaves a choice, the youngest comes first. The
order is found from the heads down, so that the first page costs what it shows: a commit may be given
out once everything deeper has been looked at, because only that can hold another child of it.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, moment_text
from omnigraph.errors import BadRequest, BranchNotFound, ResourceLimit
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.graph_identity import is_settled
from omnigraph.manifest.history.ancestry import CommitGraph
from omnigraph.manifest.history.records import MayRead, check_limit, everything
from omnigraph.manifest.history.tags import list_tags
from omnigraph.manifest.manifest import BranchState, Manifest
from omnigraph.manifest.rows import GraphCommit

USUAL = 200
MOST = 1000
"""The number of commits on a page: by default, and at most."""
LOOKS = 5
"""How often all branches are looked at, at most, while some are being deleted."""


@dataclass(frozen=True, slots=True, repr=False)
class History(Shown):
    """One page of the commits of some branches, children before their parents.

    ``heads`` maps each branch to its newest commit, and ``tags`` commits of the page to their names.
    ``next`` is what ``before`` takes for the following page; None on the last one.
    """

    commits: list[GraphCommit]
    heads: Mapping[str, str]
    tags: Mapping[str, Sequence[str]]
    next: str | None = None

    def branches_at(self, graph_commit_id: str) -> list[str]:
        """Return the branches whose head a commit is, `main` first."""
        return [branch for branch, head in self.heads.items() if head == graph_commit_id]

    def tags_at(self, graph_commit_id: str) -> list[str]:
        """Return the tags of a commit by name."""
        return list(self.tags.get(graph_commit_id, ()))

    def to_json(self) -> dict[str, Any]:
        """Return the public document."""
        document: dict[str, Any] = {
            "commits": [
                {
                    **commit.to_json(),
                    "branches": self.branches_at(commit.graph_commit_id),
                    "tags": self.tags_at(commit.graph_commit_id),
                }
                for commit in self.commits
            ],
            "heads": [
                {"branch": branch, "graph_commit_id": head} for branch, head in self.heads.items()
            ],
        }
        return document if self.next is None else {**document, "next": self.next}

    def _panel(self) -> Panel:
        return Panel.of_rows(
            f"{counted(len(self.commits), 'commit')} of {', '.join(self.heads)}",
            ("commit", "operation", "branch", "actor", "made", "here"),
            [
                (
                    one.graph_commit_id,
                    one.operation,
                    one.branch or MAIN,
                    one.actor_id,
                    moment_text(one.created_us),
                    ", ".join(
                        (*self.branches_at(one.graph_commit_id), *self.tags_at(one.graph_commit_id))
                    ),
                )
                for one in self.commits
            ],
            notes=[] if self.next is None else [f"older ones: before={self.next!r}"],
        )


def read_history(
    manifest: Manifest,
    branches: str | Iterable[str] | None = None,
    limit: int | None = None,
    before: str | None = None,
    may_read: MayRead = everything,
) -> History:
    """Return the commits that branches reach over both parents; all branches unless some are named.

    ``before`` is the last commit of the page before this one. ``may_read`` tells of a branch whether it,
    and the commits that were made on it, are to be shown; otherwise they are as unknown.
    """
    check_limit(limit)
    limit = USUAL if limit is None else limit
    if limit > MOST:
        raise ResourceLimit(
            f"limit is {limit}; a page of history has at most {MOST:,} commits",
            resource="history_commits",
            limit=MOST,
            actual=limit,
        )
    named = named_branches(branches)
    if not named:
        # A branch that is deleted meanwhile was not asked for by name, so the answer is complete without it.
        for _ in range(LOOKS - 1):
            with contextlib.suppress(BranchNotFound):
                return _page(manifest, _all_branches(manifest, may_read), limit, before, may_read)
    return _page(manifest, named or _all_branches(manifest, may_read), limit, before, may_read)


def _all_branches(manifest: Manifest, may_read: MayRead) -> list[str]:
    # Of a graph that was copied or moved, and that is not settled yet, only `main` can be read.
    others = manifest.branch_names() if is_settled(manifest.state(MAIN).head, manifest.root) else ()
    return [name for name in (MAIN, *others) if may_read(name)]


def _page(
    manifest: Manifest,
    branches: Sequence[str],
    limit: int,
    before: str | None,
    may_read: MayRead,
) -> History:
    states = [manifest.state(branch) for branch in branches]
    heads = {
        state.name: state.head.commit.graph_commit_id
        for state in states
        if may_read(state.head.commit.branch or MAIN)
    }
    # What may not be read is walked over: there may be more behind it.
    reached = _newest_first(CommitGraph(manifest, states), states)
    ordered = _after((one for one in reached if may_read(one.branch or MAIN)), before)
    page = list(itertools.islice(ordered, limit))
    more = next(ordered, None) is not None
    return History(page, heads, _tags(manifest, page), page[-1].graph_commit_id if more else None)


def _tags(manifest: Manifest, page: Iterable[GraphCommit]) -> dict[str, list[str]]:
    """Return the names of tagged commits by their ids, in the order of the list of tags.

    Only commits of the page: tags on other branches are not what was asked for.
    """
    shown = {commit.graph_commit_id for commit in page}
    tags: dict[str, list[str]] = {}
    for tag in list_tags(manifest):
        if tag.graph_commit_id in shown:
            tags.setdefault(tag.graph_commit_id, []).append(tag.name)
    return tags


def named_branches(asked: object) -> list[str]:
    """Return the branches that were asked for, each once, `main` first; none means all."""
    given = [asked] if isinstance(asked, str) else () if asked is None else asked
    if not isinstance(given, Iterable):
        raise BadRequest(f"branches is {asked!r}; give a list of names, or leave it out")
    named = {trim_branch_name(name) for name in given}
    return sorted(named, key=lambda name: (name != MAIN, name))


def _after(commits: Iterator[GraphCommit], before: object) -> Iterator[GraphCommit]:
    """Skip everything up to a commit and the commit itself."""
    if before is None:
        return commits
    if all(commit.graph_commit_id != before for commit in commits):
        raise BadRequest(
            f"before is {before!r}, which is no commit of these branches; give the `next` of a page"
        )
    return commits


def _newest_first(graph: CommitGraph, states: Sequence[BranchState]) -> Iterator[GraphCommit]:
    """Yield everything the heads reach: the youngest first, and no commit before all its children."""
    heads = {state.head.commit.graph_commit_id for state in states}
    start = [graph.record(head) for head in heads]
    deeper = _Explored(graph, start)
    waiting = [_Youngest(commit) for commit in start]
    heapq.heapify(waiting)
    shown: Counter[str] = Counter()
    done: set[str] = set()
    while waiting:
        commit = heapq.heappop(waiting).commit
        name = commit.graph_commit_id
        # Every child puts it here once, and it is given out with the last of them.
        if name in done or shown[name] < deeper.children_of(commit):
            continue
        done.add(name)
        yield commit
        for parent in graph.parents(commit):
            shown[parent.graph_commit_id] += 1
            heapq.heappush(waiting, _Youngest(parent))


class _Explored:
    """How many children commits have, among those that some heads reach."""

    def __init__(self, graph: CommitGraph, heads: Iterable[GraphCommit]) -> None:
        self._ahead = graph.ancestors(heads)
        self._last: GraphCommit | None = next(self._ahead, None)
        self._children: Counter[str] = Counter()

    def children_of(self, commit: GraphCommit) -> int:
        """Return the number of children of a commit, after looking at everything deeper."""
        while self._last is not None and self._last.depth > commit.depth:
            self._children.update(self._last.parent_ids)
            self._last = next(self._ahead, None)
        return self._children[commit.graph_commit_id]


@dataclass(slots=True)
class _Youngest:
    """Orders commits for a heap: the youngest first, then the greatest id."""

    commit: GraphCommit

    def __lt__(self, other: _Youngest) -> bool:
        mine, theirs = self.commit, other.commit
        return (mine.created_us, mine.graph_commit_id) > (
            theirs.created_us,
            theirs.graph_commit_id,
        )
