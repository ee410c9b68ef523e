"""Random histories of one graph beside the model: every step must leave both alike.

Each rule does one thing to the graph and to the model, and compares what the graph tells with what the model
says. Refusals are predicted too, as far as they follow from history and not from files.
"""

from __future__ import annotations

import shutil
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis import target
from hypothesis.stateful import RuleBasedStateMachine, rule

import omnigraph
from omnigraph import failpoints
from omnigraph.errors import CommitNotFound, HistoryReclaimed, MergeConflicts
from tests.histories.model import (
    ONE_AT_A_TIME,
    Branch,
    Commit,
    ancestors,
    crowded,
    ended,
    equal_by_construction,
    first_parents,
    merge_bases,
    net_changes,
    successor,
    three_way,
)
from tests.histories.plain import (
    DAYS,
    KEYS,
    MUTATIONS,
    PERSONS,
    as_record,
    at_home,
    conflicts_of,
    images_of,
    is_loose,
    random_mutation,
    random_rows,
    schema,
)
from tests.histories.purging import Purges
from tests.histories.rules import Rules, several
from tests.histories.steps import MAX_BRANCHES, RAN

RULES = Rules()
action = RULES.action


class History(Purges, RuleBasedStateMachine):
    """One graph, from its making on."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        Purges.__init__(self)

    @rule(number=st.integers(0, 2**64 - 1))
    def step(self, number: int) -> None:
        """Do one of the things below.

        Hypothesis itself would leave out most of them in a history, and likes the number 0.
        """
        self.steps += 1
        rnd = Random(f"{number} at {self.steps}")
        name = RULES.choose(self, rnd)
        self.ran(name)
        getattr(self, name)(rnd)

    def teardown(self) -> None:
        failpoints.disarm_all()
        target(float(self.most_branches), label="branches")
        target(float(self.most_bases), label="bases of one merge")
        try:
            for branch in self.model.branches.values():
                self.check_branch(branch)
        finally:
            self.graph.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    @action(7)
    def load(self, rnd: Random, branch: Branch | None = None) -> None:
        """Upsert some entities, on any branch if none is given."""
        branch = branch or self.choose_branch(rnd)
        rows = random_rows(rnd, branch.head.content, self.model.epoch)
        self.load_rows(branch, rows)
        self.advance(branch, {**branch.head.content, **rows})

    @action(3)
    def overwrite(self, rnd: Random) -> None:
        """Replace the tables of all types."""
        branch = self.choose_branch(rnd)
        rows = random_rows(rnd, {}, self.model.epoch)
        kept = {key: image for key, image in branch.head.content.items() if rnd.random() < 0.5}
        rows = {key: rows.get(key) or kept[key] for key in rows.keys() | kept.keys()}
        rows = {key: image for key, image in rows.items() if not is_loose(key, image, rows)}
        # Every table is named, so that none keeps rows by being left out.
        touched = {key[0] for key in rows}
        if touched != {"node:Person", "node:Place", "edge:Knows", "edge:LivesIn"} or crowded(rows):
            return
        records = [as_record(key, image) for key, image in rows.items()]
        self.graph.load(records, mode="overwrite", branch=branch.name)
        self.advance(branch, rows)

    @action(9)
    def mutate(self, rnd: Random) -> None:
        """Update or delete by a condition."""
        branch = self.choose_branch(rnd)
        name, params, content = random_mutation(rnd, branch.head.content)
        made = self.graph.mutate(MUTATIONS, name, params, branch=branch.name)
        if made.commit is None:
            assert content == branch.head.content
        else:
            self.advance(branch, content)

    @action(5)
    def end(self, rnd: Random) -> None:
        """End what holds on a day, chosen by a condition or by a match."""
        branch = self.choose_branch(rnd)
        name, day = rnd.choice(at_home(branch.head.content) or PERSONS), rnd.choice(DAYS)
        changed = ended(branch.head.content, name, day)
        query = rnd.choice(["end_homes", "end_held"])
        made = self.graph.mutate(MUTATIONS, query, {"name": name, "day": day}, branch=branch.name)
        assert made.affected_edges == len(changed)
        if not changed:
            assert made.commit is None
            return
        RAN["ended"] += 1
        self.advance(branch, {**branch.head.content, **changed})

    @action(7)
    def assert_(self, rnd: Random) -> None:
        """Assert where a person lives from a day on, or what is said already."""
        branch = self.choose_branch(rnd)
        before = branch.head.content
        people, places = (sorted(key[1] for key in before if key[0] == kind) for kind in KEYS)
        if not people or not places:
            return
        known = at_home(before) if rnd.random() < 0.7 else []
        name, code, day = rnd.choice(known or people), rnd.choice(places), rnd.choice(DAYS)
        new = successor(before, name, code, day)
        params = {"name": name, "code": code, "day": day}
        made = self.graph.mutate(MUTATIONS, "move", params, branch=branch.name)
        if new is None:
            assert made.commit is None
            return
        changed = ended(before, name, day)
        assert made.affected_edges == 1 + len(changed)
        RAN["asserted with rivals"] += bool(changed)
        (key,) = self.content(branch=branch.name).keys() - before.keys()
        assert key[0] == ONE_AT_A_TIME
        self.advance(branch, {**before, **changed, key: new})

    @action(5, when=lambda self: len(self.model.branches) < MAX_BRANCHES)
    def branch(self, rnd: Random) -> None:
        """Make a branch at a head."""
        source = self.choose_branch(rnd)
        if source.head.is_fast_forward or source.head in self.merged_by_fast_forward():
            RAN["shape: child of a fast-forwarded branch"] += 1
        self.make_branch(source.home, source.head, source.name)

    @action(2, when=lambda self: len(self.model.branches) < MAX_BRANCHES)
    def branch_from_the_past(self, rnd: Random) -> None:
        """Make a branch at a commit that is readable for certain."""
        commits = [
            one
            for one in self.model.commits
            if one.must_be_readable and one.epoch == self.model.epoch
        ]
        if commits:
            commit = rnd.choice(commits)
            self.make_branch(commit.home, commit, omnigraph.at(snapshot=commit.id))

    @action(4, when=several)
    def delete_branch(self, rnd: Random) -> None:
        """Delete a branch, or learn why not."""
        self.delete_any(rnd)

    @action(5)
    def tag(self, rnd: Random) -> None:
        """Name a commit that is readable for certain."""
        commits = [one for one in self.model.commits if one.must_be_readable]
        name = f"t{rnd.randrange(6)}"
        if not commits or name in self.model.tags:
            return
        commit = rnd.choice(commits)
        made = self.graph.tags.create(name, at=omnigraph.at(snapshot=commit.id))
        assert made.graph_commit_id == commit.id
        self.model.tags[name] = commit
        assert [one.name for one in self.graph.tags.list()] == sorted(self.model.tags)

    @action(5, when=lambda self: self.model.tags)
    def untag(self, rnd: Random) -> None:
        """Delete a tag."""
        name = rnd.choice(sorted(self.model.tags))
        assert self.content(tag=name) == self.model.tags[name].content
        self.graph.tags.delete(name)
        del self.model.tags[name]

    @action(9, when=several)
    def merge(self, rnd: Random) -> None:
        """Merge one branch into another, in every form, after a dry run."""
        self.merge_one(rnd, *self.two(rnd))

    @action(3, when=lambda self: 2 <= len(self.model.branches) <= MAX_BRANCHES - 2)
    def criss_cross(self, rnd: Random) -> None:
        """Merge two branches into children of each other, so that two bases are equally good."""
        one, other = self.two(rnd)
        for branch in (one, other):
            self.load(rnd, branch)
        left = self.make_branch(one.home, one.head, one.name)
        right = self.make_branch(other.home, other.head, other.name)
        self.merge_one(rnd, other, left)
        self.merge_one(rnd, one, right)
        self.merge_one(rnd, left, right)

    @action(3, when=lambda self: len(self.model.branches) <= MAX_BRANCHES - 3)
    def lose_a_base(self, rnd: Random) -> None:
        """Bring one commit into two branches, delete its branch, and merge the two."""
        origin = self.choose_branch(rnd)
        one, other, made = (
            self.make_branch(origin.home, origin.head, origin.name) for _ in range(3)
        )
        self.load(rnd, made)
        for into in (one, other):
            self.merge_one(rnd, made, into)
        if self.delete_one(made):
            self.load(rnd, one)
            self.load(rnd, other)
            self.merge_one(rnd, one, other)

    @action(4)
    def revert(self, rnd: Random) -> None:
        """Undo a commit of a branch."""
        branch = self.choose_branch(rnd)
        commits = sorted(
            (one for one in ancestors(branch.head) if one.parents), key=lambda one: one.id
        )
        if not commits:
            return
        commit = rnd.choice(commits)
        known = self.model.commits
        certain = all(
            any(each.must_be_readable for each in equal_by_construction(known, one))
            for one in (commit, commit.first)
        )
        by_property = rnd.random() < 0.4
        resolve = rnd.choice([None, "ours", "theirs"])
        options: dict[str, Any] = {
            "granularity": "property" if by_property else "entity",
            "resolve": resolve,
        }
        sides = (commit.content, commit.first.content, branch.head.content)
        if self.crosses_a_schema_change(commit, branch):
            return  # the model knows rows, and not how schemas are merged
        expected = three_way(*sides, by_property=by_property, resolve=resolve)
        try:
            done = self.graph.commits.revert(commit.id, branch=branch.name, **options)
        except HistoryReclaimed:
            assert not certain
            return
        except MergeConflicts as refused:
            assert conflicts_of(refused.details["conflicts"]) == expected.conflicts
            self.check_branch(branch)
            return
        assert not expected.conflicts
        if done.commit is None:
            assert done.outcome == "nothing_to_revert"
            assert expected.content == branch.head.content
            self.check_branch(branch)
            return
        RAN["reverted"] += 1
        assert done.outcome == "reverted"
        assert expected.content != branch.head.content
        self.advance(branch, expected.content)

    def crosses_a_schema_change(self, commit: Commit, branch: Branch) -> bool:
        """Whether the commit changed the schema, or rows of a type that has other properties now."""
        if commit.epoch != commit.first.epoch:
            return True
        touched = {key[0] for key in net_changes(commit.first.content, commit.content)}
        return commit.epoch != branch.head.epoch and "node:Place" in touched

    @action(3)
    def travel(self, rnd: Random) -> None:
        """Read a commit by its id, by its time, and by a version of its branch."""
        commit = rnd.choice(self.model.commits)
        try:
            found = self.content(snapshot=commit.id)
        except (HistoryReclaimed, CommitNotFound):
            assert not commit.must_be_readable
            return
        assert commit.home.is_alive
        assert not commit.is_purged
        assert found == commit.content
        branch = self.choose_branch(rnd)
        wanted = next(
            (one for one in first_parents(branch.head) if one.created_at <= commit.created_at), None
        )
        if wanted is None:
            return
        moment = self.graph.commits.show(commit.id).created_at
        try:
            seen = self.graph.snapshot(branch=branch.name, time=moment)
        except HistoryReclaimed:
            assert not wanted.must_be_readable
        else:
            assert seen.graph_commit_id == wanted.id

    @action(3)
    def diff(self, rnd: Random) -> None:
        """Compare two commits, or one with its parent."""
        one, other = rnd.choice(self.model.commits), rnd.choice(self.model.commits)
        try:
            found = self.graph.diff(
                omnigraph.at(snapshot=one.id), omnigraph.at(snapshot=other.id)
            ).changes
        except (HistoryReclaimed, CommitNotFound):
            assert not (one.must_be_readable and other.must_be_readable)
            return
        assert images_of(found) == net_changes(one.content, other.content)

    @action(3)
    def maintain(self, rnd: Random) -> None:
        """Compact a branch or build its indexes: nothing changes."""
        self.maintain_any(rnd)

    @action(3)
    def cleanup(self, rnd: Random) -> None:
        """Remove old versions: heads, tags and merge bases stay."""
        self.reclaim(rnd.choice([1, 1, 2, 5]))
        for branch in self.model.branches.values():
            self.check_branch(branch)
        for name, commit in self.model.tags.items():
            assert self.content(tag=name) == commit.content

    @action(4)
    def purge(self, rnd: Random) -> None:
        """Purge entities for good, or learn who keeps them; sometimes make the way free then."""
        self.purge_some(rnd)

    @action(3)
    def history(self, rnd: Random) -> None:
        """Ask who changed an entity, and whose its values are."""
        branch = self.choose_branch(rnd)
        commit = rnd.choice(sorted(ancestors(branch.head), key=lambda one: one.id))
        keys = sorted(commit.content) or [("node:Person", PERSONS[0])]
        self.check_history(branch, rnd.choice(keys))

    @action(3)
    def crash(self, rnd: Random) -> None:
        """Die in the middle of a write, and open the graph again."""
        branch = self.choose_branch(rnd)
        before = branch.head.content
        rows = random_rows(rnd, before, self.model.epoch)
        after = {**before, **rows}
        self.tried(rows)
        self.die(rnd, "load", lambda: self.load_rows(branch, rows))
        self.settle(branch, before, after)

    @action(3, when=several)
    def crash_in_merge(self, rnd: Random) -> None:
        """Die in the middle of a merge, and open the graph again."""
        source, into = self.two(rnd)
        base = merge_bases(source.head, into.head)[0]
        sides = (base.content, source.head.content, into.head.content)
        expected = three_way(*sides, by_property=False, resolve="theirs")
        self.tried(expected.content)
        self.die(
            rnd,
            "branch_merge",
            lambda: self.graph.branches.merge(source.name, into.name, resolve="theirs"),
        )
        self.settle(into, into.head.content, expected.content)

    @action(2)
    def reopen(self, _rnd: Random) -> None:
        """Go on with another handle."""
        self.open_again()
        for branch in self.model.branches.values():
            self.check_branch(branch)

    @action(2, when=lambda self: self.model.epoch < 3)
    def new_schema(self, rnd: Random) -> None:
        """Merge or delete all branches, change the schema, and branch again.

        Branches that hold the bases of each other's merges cannot be deleted until one is merged, and a merge may
        be in conflict: then the schema stays as it is.
        """
        main = self.model.branches["main"]
        for name in [n for n, one in self.model.tags.items() if one.home is not main.home]:
            self.graph.tags.delete(name)
            del self.model.tags[name]
        while len(self.model.branches) > 1:
            others = [one for name, one in self.model.branches.items() if name != "main"]
            if rnd.random() < 0.5:
                self.merge_one(rnd, rnd.choice(others), main)
            deleted = [self.delete_one(one) for one in reversed(others)]
            if not any(deleted):
                assert len(others) > 1, f"{others[0].name} is the only one and cannot be deleted"
                RAN["no branch could be deleted"] += 1
                return
        self.model.epoch += 1
        applied = self.graph.schema.apply(schema(self.model.epoch))
        assert applied.commit is not None
        extra = {f"extra{self.model.epoch - 1}": None}
        content = {
            key: {**image, **extra} if key[0] == "node:Place" else image
            for key, image in main.head.content.items()
        }
        self.advance(main, content)
        self.make_branch(main.home, main.head, "main")
