"""Random histories on a real manifest: what is read by pages is what the naive model says of all records.

Branches are made (also under names that were used before), merged in all directions, maintained and
deleted, so records are inherited, taken over and left behind in every combination.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace

import pytest

from omnigraph.errors import BadRequest
from omnigraph.manifest.history import records
from omnigraph.manifest.history.ancestry import (
    CommitGraph,
    is_ancestor,
    merge_bases,
    unknown_records,
)
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.manifest.rows import GraphCommit
from omnigraph.storage.tables.table_branches import delete_branch
from tests.manifest.dag_model import History, names
from tests.manifest.publishing import intent, new_graph
from tests.manifest.test_history import naive_order
from tests.opened import workspace_of

NAMES = ("main", "a", "b", "c", "d")


@dataclass
class Walk:
    """A graph, and every commit it ever had in the order they were made."""

    graph: object
    made: list[GraphCommit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.manifest = workspace_of(self.graph).manifest
        self.made.append(self.manifest.state("main").head.commit)
        self.lines = {"main": [self.made[0].graph_commit_id]}
        """The first-parent chain of every live branch, oldest first."""

    def create(self, name: str, source: str) -> None:
        self.graph.branches.create(name, source)
        self.lines[name] = list(self.lines[source])

    def delete(self, name: str) -> None:
        """Remove the reference alone: whether a branch may go is another question."""
        delete_branch(self.manifest.ref, name)
        self.manifest.forget(name)
        del self.lines[name]

    def publish(self, branch: str, operation: str, merged: str | None = None) -> None:
        state, adopted, facts = self.manifest.state(branch), (), {}
        parent = None
        if merged is not None:
            other = self.manifest.state(merged)
            parent = other.head.commit.graph_commit_id
            found = CommitGraph(self.manifest, [state, other])
            adopted = unknown_records(found, other.head.commit, state)
            facts = {"merge": {"outcome": "merged"}}
        wanted = replace(intent(operation=operation), merged_parent_commit_id=parent, facts=facts)
        done = publish(
            self.manifest, branch, ManifestChanges(adopted=adopted), (), wanted,
            identifier=state.identifier, unchecked=True,
        )  # fmt: skip
        self.made.append(done)
        self.lines[branch].append(done.graph_commit_id)

    def step(self, chance: random.Random) -> None:
        live = sorted(self.lines)
        free = [name for name in NAMES if name not in self.lines]
        branch, other = chance.choice(live), chance.choice(live)
        kind = chance.choices(
            ["load", "merge", "optimize", "create", "delete"], [4, 6, 2, 3, 1]
        )[0]  # fmt: skip
        if kind == "create" and free:
            self.create(chance.choice(free), other)
        elif kind == "delete" and branch != "main" and not self.children_of(branch):
            self.delete(branch)
        elif kind == "merge" and self.lines[branch][-1] != self.lines[other][-1]:
            self.publish(branch, "branch_merge", other)
        else:
            self.publish(branch, "optimize" if kind == "optimize" else "load")

    def children_of(self, branch: str) -> list[str]:
        return [name for name, one in self.manifest.branches().items() if one.parent == branch]


@pytest.mark.parametrize("seed", range(3))
def test_pages_tell_what_all_records_tell(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(records, "PAGE", 2)
    chance = random.Random(seed)
    with new_graph(tmp_path) as graph:
        walk = Walk(graph)
        for _ in range(40):
            walk.step(chance)
        model = History(walk.made)
        heads = {name: line[-1] for name, line in walk.lines.items()}
        for name, head in heads.items():
            held = walk.manifest.commits(walk.manifest.state(name))
            assert {one: held[one] for one in model.ancestors(head)} == model.holding(head)
            check_line(graph, name, walk.lines[name][::-1], set(held), chance)
        for a, b in itertools.combinations(sorted(heads), 2):
            check_pair(walk, model, a, b)
        assert names(graph.commits.history().commits) == naive_order(model, set(heads.values()))


def check_line(graph, branch: str, line: list[str], held: set[str], chance: random.Random) -> None:
    assert names(graph.commits.list(branch)) == line
    at = chance.randrange(len(line))
    assert names(graph.commits.list(branch, limit=3, before=line[at])) == line[at + 1 : at + 4]
    for stranger in sorted(held - set(line))[:3]:
        with pytest.raises(BadRequest, match="before"):
            graph.commits.list(branch, before=stranger)


def check_pair(walk: Walk, model: History, a: str, b: str) -> None:
    states = [walk.manifest.state(name) for name in (a, b)]
    left, right = (state.head.commit for state in states)
    found = CommitGraph(walk.manifest, states)
    bases = merge_bases(found, left, right)
    assert names(bases) == model.merge_bases(left.graph_commit_id, right.graph_commit_id)
    for base in bases:
        assert base == model.commits[base.graph_commit_id], "its depth is right too"
        assert is_ancestor(found, base.graph_commit_id, left.graph_commit_id)
    missing = names(unknown_records(found, right, states[0]))
    known = walk.manifest.commits(states[0]).keys()
    assert set(missing) == model.ancestors(right.graph_commit_id) - known
