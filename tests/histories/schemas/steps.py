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
from omnigraph.errors import BadRequest, MergeConflicts, SchemaViolation
from omnigraph.lang.schema import compile_schema
from tests.histories.model import Branch, Commit, Home, Model, merge_bases
from tests.histories.plain import as_record, read_content
from tests.histories.schemas.edits import NUMBERS, Edit, after_edit, random_edit, random_rows
from tests.histories.schemas.plain_diff import Changes, changes_between, under_names
from tests.histories.schemas.plain_merge import Merged, Refused, merge_states
from tests.histories.schemas.plain_schema import (
    Prop,
    Rows,
    Schema,
    State,
    Type,
    shown,
    text_of,
    violations,
)
from tests.histories.steps import RAN
from tests.histories.steps import Steps as RowSteps

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
    "died",
}
"""What must have occurred in the histories of a whole run."""


def start() -> Schema:
    """The schema that histories begin with."""

    def key() -> dict[int, Prop]:
        return {next(NUMBERS): Prop("k", "String", nullable=False, is_key=True)}

    a, b, edge = next(NUMBERS), next(NUMBERS), next(NUMBERS)
    return Schema(
        {
            a: Type(
                "node",
                "A",
                {
                    **key(),
                    next(NUMBERS): Prop("a", "I32"),
                    next(NUMBERS): Prop("b", "String", nullable=False),
                },
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


class SchemaSteps(RowSteps):
    """One graph beside its model, and the steps that rules are made of."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        schema = start()
        self.graph = omnigraph.init(self.directory / "g", text_of(schema))
        self.deck: list[str] = []
        self.names = self.steps = 0
        self.most_branches = self.most_bases = 1
        home = Home("main")
        genesis = self.record(self.graph.snapshot().commit, home, State(schema), ())
        self.model = Model({"main": Branch(home, genesis)}, commits=[genesis])

    def ran(self, what: str) -> None:
        RAN[what] += 1

    # -- comparing

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
        """Write rows; with ``short``, some records leave out what a default gives."""
        state: State = branch.head.content
        named = shown(State(state.schema, rows))
        records = [as_record(key, image) for key, image in named.items()]
        if short is not None:
            by_key = dict(zip(named, records, strict=True))
            for (number, row_id), row in rows.items():
                type_ = state.schema.types[number]
                for each, prop in type_.props.items():
                    if prop.default is not None and row[each] == prop.default:
                        by_key[type_.element, row_id]["data"].pop(prop.name)
        self.graph.load(records, branch=branch.name)

    def load_some(self, rnd: Random, branch: Branch) -> None:
        written, rows = random_rows(rnd, branch.head.content)
        self.load_rows(branch, written, short=rnd)
        self.advance(branch, State(branch.head.content.schema, rows))

    def apply_one(self, branch: Branch, edit: Edit) -> bool:
        """Apply an edit; whether its rows allow it."""
        after = after_edit(branch.head.content, edit.schema)
        text = text_of(after.schema, edit.hints)
        try:
            applied = self.graph.schema.apply(text, branch=branch.name)
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

    def apply_some(self, rnd: Random, branch: Branch) -> bool:
        edit = random_edit(rnd, branch.head.content.schema, self.deck)
        return edit is not None and self.apply_one(branch, edit)

    # -- merging

    def merge_one(self, rnd: Random, source: Branch, into: Branch) -> Merged | None:
        bases = merge_bases(source.head, into.head)
        base = bases[0]
        if len(bases) > 1:
            RAN["shape: criss-cross"] += 1
        outcome = "merged"
        if base is source.head.effective:
            outcome = "already_up_to_date"
        elif base is into.head.effective:
            outcome = "fast_forward"
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
        except Refused:
            self.check_refused(source, into, options)
            return None
        planned = self.graph.branches.merge(source.name, into.name, dry_run=True, **options)
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
        # Values of a property that the target once dropped are written, and are no change in a diff.
        if not expected.state.schema.numbers & before.schema.dropped:
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
        found = merge_states(*sides).conflicts
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
