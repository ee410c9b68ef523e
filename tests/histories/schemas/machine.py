"""Random histories of one graph whose branches have schemas of their own, beside a plain model.

Each rule does one thing to the graph and to the model, and compares what the graph tells with what the model
says: rows, schemas, conflicts and refusals.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from random import Random
from typing import Any

import omnigraph
from omnigraph import failpoints
from omnigraph.errors import (
    CommitNotFound,
    HistoryReclaimed,
    MergeConflicts,
    SchemaBoundary,
)
from tests.histories.model import (
    Branch,
    ancestors,
    equal_by_construction,
    merge_bases,
)
from tests.histories.rules import Rules, several
from tests.histories.schemas.edits import (
    Edit,
    after_edit,
    new_property,
    random_edit,
    random_rows,
    try_edit,
    without_node,
)
from tests.histories.schemas.hard_drops import HardDrops
from tests.histories.schemas.plain_changes import one_way
from tests.histories.schemas.plain_diff import changes_between
from tests.histories.schemas.plain_merge import merge_states
from tests.histories.schemas.plain_schema import (
    NUMBERS,
    Prop,
    State,
    Type,
    shown,
    text_of,
    violations,
)
from tests.histories.schemas.plain_schemas import Refused, Unsure
from tests.histories.schemas.steps import conflicts_of, mirrored

MAX_BRANCHES = 5
COLLIDING = [
    *("rename_property", "rename_property", "drop_property", "describe", "set_default"),
    *(
        "set_range",
        "set_check",
        "set_unique",
        "require_property",
        "relax_property",
        "widen_property",
    ),
    *("extend_enum", "shrink_enum", "rename_type", "drop_type", "set_cardinality"),
    *("change_embed", "change_embed"),
]
"""The changes that two branches make of one element."""
RULES = Rules()
action = RULES.action


def has_room(self: Any) -> bool:
    return len(self.model.branches) < MAX_BRANCHES


class SchemaHistory(HardDrops):
    """One graph, from its making on."""

    def step(self, rnd: Random) -> str:
        """Do one of the things below, and return its name."""
        self.steps += 1
        name = RULES.choose(self, rnd)
        self.ran(name)
        getattr(self, name)(rnd)
        return name

    def close(self) -> None:
        failpoints.disarm_all()
        self.graph.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # -- rows and schemas of one branch

    @action(6)
    def load(self, rnd: Random) -> None:
        """Write some entities."""
        self.load_some(rnd, self.choose_branch(rnd))

    @action(4)
    def delete(self, rnd: Random) -> None:
        """Delete a node, with its edges."""
        branch = self.choose_branch(rnd)
        state: State = branch.head.content
        nodes = [key for key in state.rows if state.schema.types[key[0]].kind == "node"]
        if nodes:
            number, row_id = rnd.choice(nodes)
            name = state.schema.types[number].name
            text = f"query q($k: String) {{ delete {name} where k = $k }}"
            self.graph.mutate(text, "q", {"k": row_id}, branch=branch.name)
            self.advance(branch, State(state.schema, without_node(state, (number, row_id))))

    @action(10)
    def apply(self, rnd: Random) -> None:
        """Change the schema of a branch."""
        self.apply_some(rnd, self.choose_branch(rnd))

    @action(4)
    def hand_a_name_over(self, rnd: Random) -> None:
        """Take a name away from a property, and give it to another one."""
        branch = self.choose_branch(rnd)
        edit = Edit(rnd, branch.head.content.schema)
        found = edit.pick_property(lambda _: True)
        if found is None:
            return
        number, each = found
        name = edit.types[number].props[each].name
        free = edit.free_name(number)
        if free is not None and rnd.random() < 0.5:
            edit.hints[each] = name
            edit.set(number, each, name=free)
        else:
            props = {n: p for n, p in edit.types[number].props.items() if n != each}
            edit.types[number] = replace(edit.types[number], props=props)
        if not edit.settle() or not self.apply_one(branch, edit):
            return
        edit = Edit(rnd, branch.head.content.schema)
        type_ = edit.types[number]
        prop = new_property(rnd, name, type_.kind)
        edit.types[number] = replace(type_, props={**type_.props, next(NUMBERS): prop})
        edit.settle()
        self.apply_one(branch, edit)
        self.load_some(rnd, branch)

    @action(5)
    def hard_drop(self, rnd: Random) -> None:
        """Drop something of `main` with all its history, or learn who needs it."""
        named = rnd.random() < 0.2
        self.drop_hard(rnd, self.choose_branch(rnd) if named else self.model.branches["main"])

    # -- branches and tags

    @action(6, when=has_room)
    def branch(self, rnd: Random) -> None:
        """Make a branch at a head."""
        source = self.choose_branch(rnd)
        self.make_branch(source.home, source.head, source.name)

    @action(4, when=has_room)
    def branch_from_the_past(self, rnd: Random) -> None:
        """Make a branch at an old commit, which may have another schema than any branch has."""
        commits = [one for one in self.model.commits if one.must_be_readable]
        if commits:
            commit = rnd.choice(commits)
            self.make_branch(commit.home, commit, omnigraph.at(snapshot=commit.id))

    @action(6, when=several)
    def delete_branch(self, rnd: Random) -> None:
        """Delete a branch, or learn why not."""
        self.delete_any(rnd)

    @action(4)
    def tag(self, rnd: Random) -> None:
        """Name a commit that is readable for certain."""
        commits = [one for one in self.model.commits if one.must_be_readable]
        name = f"t{rnd.randrange(4)}"
        if commits and name not in self.model.tags:
            commit = rnd.choice(commits)
            self.graph.tags.create(name, at=omnigraph.at(snapshot=commit.id))
            self.model.tags[name] = commit

    @action(7, when=lambda self: self.model.tags)
    def untag(self, rnd: Random) -> None:
        """Delete a tag."""
        name = rnd.choice(sorted(self.model.tags))
        self.check_at(self.model.tags[name], tag=name)
        self.graph.tags.delete(name)
        del self.model.tags[name]

    # -- merges and reverts

    @action(10, when=several)
    def merge(self, rnd: Random) -> None:
        """Merge one branch into another, in every form, after a dry run."""
        self.merge_one(rnd, *self.two(rnd))

    @action(20, when=lambda self: 2 <= len(self.model.branches) <= MAX_BRANCHES - 2)
    def merge_in_both_orders(self, rnd: Random) -> None:
        """Merge two branches into children of each other: both come to the same, and then cross."""
        one, other = self.two(rnd)
        if self.base_of(one, other).id in self.emptied:
            return
        for branch in (one, other):
            self.apply_some(rnd, branch) if rnd.random() < 0.7 else self.load_some(rnd, branch)
        sides = {
            branch: self.make_branch(branch.home, branch.head, branch.name)
            for branch in (one, other)
        }
        answers = []
        for source, into in ((other, sides[one]), (one, sides[other])):
            planned = self.graph.branches.merge(source.name, into.name, dry_run=True)
            answers.append(conflicts_of(planned.conflicts))
        assert answers[0] == mirrored(answers[1])
        self.merge_one(Random(1), other, sides[one])
        self.merge_one(Random(1), one, sides[other])
        left, right = (sides[branch].head.content for branch in (one, other))
        plain = merge_states(
            merge_bases(one.head, other.head)[0].content, one.head.content, other.head.content
        )
        if plain.state is not None and not plain.resolved_schema:
            names = (sides[one].name, sides[other].name)
            shown_ = [self.content(branch=name) for name in names]
            if self.merged_without_words(sides[one], sides[other]):
                assert shown_[0] == shown_[1]
                assert text_order_free(left) == text_order_free(right)
        self.merge_one(rnd, sides[one], sides[other])

    def merged_without_words(self, *branches: Branch) -> bool:
        return all(branch.head.effective.operation == "branch_merge" for branch in branches)

    @action(7, when=several)
    def collide(self, rnd: Random) -> None:
        """Change the same on two branches, in different ways, and merge."""
        one, other = self.two(rnd)
        schemas = [branch.head.content.schema for branch in (one, other)]
        both = [
            (number, each)
            for number in sorted(schemas[0].types.keys() & schemas[1].types.keys())
            for each, prop in schemas[0].types[number].props.items()
            if each in schemas[1].types[number].props and not prop.is_key
            if prop.follows is None
        ]
        if not both:
            return
        only = rnd.choice(both)
        ways = rnd.sample(COLLIDING, len(COLLIDING))
        for branch in (one, other):
            edit = Edit(rnd, branch.head.content.schema, only=only)
            if any(try_edit(edit, name) for name in ways):
                self.apply_one(branch, edit)
            if rnd.random() < 0.5:
                rnd.shuffle(ways)
        if rnd.random() < 0.5:
            self.load_some(rnd, rnd.choice((one, other)))
        self.merge_one(rnd, one, other)

    @action(5, when=several)
    def join(self, rnd: Random) -> None:
        """Add the same to two branches, fill it on both, and merge."""
        one, other = self.two(rnd)
        if rnd.random() < 0.4:
            added = Type("node", rnd.choice("CD"), {})
            props = [
                Prop("k", "String", nullable=False, is_key=True),
                new_property(rnd, "a", "node"),
            ]
            given = new_property(rnd, "o", "interface") if rnd.random() < 0.5 else None
            for branch in (one, other):
                edit = Edit(rnd, branch.head.content.schema)
                if added.name in {type_.name for type_ in edit.types.values()}:
                    return
                implements = self.add_interface(edit, given)
                edit.types[next(NUMBERS)] = replace(
                    added, props={next(NUMBERS): prop for prop in props}, implements=implements
                )
                edit.settle()
                assert self.apply_one(branch, edit)
        else:
            schemas = [branch.head.content.schema for branch in (one, other)]
            both = sorted(schemas[0].types.keys() & schemas[1].types.keys())
            if not both:
                return
            number = rnd.choice(both)
            if any(each.types[number].kind == "interface" for each in schemas):
                return
            taken = {p.name for each in schemas for p in each.types[number].props.values()}
            free = [name for name in "abcde" if name not in taken]
            if not free:
                return
            prop = new_property(rnd, rnd.choice(free), "node")
            for branch in (one, other):
                edit = Edit(rnd, branch.head.content.schema)
                type_ = edit.types[number]
                edit.types[number] = replace(type_, props={**type_.props, next(NUMBERS): prop})
                assert self.apply_one(branch, edit)
        for branch in (one, other):
            self.load_some(rnd, branch)
        self.merge_one(rnd, one, other)

    @staticmethod
    def add_interface(edit: Edit, given: Prop | None) -> frozenset[int]:
        """Add an interface with one property, if there is none of its name."""
        if given is None or "J" in {type_.name for type_ in edit.types.values()}:
            return frozenset()
        number = next(NUMBERS)
        edit.types[number] = Type("interface", "J", {next(NUMBERS): given})
        return frozenset({number})

    @action(8)
    def revert(self, rnd: Random) -> None:
        """Undo a commit of a branch: of rows, of a schema, or a merge."""
        branch = self.choose_branch(rnd)
        commits = sorted(
            (one for one in ancestors(branch.head) if one.parents), key=lambda one: one.id
        )
        if not commits:
            return
        commit = rnd.choice(commits[-6:])
        certain = all(
            any(each.must_be_readable for each in equal_by_construction(self.model.commits, one))
            for one in (commit, commit.first)
        )
        refused = one_way(commit.first.content.schema, commit.content.schema)
        sides = (commit.content, commit.first.content, branch.head.content)
        resolve = rnd.choice([None, "ours", "theirs"])
        by_property = rnd.random() < 0.4
        options: dict[str, Any] = {
            "granularity": "property" if by_property else "entity",
            "resolve": resolve,
        }
        try:
            expected = merge_states(*sides, by_property=by_property, resolve=resolve)
        except Unsure:
            return
        try:
            done = self.graph.commits.revert(commit.id, branch=branch.name, **options)
        except HistoryReclaimed:
            assert not certain
            return
        except SchemaBoundary:
            assert refused in (True, None)
            self.ran("revert refused for its schema")
            self.check_branch(branch)
            return
        except MergeConflicts as conflicts:
            assert not refused
            assert conflicts_of(conflicts.details["conflicts"]) == expected.conflicts
            self.check_branch(branch)
            return
        assert not refused
        assert expected.state is not None
        if done.commit is None:
            assert done.outcome == "nothing_to_revert"
            assert shown(expected.state) == shown(branch.head.content)
            self.check_branch(branch)
            return
        assert done.outcome == "reverted"
        self.ran("reverted")
        if commit.content.schema.types != commit.first.content.schema.types:
            self.ran("reverted a schema change")
        self.advance(branch, expected.state)
        self.check_changes(branch.head.effective)

    # -- reading

    @action(4)
    def travel(self, rnd: Random) -> None:
        """Read a commit by its id."""
        commit = rnd.choice(self.model.commits)
        try:
            self.graph.snapshot(snapshot=commit.id)
        except (HistoryReclaimed, CommitNotFound):
            assert not commit.must_be_readable
            return
        try:
            self.check_at(commit, snapshot=commit.id)
        except HistoryReclaimed:
            assert not commit.must_be_readable

    @action(6)
    def diff(self, rnd: Random) -> None:
        """Compare two commits in both directions: what the candidates miss would be missing here."""
        commits = [one for one in self.model.commits if one.home.is_alive]
        one, other = rnd.choice(commits), rnd.choice(commits)
        for before, after in ((one, other), (other, one)):
            try:
                found = self.graph.diff(
                    omnigraph.at(snapshot=before.id), omnigraph.at(snapshot=after.id)
                ).changes
            except HistoryReclaimed:
                assert not (one.must_be_readable and other.must_be_readable)
                return
            expected = changes_between(before.content, after.content, self.current(after))
            self.check_diff(found, expected)

    # -- upkeep, crashes

    @action(4)
    def maintain(self, rnd: Random) -> None:
        """Compact a branch or build its indexes: nothing changes."""
        self.maintain_any(rnd)

    @action(4)
    def cleanup(self, rnd: Random) -> None:
        """Remove all that is not needed: heads, tags and merge bases stay."""
        self.reclaim(rnd.choice([1, 1, 1, 3]))
        self.check_all()

    @action(3)
    def crash_in_load(self, rnd: Random) -> None:
        """Die in the middle of a load, and open the graph again."""
        branch = self.choose_branch(rnd)
        before: State = branch.head.content
        written, rows = random_rows(rnd, before)
        self.die(rnd, "load", lambda: self.load_rows(branch, written))
        self.settle(branch, before, State(before.schema, rows))

    @action(4)
    def crash_in_apply(self, rnd: Random) -> None:
        """Die in the middle of an apply, and open the graph again."""
        branch = self.choose_branch(rnd)
        before: State = branch.head.content
        edit = random_edit(rnd, before.schema, self.deck)
        if edit is None:
            return
        after = after_edit(before, edit.schema)
        if violations(after.schema, after.rows):
            return
        text = text_of(after.schema, edit.hints)
        lost = bool(self.lost_vectors(before, after))
        self.die(
            rnd,
            "schema_apply",
            lambda: self.graph.schema.apply(text, branch=branch.name, allow_data_loss=lost),
        )
        self.settle(branch, before, after)

    @action(4, when=several)
    def crash_in_merge(self, rnd: Random) -> None:
        """Die in the middle of a merge, and open the graph again."""
        source, into = self.two(rnd)
        base = self.base_of(source, into)
        if base.id in self.emptied:
            return
        sides = (base.content, source.head.content, into.head.content)
        try:
            expected = merge_states(*sides, resolve="theirs", resolve_schema="ours")
        except (Refused, Unsure):
            return
        before: State = into.head.content
        self.die(
            rnd,
            "branch_merge",
            lambda: self.graph.branches.merge(
                source.name, into.name, resolve="theirs", resolve_schema="ours"
            ),
        )
        self.settle(into, before, expected.state or before)

    @action(3)
    def reopen(self, _rnd: Random) -> None:
        """Go on with another handle."""
        self.open_again()
        self.check_all()


def text_order_free(state: State) -> list[str]:
    """The lines of a schema in any order."""
    return sorted(text_of(state.schema).splitlines())
