"""Hard drops in histories: what they remove from disk, who stops them, and which commits are lost by them."""

from __future__ import annotations

from random import Random
from typing import Any

from omnigraph.errors import SchemaConflict
from tests.histories.model import Branch, Commit
from tests.histories.schemas.edits import Edit, add_type, after_edit, try_edit
from tests.histories.schemas.plain_joins import one_of_each
from tests.histories.schemas.plain_schema import Schema, State, text_of, violations
from tests.histories.schemas.steps import SchemaSteps


class HardDrops(SchemaSteps):
    """The steps of hard drops."""

    def drop_hard(self, rnd: Random, branch: Branch) -> None:
        """Drop something with all its history, or learn who needs it."""
        if rnd.random() < 0.7:
            self._add_a_type(rnd, branch)
        edit = Edit(rnd, branch.head.content.schema)
        newest = max(edit.types, default=0)
        for name in rnd.sample(["drop_property", "drop_property", "drop_type"], 2):
            only = [each for each, prop in edit.types[newest].props.items() if not prop.is_key]
            if only and rnd.random() < 0.7:
                edit.only = (newest, rnd.choice(only))
            if try_edit(edit, name):
                break
        else:
            return
        after = after_edit(branch.head.content, edit.schema)
        if violations(after.schema, after.rows):
            return
        self._apply_hard(branch, edit, after)

    def _add_a_type(self, rnd: Random, branch: Branch) -> None:
        """Add a type that no other branch has, with some rows."""
        edit = Edit(rnd, branch.head.content.schema)
        if add_type(edit):
            edit.settle()
            self.apply_one(branch, edit)
            self.load_some(rnd, branch)

    def _apply_hard(self, branch: Branch, edit: Edit, after: State) -> None:
        before: Schema = branch.head.content.schema
        touched = self._emptied(before, after.schema)
        holders = self._holders(branch, before, touched)
        text = text_of(after.schema, edit.hints)
        try:
            self.graph.schema.apply(text, branch=branch.name, allow_data_loss=True)
        except SchemaConflict as refused:
            self.ran("hard drop refused")
            named = {
                *refused.details["branches"],
                *(f"tag:{one}" for one in refused.details["tags"]),
            }
            assert named
            assert named <= (holders if branch.name == "main" else {branch.name})
            self.check_branch(branch)
            return
        assert branch.name == "main" or not touched
        self.ran("hard drop")
        self.advance(branch, after)
        self._forget(before, touched)
        self.check_all()

    @staticmethod
    def _emptied(before: Schema, after: Schema) -> set[int]:
        """The types of which something is removed from disk."""
        return {
            number
            for number, type_ in before.types.items()
            if type_.kind != "interface"
            and (number not in after.types or type_.props.keys() - after.types[number].props)
        }

    def _holders(self, branch: Branch, schema: Schema, touched: set[int]) -> set[str]:
        """The other branches and the tags that may have the tables of some types."""
        commits = {one.name: one.head for one in self.model.branches.values() if one is not branch}
        commits |= {f"tag:{name}": commit for name, commit in self.model.tags.items()}
        return {name for name, commit in commits.items() if self._has(commit, schema, touched)}

    @staticmethod
    def _has(commit: Commit, schema: Schema, touched: set[int]) -> bool:
        state: Any = commit.content
        one = one_of_each(state.schema.joined | schema.joined)
        return not {one(each) for each in touched}.isdisjoint(map(one, state.schema.types))

    def _forget(self, schema: Schema, touched: set[int]) -> None:
        """From now on nobody reads for certain what had the tables."""
        kept = self.kept()
        for commit in self.model.commits:
            if self._has(commit, schema, touched):
                commit.may_be_reclaimed = commit.may_be_reclaimed or commit not in kept
                self.emptied.add(commit.id)
