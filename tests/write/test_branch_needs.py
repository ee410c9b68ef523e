"""Which branches a merge base needs: random histories, judged by every pair of branches naively."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest

import omnigraph
from omnigraph.errors import BranchInUse
from omnigraph.manifest.history.ancestry import CommitGraph, unknown_records
from omnigraph.manifest.publisher import Intent, ManifestChanges, publish
from omnigraph.manifest.rows import GraphCommit
from tests.manifest.dag_model import History
from tests.manifest.publishing import intent, new_graph
from tests.opened import workspace_of

STEPS = 26
SEEDS = range(3)


@dataclass
class Busy:
    """A graph in which branches come, commit, merge and go; its commits move no table."""

    graph: object
    chance: random.Random
    made: list[GraphCommit]
    parents: dict[str, str | None] = field(default_factory=lambda: {"main": None})
    refused: int = 0
    deleted: int = 0

    @property
    def manifest(self):
        return workspace_of(self.graph).manifest

    def head(self, branch: str) -> GraphCommit:
        return self.manifest.state(branch).head.commit

    def publish(self, branch: str, wanted: Intent, adopted: tuple[GraphCommit, ...] = ()) -> None:
        identifier = self.manifest.state(branch).identifier
        changes = ManifestChanges(adopted=adopted)
        made = publish(
            self.manifest, branch, changes, (), wanted, identifier=identifier, unchecked=True
        )
        self.made.append(made)

    def create(self) -> None:
        source = self.chance.choice(["main", "main", *self.parents])
        name = f"b{len(self.made):02}-{len(self.parents)}"
        if name not in self.parents:
            self.graph.branches.create(name, from_=source)
            self.parents[name] = source

    def merge(self) -> None:
        source, target = (self.chance.choice(list(self.parents)) for _ in range(2))
        theirs, ours = self.manifest.state(source), self.manifest.state(target)
        if self.head(source) == self.head(target):
            return
        outcome = self.chance.choice(["merged", "merged", "merged", "fast_forward"])
        wanted = replace(
            intent(operation="branch_merge"),
            merged_parent_commit_id=self.head(source).graph_commit_id,
            facts={"merge": {"outcome": outcome}},
        )
        found = CommitGraph(self.manifest, [theirs, ours])
        self.publish(target, wanted, unknown_records(found, theirs.head.commit, ours))

    def commit(self) -> None:
        branch = self.chance.choice(list(self.parents))
        self.publish(branch, intent(operation=self.chance.choice(["load", "load", "optimize"])))

    def delete(self) -> None:
        """Delete a branch that no other was made from, or be refused for the right one."""
        leaves = sorted(set(self.parents) - set(self.parents.values()) - {"main"})
        if not leaves:
            return
        doomed = self.chance.choice(leaves)
        by = self.needed_by(doomed)
        if by is None:
            self.graph.branches.delete(doomed)
            del self.parents[doomed]
            self.deleted += 1
            return
        with pytest.raises(BranchInUse) as refusal:
            self.graph.branches.delete(doomed)
        assert refusal.value.details == {"branch": doomed, "by": by}
        self.refused += 1

    def needed_by(self, doomed: str) -> str | None:
        history = History(self.made)
        others = [name for name in self.graph.branches.list() if name != doomed]
        for first, second in combinations(others, 2):
            heads = (self.head(name).graph_commit_id for name in (first, second))
            for base in history.merge_bases(*heads):
                equal = (history.commits[name] for name in history.equals(base))
                if not any((one.branch or "main") in others for one in equal):
                    return second
        return None


def test_the_rule_of_merge_bases_is_that_of_every_pair(tmp_path):
    refused = deleted = 0
    for seed in SEEDS:
        with new_graph(tmp_path / str(seed)) as graph:
            busy = Busy(graph, random.Random(seed), list(graph.commits.list()))
            acts = [busy.create, *[busy.commit] * 3, *[busy.merge] * 5, busy.delete]
            for _ in range(5):
                busy.create()
                busy.commit()
            for _ in range(STEPS):
                busy.chance.choice(acts)()
            for _ in range(len(busy.parents)):
                busy.delete()
        refused += busy.refused
        deleted += busy.deleted
    assert (refused > 2, deleted > 2) == (True, True), (refused, deleted)


def test_branches_that_hold_the_bases_of_each_other_go_once_one_is_merged(tmp_path):
    with omnigraph.init(tmp_path / "g", "node P { k: String @key }") as graph:
        for name in ("one", "two"):
            graph.branches.create(name)
        for name in ("main", "one", "two"):
            graph.mutate(f'insert P {{ k: "{name}" }}', branch=name)
        # `main` and each of the two share a commit of `one` and a commit of `two`.
        for source, into in (("one", "main"), ("two", "main"), ("one", "two"), ("two", "one")):
            graph.branches.merge(source, into)
        for name, other in (("one", "two"), ("two", "one")):
            with pytest.raises(BranchInUse) as refusal:
                graph.branches.delete(name)
            assert refusal.value.details == {"branch": name, "by": other}
        graph.branches.merge("one", "main")
        for name in ("one", "two"):
            graph.branches.delete(name)
        assert graph.branches.list() == ["main"]
