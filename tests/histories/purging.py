"""Purges in histories: what they remove, who stops them, which commits are lost by them, and what history tells then."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from omnigraph.errors import CommitNotFound, EntityNotFound, HistoryReclaimed, PurgeBlocked
from tests.histories.model import (
    Branch,
    Commit,
    Content,
    Fact,
    Key,
    concerns,
    facts_of,
    had,
    image_at,
    merge_bases,
    purged_by,
    walk,
)
from tests.histories.rules import SharedRules
from tests.histories.steps import RAN

NOWHERE = [("node:Person", "nobody"), ("node:Place", "nowhere"), ("edge:Knows", "none")]


class Purges(SharedRules):
    """The steps of purges, and of asking for the history of an entity."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: set[Fact] = set()
        self.told = 0
        self.may_have_lost = False

    def tried(self, rows: Content) -> None:
        """Say that files may have rows which no commit has: of a write that fails."""
        self.facts |= facts_of(rows)

    def reclaim(self, keep_versions: int) -> None:
        super().reclaim(keep_versions)
        self.may_have_lost = True

    def purge_some(self, rnd: Random) -> None:
        """Purge some entities; if something keeps them, follow the advice now and then until nothing does."""
        named = self._named(rnd)
        if self._purge(rnd, named) or rnd.random() < 0.4:
            return
        while not self._purge(rnd, named):
            if not self._make_way(rnd):
                RAN["purge: no way"] += 1
                return

    def _named(self, rnd: Random) -> set[Key]:
        """Some entities that are on a branch, were once, or are nowhere."""
        named = set(rnd.sample(NOWHERE, rnd.choice([0, 0, 1, 2])))
        contents = [branch.head.content for branch in self.model.branches.values()]
        if rnd.random() < 0.4:
            contents = [commit.content for commit in self.model.commits]
        kind = rnd.choice(["node:", "node:", "node:", "edge:"])
        keys = sorted({key for content in contents for key in content if key[0].startswith(kind)})
        named |= set(rnd.sample(keys, min(rnd.choice([1, 1, 2]), len(keys))))
        return named or {NOWHERE[0]}

    # -- one purge

    def _purge(self, rnd: Random, named: set[Key]) -> bool:
        """Purge, or be refused: then nothing has changed."""
        certain, possible = self._held(named)
        entities: dict[str, list[str]] = {}
        for table_key, row_id in sorted(named):
            name = rnd.choice([table_key, table_key.partition(":")[2]])
            entities.setdefault(name, []).append(row_id)
        planned = self.graph.purge(entities, dry_run=True) if rnd.random() < 0.3 else None
        try:
            report = self.graph.purge(entities)
        except PurgeBlocked as refused:
            RAN["purge refused"] += 1
            self.obstacles = refused.details["obstacles"]
            self._check_refusal(certain, possible)
            if planned is not None:
                assert [one.to_json() for one in planned.obstacles] == self.obstacles
            return False
        keepers = self._keepers(certain)
        assert not keepers, f"{keepers} keep what was purged"
        if planned is not None:
            assert (planned.purged, planned.not_found) == (report.purged, report.not_found)
            assert not planned.obstacles
        for name in {key[0] for key in possible}:
            counted = report.purged.get(name.partition(":")[2], 0)
            bounds = [sum(key[0] == name for key in keys) for keys in (certain, possible)]
            assert bounds[0] <= counted <= bounds[1]
        assert len(named - possible) <= report.not_found <= len(named - certain)
        self._take_over(report, named, certain, possible)
        if planned is not None:
            for commit in self.model.commits:
                assert not (commit.is_purged and commit.must_be_readable)
        RAN["purged"] += bool(certain)
        self._look_around(rnd, named, certain)
        return True

    def _held(self, named: set[Key]) -> tuple[set[Key], set[Key]]:
        """What a purge removes for certain, and what it may remove besides: files keep more than commits show."""
        for commit in self.model.commits[self.told :]:
            self.facts |= facts_of(commit.content)
        self.told = len(self.model.commits)
        kept = self.kept()
        certain: set[Key] = set()
        for commit in self.model.commits:
            if commit.must_be_readable or commit in kept:
                certain |= purged_by(facts_of(commit.content), named)
        possible = purged_by(self.facts, named)
        assert certain <= possible
        return certain, possible

    def _bases(self) -> dict[str, Commit]:
        """What a merge of any two branches reads, by the name of one that is not `main`."""
        branches = sorted(self.model.branches.values(), key=lambda one: one.name == "main")
        return {
            f"{one.name}..{other.name}": merge_bases(one.head, other.head)[0]
            for at, one in enumerate(branches)
            for other in branches[at + 1 :]
        }

    def _keepers(self, keys: set[Key]) -> set[tuple[str, str]]:
        """The tags and branches that keep one of some entities for certain."""
        tags = {
            ("tag", name)
            for name, commit in self.model.tags.items()
            if not keys.isdisjoint(commit.content)
        }
        branches = {
            ("branch", pair.partition("..")[0])
            for pair, base in self._bases().items()
            if not keys.isdisjoint(base.content)
        }
        return tags | branches

    def _may_be_kept(self, possible: set[Key]) -> bool:
        """Whether files of a state that somebody needs may have an entity."""
        needed = {*self.model.tags.values(), *self._bases().values()}
        if not needed:
            return False
        heads = [one.head for one in self.model.branches.values()]
        # Entries of indexes whose rows a cleanup removed may be of anybody.
        return self.may_have_lost or any(had(commit, possible) for commit in (*needed, *heads))

    def _check_refusal(self, certain: set[Key], possible: set[Key]) -> None:
        assert self._may_be_kept(possible), self.obstacles
        told = {(one["kind"], one["name"]) for one in self.obstacles}
        assert self._keepers(certain) <= told
        assert {kind for kind, _ in told} <= {"tag", "branch"}
        assert {name for kind, name in told if kind == "tag"} <= self.model.tags.keys()
        assert {name for kind, name in told if kind == "branch"} <= self.model.branches.keys()
        for branch in self.model.branches.values():
            self.check_branch(branch)

    def _take_over(
        self, report: Any, named: set[Key], certain: set[Key], possible: set[Key]
    ) -> None:
        """Compare all heads, and take over their commits and which states are gone."""
        moved, gone, left = [], set(certain), {}
        for branch in self.model.branches.values():
            left[branch.name] = self.content(branch=branch.name)
            gone |= branch.head.content.keys() - left[branch.name].keys()
        assert gone <= possible
        for commit in self.model.commits:
            if not gone.isdisjoint(commit.content):
                commit.is_purged = commit.may_be_reclaimed = True
        lost = [one for one in self.model.commits if self.may_have_lost or had(one, possible)]
        for branch in self.model.branches.values():
            before = branch.head
            wanted = {key: row for key, row in before.content.items() if key not in gone}
            assert left[branch.name] == wanted
            if self.graph.snapshot(branch=branch.name).graph_commit_id == before.id:
                assert wanted == before.content
                continue
            self.advance(branch, wanted)
            assert branch.head.first is before
            assert branch.head.operation == "purge"
            moved.append(branch.head.id)
            assert self.may_have_lost or had(before, possible)
        assert sorted(report.commits) == sorted(moved)
        kept = self.kept()
        for commit in lost:
            commit.may_be_reclaimed = commit.may_be_reclaimed or commit not in kept
        self.facts = {one for one in self.facts if one[0] not in gone and not concerns(one, named)}
        self.may_have_lost = self.may_have_lost or bool(moved or report.versions_removed)

    def _look_around(self, rnd: Random, named: set[Key], gone: set[Key]) -> None:
        """Look at states of the past, and ask for the history of what is gone and of what is left."""
        for commit in self._some(rnd, [one for one in self.model.commits if one.is_purged]):
            with pytest.raises((HistoryReclaimed, CommitNotFound)):
                self.content(snapshot=commit.id)
        for commit in self._some(rnd, [one for one in self.model.commits if one.must_be_readable]):
            assert self.content(snapshot=commit.id) == commit.content
        branch = self.choose_branch(rnd)
        for table_key, row_id in self._some(rnd, sorted(named | gone)):
            with pytest.raises(EntityNotFound):
                self.graph.history(*table_key.split(":"), row_id, branch=branch.name)
        for key in self._some(rnd, sorted(branch.head.content)):
            self.check_history(branch, key)

    @staticmethod
    def _some(rnd: Random, several: Iterable[Any]) -> list[Any]:
        listed = list(several)
        return rnd.sample(listed, min(2, len(listed)))

    def _make_way(self, rnd: Random) -> bool:
        """Merge or delete what stood in the way of the last purge; whether that did anything."""
        main, done = self.model.branches["main"], False
        for one in self.obstacles:
            kind, name = one["kind"], one["name"]
            if kind == "tag" and name in self.model.tags:
                self.graph.tags.delete(name)
                del self.model.tags[name]
                done = True
            elif kind == "branch" and name != "main" and name in self.model.branches:
                branch = self.model.branches[name]
                if rnd.random() < 0.5:
                    self.merge_one(rnd, branch, main)
                done = self.delete_one(branch) or done
        return done or self._make_more_way()

    def _make_more_way(self) -> bool:
        """Delete what needs the branches that stand in the way: tags, and other branches."""
        if self.model.tags:
            for name in self.model.tags:
                self.graph.tags.delete(name)
            self.model.tags.clear()
            return True
        others = [one for name, one in self.model.branches.items() if name != "main"]
        assert others, f"nothing can keep it, but {self.obstacles} do"
        return any(self.delete_one(one) for one in reversed(others))

    # -- history

    def check_history(self, branch: Branch, key: Key) -> None:
        """Compare history and blame of an entity with a walk over all commits."""
        kind, name = key[0].split(":")
        changes, is_sure = walk(branch.head, key)
        try:
            page = self.graph.history(kind, name, key[1], branch=branch.name)
        except EntityNotFound:
            assert key not in branch.head.content
            assert not changes or not is_sure
            return
        known = {commit.id: commit for commit in self.model.commits}
        told = [known[one.graph_commit_id] for one in page.entries]
        assert page.complete
        if is_sure:
            RAN["history known for certain"] += 1
            assert set(told) == set(changes)
        for commit, one in zip(told, page.entries, strict=True):
            assert flat(one.after) == image_at(commit, key)
            if one.reclaimed is None and one.via is None:
                parents = [image_at(parent, key) for parent in commit.parents]
                assert flat(one.after) not in parents
                assert flat(one.before) == next((image for image in parents if image), None)
        if key not in branch.head.content:
            return
        blame = self.graph.blame(kind, name, key[1], branch=branch.name)
        values = {each: given["value"] for each, given in blame.properties.items()}
        image = branch.head.content[key]
        assert values == {each: image[each] for each in values}
        assert values.keys() == image.keys() - {"from", "to"}
        for each, given in blame.properties.items():
            commit = known[given["graph_commit_id"]]
            assert commit.content[key].get(each) == values[each]
            if given.get("reclaimed") is None and given.get("via") is None:
                parents = [one.content[key] for one in commit.parents if key in one.content]
                assert all(one.get(each) != values[each] or each not in one for one in parents)


def flat(image: Any) -> Any:
    """An image of a history, as the model has it."""
    if image is None:
        return None
    parts = {**(image.get("endpoints") or {}), **image["properties"]}
    return {name: value for name, value in parts.items() if value is not None}
