"""What all kinds of random histories share: how rules are chosen, and rules that know nothing of rows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from tests.histories.model import MAINTENANCE, Branch, Commit
from tests.histories.steps import RAN, Steps

Rule = TypeVar("Rule", bound=Callable[..., None])
When = Callable[[Any], object]


class Rules:
    """The rules of one kind of histories: how often each is chosen beside the others, and when it can be."""

    def __init__(self) -> None:
        self.weights: dict[str, int] = {}
        self.conditions: dict[str, When] = {}

    def action(self, weight: int, when: When = lambda _: True) -> Callable[[Rule], Rule]:
        """Make a method a rule."""

        def add(method: Rule) -> Rule:
            self.weights[method.__name__] = weight
            self.conditions[method.__name__] = when
            return method

        return add

    def choose(self, history: Any, rnd: Random) -> str:
        """The name of a rule that the history can follow now."""
        can = [name for name in self.weights if self.conditions[name](history)]
        (name,) = rnd.choices(can, [self.weights[one] for one in can])
        return name

    def run_often(self, times: int) -> bool:
        """Whether every rule has run so many times."""
        return all(RAN[name] >= times for name in self.weights)

    @property
    def steps(self) -> int:
        """How many steps all histories of this process have made."""
        return sum(RAN[name] for name in self.weights)


def several(history: Any) -> bool:
    """Whether there is more than one branch."""
    return len(history.model.branches) > 1


class SharedRules(Steps):
    """Rules that are the same whatever a commit holds."""

    def two(self, rnd: Random) -> tuple[Branch, Branch]:
        one, other = rnd.sample(sorted(self.model.branches), 2)
        return self.model.branches[one], self.model.branches[other]

    def delete_any(self, rnd: Random) -> None:
        """Delete a branch, or learn why not."""
        name = rnd.choice(sorted(set(self.model.branches) - {"main"}))
        self.delete_one(self.model.branches[name])

    def maintain_any(self, rnd: Random) -> None:
        """Compact a branch or build its indexes: nothing changes."""
        branch = self.choose_branch(rnd)
        if rnd.random() < 0.5:
            self.graph.optimize(branch.name)
        else:
            self.graph.ensure_indices(branch=branch.name)
        if self.graph.snapshot(branch=branch.name).graph_commit_id != branch.head.id:
            self.advance(branch, branch.head.content)
            assert branch.head.operation in MAINTENANCE

    def reclaim(self, keep_versions: int) -> None:
        """Remove old versions: from now on only heads and tags are readable for certain."""
        rows = self.graph.cleanup(keep_versions=keep_versions)
        assert all(row.error is None for row in rows)
        assert all(reasons for row in rows for reasons in row.why_kept.values())
        kept = self.kept()
        for commit in self.model.commits:
            commit.may_be_reclaimed = commit.may_be_reclaimed or commit not in kept

    def kept(self) -> set[Commit]:
        """The commits that everybody can read: heads, and what tags name."""
        heads = {branch.head for branch in self.model.branches.values()}
        return heads | set(self.model.tags.values())
