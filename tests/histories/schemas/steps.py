"""One graph beside its model of rows and schemas: the steps that the rules are made of."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import omnigraph
from omnigraph.errors import (
    BadRequest,
    HistoryReclaimed,
    MergeConflicts,
    SchemaConflict,
    SchemaViolation,
)
from omnigraph.lang.schema import compile_schema
from tests.histories.model import Branch, Commit, Home, Model
from tests.histories.plain import as_record, read_content
from tests.histories.rules import SharedRules
from tests.histories.schemas.edits import Edit, after_edit, random_edit, random_rows
from tests.histories.schemas.plain_diff import Changes, changes_between, under_names
from tests.histories.schemas.plain_merge import Merged, merge_states
from tests.histories.schemas.plain_schema import (
    NUMBERS,
    VECTOR,
    Prop,
    Rows,
    Schema,
    State,
    Type,
    cleared,
    shown,
    text_of,
    violations,
)
from tests.histories.schemas.plain_schemas import Refused, Unsure
from tests.histories.steps import RAN

SHAPES = {
    "apply refused for its rows",
    "merge: already_up_to_date",
    "merge: fast_forward",
    "merge: merged",
    "merge: schema changed",
    "merge: joined",
    "conflict: delete_vs_update",
    "conflict: divergent_insert",
    "conflict: divergent_schema",
    "conflict: divergent_update",
    "conflict: schema_drop_vs_change",
    "conflict: schema_name_clash",
    "conflict: value_constraint_violation",
    "words for schemas",
    "shape: criss-cross",
    "reverted",
    "reverted a schema change",
    "revert refused for its schema",
    "imported again",
    "hard drop",
    "hard drop refused",
    "vectors not lost without consent",
    "died",
}
"""What must have occurred in the histories of a whole run."""


def start() -> Schema:
    """The schema that histories begin with."""

    def key() -> dict[int, Prop]:
        return {next(NUMBERS): Prop("k", "String", nullable=False, is_key=True)}

    a, b, edge, interface = (next(NUMBERS) for _ in range(4))
    text, given = next(NUMBERS), next(NUMBERS)
    return Schema(
        {
            interface: Type("interface", "I", {given: Prop("m", "I32")}),
            a: Type(
                "node",
                "A",
                {
                    **key(),
                    next(NUMBERS): Prop("a", "I32"),
                    text: Prop("b", "String", nullable=False),
                    next(NUMBERS): Prop("c", VECTOR, embed=text),
                    next(NUMBERS): Prop("m", "I32", follows=given),
                },
                implements=frozenset({interface}),
            ),
            b: Type(
                "node",
                "B",
                {**key(), next(NUMBERS): Prop("a", "String", values=frozenset("uv"))},
            ),
            edge: Type("edge", "Eto", {next(NUMBERS): Prop("a", "I32")}, (a, b)),
        }
    )


@cache
def shape_of(source: str) -> str:
    return compile_schema(source).shape.shape_hash


class SchemaSteps(SharedRules):
    """One graph beside its model, and the steps that rules are made of."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        schema = start()
        self.graph = omnigraph.init(self.directory / "g", text_of(schema))
        self.deck: list[str] = []
        self.emptied: set[str] = set()  # commits of which a hard drop removed something
        self.names = self.steps = 0
        self.most_branches = self.most_bases = 1
        home = Home("main")
        genesis = self.record(self.graph.snapshot().commit, home, State(schema), ())
        self.model = Model({"main": Branch(home, genesis)}, commits=[genesis])

    def ran(self, what: str) -> None:
        RAN[what] += 1

    # -- comparing

    def check_all(self) -> None:
        for branch in self.model.branches.values():
            self.check_branch(branch)
        for name, commit in self.model.tags.items():
            self.check_at(commit, tag=name)

    def check_branch(self, branch: Branch) -> None:
        state: State = branch.head.content
        assert self.graph.snapshot(branch=branch.name).graph_commit_id == branch.head.id
        source = self.graph.schema.show(branch=branch.name).source
        assert shape_of(source) == shape_of(text_of(state.schema)), (source, text_of(state.schema))
        assert self.content(branch=branch.name) == shown(state)

    def current(self, commit: Commit) -> Schema:
        """The schema whose names are used for a commit: that of the head of its branch."""
        branch = self.model.branches[commit.home.name]
        assert branch.home is commit.home
        return branch.head.content.schema

    def check_at(self, commit: Commit, **where: Any) -> None:
        """What is read at a commit is what it had, under the names of its branch."""
        found = self.content(**where)
        expected = under_names(commit.content, self.current(commit))
        if expected is None:
            self.ran("shape: a name of the past means another thing now")
            assert sorted(key[1] for key in found) == sorted(k[1] for k in commit.content.rows)
        else:
            assert found == expected
        shown_there = self.graph.schema.show(**where).source
        assert shape_of(shown_there) == shape_of(text_of(commit.content.schema))

    def check_diff(self, found: Any, expected: Changes) -> None:
        records = [one if isinstance(one, Mapping) else one.to_json() for one in found]
        told = {(f"{one['kind']}:{one['type']}", one["id"], one["op"]): one for one in records}
        assert len(told) == len(records)
        assert told.keys() == expected.keys(), (told, expected)
        for key, (before, after) in expected.items():
            if (before, after) == (None, None):
                continue
            sides = [
                None if image is None else {**(image.get("endpoints") or {}), **image["properties"]}
                for image in (told[key].get("before"), told[key].get("after"))
            ]
            assert sides == [before, after]

    def check_changes(self, commit: Commit) -> None:
        """What a commit says it changed is what it changed."""
        page = self.graph.commits.changes(commit.id)
        expected = changes_between(commit.first.content, commit.content, self.current(commit))
        self.check_diff(page.changes, expected)

    # -- writing

    def load_rows(self, branch: Branch, rows: Rows, *, short: Random | None = None) -> None:
        """Write rows; with ``short``, records leave out what a default gives, and vectors that are kept."""
        state: State = branch.head.content
        named = shown(State(state.schema, rows))
        records = [as_record(key, image) for key, image in named.items()]
        if short is not None:
            by_key = dict(zip(named, records, strict=True))
            for (number, row_id), row in rows.items():
                type_ = state.schema.types[number]
                stored = state.rows.get((number, row_id), {})
                for each, prop in type_.props.items():
                    given = prop.default is not None and row[each] == prop.default
                    if prop.embed is not None and row[prop.embed] is not None:
                        kept = [stored.get(n) for n in (each, prop.embed)]
                        given = kept == [row[each], row[prop.embed]]
                    if given:
                        by_key[type_.element, row_id]["data"].pop(prop.name)
        self.graph.load(records, branch=branch.name)

    def load_some(self, rnd: Random, branch: Branch) -> None:
        written, rows = random_rows(rnd, branch.head.content)
        self.load_rows(branch, written, short=rnd)
        self.advance(branch, State(branch.head.content.schema, rows))

    def apply_one(self, branch: Branch, edit: Edit) -> bool:
        """Apply an edit; whether its rows allow it."""
        before: State = branch.head.content
        after = after_edit(before, edit.schema)
        text = text_of(after.schema, edit.hints)
        lost = self.lost_vectors(before, after)
        if lost and not violations(after.schema, after.rows):
            self.check_consent(branch, text, lost)
        try:
            applied = self.graph.schema.apply(text, branch=branch.name, allow_data_loss=bool(lost))
        except SchemaViolation as refused:
            assert violations(after.schema, after.rows), refused
            self.ran("apply refused for its rows")
            self.check_branch(branch)
            return False
        assert not violations(after.schema, after.rows)
        assert applied.commit is not None
        for kind in edit.kinds:
            self.ran(f"step: {kind}")
        self.advance(branch, after)
        return True

    @staticmethod
    def lost_vectors(before: State, after: State) -> dict[str, int]:
        """How many vectors an apply sets to null, by their property."""
        found: dict[str, int] = {}
        for number, each in cleared(before.schema, after.schema):
            rows = [row for key, row in before.rows.items() if key[0] == number]
            count = sum(row[each] is not None for row in rows)
            type_ = after.schema.types[number]
            if count:
                found[f"{type_.element}.{type_.props[each].name}"] = count
        return found

    def check_consent(self, branch: Branch, text: str, lost: dict[str, int]) -> None:
        """Without consent no vector is lost."""
        try:
            self.graph.schema.apply(text, branch=branch.name)
        except SchemaConflict as refused:
            assert refused.details["vectors"] == lost
        else:
            raise AssertionError("vectors were lost without consent")
        self.ran("vectors not lost without consent")

    def apply_some(self, rnd: Random, branch: Branch) -> bool:
        edit = random_edit(rnd, branch.head.content.schema, self.deck)
        return edit is not None and self.apply_one(branch, edit)

    # -- merging

    def merge_one(self, rnd: Random, source: Branch, into: Branch) -> Merged | None:
        base = self.base_of(source, into)
        outcome = self.outcome_of(base, source, into)
        by_property = rnd.random() < 0.4
        sides = (base.content, source.head.content, into.head.content)
        words = self.words(rnd, sides) if outcome == "merged" else None
        options: dict[str, Any] = {
            "granularity": "property" if by_property else "entity",
            "resolve": rnd.choice([None, None, None, "ours", "theirs"]),
            "resolve_schema": words,
        }
        try:
            expected = merge_states(
                *sides, by_property=by_property, resolve=options["resolve"], resolve_schema=words
            )
        except Unsure:
            return None
        except Refused:
            if base.id not in self.emptied:
                self.check_refused(source, into, options)
            return None
        try:
            planned = self.graph.branches.merge(source.name, into.name, dry_run=True, **options)
        except HistoryReclaimed:
            assert base.id in self.emptied
            self.ran("merge without its base")
            return None
        assert (planned.outcome, planned.base_commit_id) == (outcome, base.id)
        assert conflicts_of(planned.conflicts) == expected.conflicts
        try:
            merged = self.graph.branches.merge(source.name, into.name, **options)
        except MergeConflicts as refused:
            told = conflicts_of(refused.details["conflicts"])
            assert told == expected.conflicts
            for kind in {one[0] for one in told}:
                self.ran(f"conflict: {kind}")
            self.check_branch(into)
            return expected
        assert not expected.conflicts
        assert expected.state is not None
        assert (merged.outcome, merged.base_commit_id) == (outcome, base.id)
        self.ran(f"merge: {outcome}")
        if outcome == "already_up_to_date":
            assert merged.commit is None
            self.check_branch(into)
            return expected
        before: State = into.head.content
        self.count_shapes(before.schema, expected)
        if shape_of(text_of(before.schema)) != shape_of(text_of(expected.state.schema)):
            assert merged.schema is not None
        assert merged.stats.resolved == expected.resolved
        self.advance(into, expected.state)
        assert into.head.effective.parents[1] is source.head
        self.check_changes(into.head.effective)
        told_changes = changes_between(before, expected.state, expected.state.schema)
        counts = tuple(
            sum(key[2] == op for key in told_changes) for op in ("insert", "update", "delete")
        )
        # Values of a property that the target once dropped are written, and are no change in a diff; vectors
        # that a schema sets to null are no rows of the merge.
        schema = expected.state.schema
        if not schema.numbers & before.schema.dropped and not cleared(before.schema, schema):
            for stats in (planned.stats, merged.stats):
                assert (stats.inserts, stats.updates, stats.deletes) == counts
        if rnd.random() < 0.15:
            self.import_again(into)
        return expected

    def count_shapes(self, before: Schema, merged: Merged) -> None:
        assert merged.state is not None
        if merged.state.schema.types != before.types:
            self.ran("merge: schema changed")
        if merged.state.schema.joined - before.joined:
            self.ran("merge: joined")
        if merged.resolved_schema:
            self.ran("words for schemas")

    def words(self, rnd: Random, sides: tuple[State, State, State]) -> Any:
        """No word, one for all, or one for each of the elements in conflict."""
        kind = rnd.choice([None, None, None, "ours", "theirs", "mapping"])
        if kind != "mapping":
            return kind
        try:
            found = merge_states(*sides).conflicts
        except Unsure:
            return None
        elements = {
            one[1] for one in found if one[0] in {"divergent_schema", "schema_drop_vs_change"}
        }
        return {one: rnd.choice(["ours", "theirs"]) for one in sorted(elements)} or None

    def check_refused(self, source: Branch, into: Branch, options: dict[str, Any]) -> None:
        for dry_run in (True, False):
            try:
                self.graph.branches.merge(source.name, into.name, dry_run=dry_run, **options)
            except BadRequest:
                continue
            raise AssertionError("a word that cannot be followed was taken")
        self.ran("a word that cannot be followed")
        self.check_branch(into)

    def import_again(self, branch: Branch) -> None:
        """What is exported can be loaded into a fresh graph of its schema."""
        out = io.BytesIO()
        self.graph.export(out, branch=branch.name)
        lines = out.getvalue()
        source = self.graph.schema.show(branch=branch.name, clean=True).source
        with (
            tempfile.TemporaryDirectory() as directory,
            omnigraph.init(Path(directory) / "again", source) as fresh,
        ):
            (Path(directory) / "rows.jsonl").write_bytes(lines)
            fresh.load(Path(directory) / "rows.jsonl", mode="overwrite")
            again = io.BytesIO()
            fresh.export(again)
        assert read_content(again.getvalue()) == read_content(lines)
        self.ran("imported again")

    def settle(self, branch: Branch, before: State, after: State) -> None:
        """After a crash: all of a write, or nothing."""
        if self.graph.snapshot(branch=branch.name).graph_commit_id == branch.head.id:
            self.check_branch(branch)
            return
        source = self.graph.schema.show(branch=branch.name).source
        found = self.content(branch=branch.name)
        whole = shape_of(source) == shape_of(text_of(after.schema)) and found == shown(after)
        self.advance(branch, after if whole else before)


def conflicts_of(reported: Any) -> frozenset[tuple[Any, ...]]:
    """The conflicts of a report, as the model has them."""
    found = set()
    for one in reported:
        record = one if isinstance(one, Mapping) else one.to_json()
        kind, detail = record["kind"], record.get("detail") or {}
        if kind == "divergent_schema":
            found.add((kind, detail["element"], detail["attribute"]))
        elif kind == "schema_drop_vs_change":
            changed, row_ids = tuple(detail["changed"]), tuple(detail["row_ids"])
            dropped_by, rows = detail["dropped_by"], detail["rows"]
            found.add((kind, detail["element"], dropped_by, changed, rows, row_ids))
        elif kind.startswith("schema_"):
            found.add((kind, detail["element"]))
        elif kind in {"unique_violation", "cardinality_violation"}:
            found.add((kind, record["table_key"], None))
        else:
            found.add((kind, record["table_key"], record["row_id"]))
    return frozenset(found)


def mirrored(conflicts: frozenset[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """The conflicts as the merge in the other direction has them."""
    other = {"source": "target", "target": "source"}
    return {
        (*one[:2], other[one[2]], *one[3:]) if one[0] == "schema_drop_vs_change" else one
        for one in conflicts
    }
