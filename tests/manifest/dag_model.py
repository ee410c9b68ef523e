"""Random commit graphs, and what is true of them, found out in the most naive way.

Sets of ancestors are built for every commit, distances by trying every way, equal content by joining
sets until nothing changes. Nothing here knows of depths, pages or queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from omnigraph.manifest.rows import GraphCommit


@dataclass(slots=True)
class Recorded:
    """Stands for the manifest: the records each branch holds, and how they were asked for."""

    held: Mapping[str, Mapping[str, GraphCommit]]
    pages: list[tuple[int, int]] = field(default_factory=list)

    def commit(self, state: Any, graph_commit_id: str) -> GraphCommit | None:
        return self.held[state.name].get(graph_commit_id)

    def commits(self, state: Any, depths: tuple[int, int] | None = None) -> dict[str, GraphCommit]:
        low, high = depths or (0, 10**9)
        self.pages.append((low, high))
        return {
            name: one for name, one in self.held[state.name].items() if low <= one.depth <= high
        }

    def branch_names(self) -> list[str]:
        return [name for name in self.held if name != "main"]

    def state(self, branch: str) -> Any:
        raise NotImplementedError(branch)


class History:
    """A commit graph as a list, parents before children, with naive answers about it."""

    def __init__(self, commits: Sequence[GraphCommit]) -> None:
        known: dict[str, GraphCommit] = {}
        for commit in commits:
            depth = 1 + max((known[parent].depth for parent in commit.parent_ids), default=0)
            known[commit.graph_commit_id] = replace(commit, depth=depth)
        self.commits = known
        self._ancestors: dict[str, set[str]] = {}
        for name, one in known.items():
            above = (self._ancestors[parent] for parent in one.parent_ids)
            self._ancestors[name] = {name}.union(*above)

    def ancestors(self, name: str) -> set[str]:
        """The commit itself and everything reachable from it."""
        return self._ancestors[name]

    def holding(self, *heads: str) -> dict[str, GraphCommit]:
        """The records of a branch that holds these commits and all their ancestors."""
        names = set().union(*(self.ancestors(head) for head in heads))
        return {name: self.commits[name] for name in names}

    def counts_as(self, name: str) -> str:
        commit = self.commits[name]
        if commit.operation not in {"optimize", "ensure_indices"}:
            return name
        return self.counts_as(commit.parent_ids[0])

    def parents(self, name: str) -> list[str]:
        """The parents, where a maintenance commit counts as its own."""
        return [self.counts_as(parent) for parent in self.commits[name].parent_ids]

    def distances(self, head: str) -> dict[str, int]:
        """The number of steps from a head to everything it reaches, maintenance not counted."""
        found = {self.counts_as(head): 0}
        while True:
            further = dict(found)
            for name, distance in found.items():
                for parent in self.parents(name):
                    further[parent] = min(further.get(parent, distance + 1), distance + 1)
            if further == found:
                return found
            found = further

    def merge_bases(self, a: str, b: str) -> list[str]:
        left, right = self.distances(a), self.distances(b)
        common = left.keys() & right.keys()
        below = {other: set(self.distances(other)) - {other} for other in common}
        best = [name for name in common if not any(name in below[other] for other in common)]
        best.sort(key=lambda name: (self.commits[name].created_us, name), reverse=True)
        return sorted(best, key=lambda name: left[name] + right[name])

    def equals(self, name: str) -> set[str]:
        """All commits whose content equals that of a commit by construction."""
        found = {name}
        while True:
            pairs = [
                {one.graph_commit_id, parent}
                for one in self.commits.values()
                if (parent := _equal_parent(one)) is not None
            ]
            further = found.union(*(pair for pair in pairs if pair & found))
            if further == found:
                return found
            found = further


def _equal_parent(commit: GraphCommit) -> str | None:
    if commit.operation in {"optimize", "ensure_indices"}:
        return commit.parent_commit_id
    is_forward = commit.facts.get("merge", {}).get("outcome") == "fast_forward"
    return commit.merged_parent_commit_id if is_forward else None


def state_of(name: str, head: GraphCommit) -> Any:
    """A branch at a commit, as far as a commit graph looks at it."""
    return SimpleNamespace(name=name, head=SimpleNamespace(commit=head, tables={}))


def commit(
    name: str,
    *parents: str,
    at: int = 0,
    operation: str = "load",
    outcome: str | None = None,
    branch: str | None = None,
) -> GraphCommit:
    """One record. With two parents it is a merge."""
    first, second = (*parents, None, None)[:2]
    if second is not None:
        operation, outcome = "branch_merge", outcome or "merged"
    facts = {} if outcome is None else {"merge": {"outcome": outcome}}
    return GraphCommit(name, branch, 1, first, second, None, at, operation, facts)


LANES = 4
STEP = st.tuples(
    st.sampled_from(["load", "merge", "merge", "merge", "forward", "optimize", "fork"]),
    st.integers(0, LANES - 1),
    st.integers(0, LANES - 1),
    st.integers(0, 3),
)
"""What happens, to which branch, from which other one, at what time."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, list[str]]:
    """A graph of commits as four busy branches make it, and the heads of the branches."""
    steps = draw(st.lists(STEP, max_size=30))
    ids = iter(draw(st.permutations([f"C{number:02}" for number in range(len(steps) + 1)])))
    made = [commit(next(ids), operation="init")]
    heads = [made[0].graph_commit_id] * LANES
    for kind, at, other, time in steps:
        if kind == "fork":
            heads[at] = heads[other]
            continue
        if kind in {"merge", "forward"} and heads[at] != heads[other]:
            outcome = "merged" if kind == "merge" else "fast_forward"
            made.append(commit(next(ids), heads[at], heads[other], at=time, outcome=outcome))
        else:
            operation = kind if kind == "optimize" else "load"
            made.append(commit(next(ids), heads[at], at=time, operation=operation))
        heads[at] = made[-1].graph_commit_id
    return History(made), heads


def names(commits: Iterable[GraphCommit]) -> list[str]:
    return [one.graph_commit_id for one in commits]
