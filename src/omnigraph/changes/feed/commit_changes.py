"""What one commit changed: its difference from its first parent, or the schema change it made.

A commit of a merge shows exactly what the merge brought into the branch. One that changed the schema
shows its steps, and the rows of types that it dropped; one that maintained the tables shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, NamedTuple, cast

from omnigraph.changes.change_filter import ChangeFilter, Kind
from omnigraph.changes.cursors import (
    ChangePlace,
    CommitToken,
    filter_digest,
    read_token,
    write_token,
)
from omnigraph.changes.diff import Change, Position, changes_panel, diff_chunks
from omnigraph.changes.differing_types import differing_types, type_names
from omnigraph.changes.pages import Budget, behind, check_changes, take
from omnigraph.changes.schemas.type_pairs import Compared
from omnigraph.changes.stats import Meter
from omnigraph.changes.table_side import TableSide
from omnigraph.display.panel import SHOWN_ROWS, Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import (
    ChangeFeedGap,
    CursorRejected,
    HistoryReclaimed,
    NoParent,
    SchemaBoundary,
)
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import MAINTENANCE, find_commit
from omnigraph.manifest.history.resolve import catalog_at, resolve_commit
from omnigraph.manifest.rows import MESSAGE, GraphCommit
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace

_OF_ROWS: Final = frozenset({"drop_type", "change_embed"})
"""The steps of an apply after which there are other rows, or other values in them."""


@dataclass(frozen=True, slots=True, repr=False)
class ChangeBlock(Shown):
    """The changes of one commit, or of the part of them that fits on a page.

    ``schema`` is there where the commit changed the schema: both hashes, and the steps.
    """

    commit: GraphCommit
    changes: tuple[Change, ...] = ()

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """How the commit changed the schema; None if it did not."""
        found: Mapping[str, Any] | None = self.commit.facts.get("schema")
        return found

    @property
    def cause(self) -> dict[str, Any]:
        """Who made the commit, when, on top of what, and with which message, if any.

        ``members`` are the mutations that share the commit, if there are several.
        """
        record = self.commit.to_json()
        cause = {
            "graph_commit_id": record["graph_commit_id"],
            "parent_commit_id": record["parent_commit_id"],
            "merged_parent_commit_id": record["merged_parent_commit_id"],
            "authored_branch": record["branch"] or MAIN,
            "actor_id": record["actor_id"],
            "authored_at": record["created_at"],
        }
        if self.commit.message is not None:
            cause[MESSAGE] = self.commit.message
        if self.commit.members:
            cause["members"] = [dict(one) for one in self.commit.members]
        return cause

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        shown: dict[str, Any] = {
            "cause": self.cause,
            "changes": [change.to_json() for change in self.changes],
        }
        if self.schema is not None:
            shown["schema"] = dict(self.schema)
        return shown

    def _panel(self) -> Panel:
        return changes_panel(
            f"{counted(len(self.changes), 'change')} of commit {self.commit.graph_commit_id}",
            self.changes[:SHOWN_ROWS],
            hidden=len(self.changes) - SHOWN_ROWS,
            notes=[] if self.schema is None else ["it changed the schema, see .schema"],
        )


@dataclass(frozen=True, slots=True, repr=False)
class CommitChanges(Shown):
    """A page of the changes of one commit; ``next_page_token`` is None on the last one."""

    block: ChangeBlock
    next_page_token: str | None = None

    @property
    def cause(self) -> dict[str, Any]:
        """Who made the commit, when, and on top of what."""
        return self.block.cause

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes on this page."""
        return self.block.changes

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """How the commit changed the schema; None if it did not."""
        return self.block.schema

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        shown = self.block.to_json()
        if self.next_page_token is not None:
            shown["next_page_token"] = self.next_page_token
        return shown

    def _panel(self) -> Panel:
        panel = self.block._panel()  # noqa: SLF001
        if self.next_page_token is None:
            return panel
        return replace(panel, notes=[*panel.notes, "there are more, see .next_page_token"])


class TablePair(NamedTuple):
    """A table before and after a commit."""

    kind: Kind
    before: TableSide
    after: TableSide
    compared: Compared | None = None
    """By which properties they are compared; None: by all, and both have the same."""


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads what commits changed. ``current`` is the accepted schema, whose names are used.

    ``skips_unknown_types``: a type that the filter names need not exist at every commit. Without
    ``images`` only the endpoints of edges are shown, not the values of properties; ``short`` ones
    have vectors and blobs by their sizes.
    """

    workspace: Workspace
    current: Catalog
    filter: ChangeFilter
    skips_unknown_types: bool = False
    images: bool = True
    short: bool = False
    _recent: dict[str, Snapshot] = field(default_factory=dict)
    """The snapshots of the last commits: a commit is the parent of the next one."""

    def changes(
        self, commit: GraphCommit, parent: GraphCommit, place: ChangePlace | None = None
    ) -> Iterator[Change]:
        """Yield the changes of a commit, those behind a place if one is given.

        Raises ``HistoryReclaimed`` where a side is gone, and ``SchemaBoundary`` where rows of the two
        cannot be compared.
        """
        sides = self._sides(commit, parent)
        if sides is None:
            return iter(())
        before, after, shown = sides
        start = None if place is None else Position(cast(Kind, place.kind), place.type, place.id)
        chunks = diff_chunks(
            self.workspace,
            before,
            after,
            self.current,
            shown,
            images=self.images,
            short=self.short,
            start_after=start,
        )
        return behind(chain.from_iterable(chunks), place)

    def tables(self, commit: GraphCommit, parent: GraphCommit) -> Iterator[TablePair]:
        """Yield the tables that a commit may have changed, in the order of a diff; raises as ``changes``."""
        sides = self._sides(commit, parent)
        if sides is None:
            return
        before, after, shown = sides
        meter = Meter(self.workspace)
        types = differing_types(self.workspace, before, after, self.current, shown, meter)
        for one in sorted(types, key=lambda each: each.rank):
            was = TableSide(self.workspace, before, one.before, meter)
            now = TableSide(self.workspace, after, one.after, meter)
            yield TablePair(one.kind, was, now, one.compared)

    def _sides(
        self, commit: GraphCommit, parent: GraphCommit
    ) -> tuple[Snapshot, Snapshot, ChangeFilter] | None:
        """Return the states to compare and the filter for them; None where there is nothing to show."""
        if commit.operation in MAINTENANCE:
            return None
        if "schema" in commit.facts:
            self._refuse_boundary(commit)
            if commit.operation == "schema_apply" and not _touches_rows(commit):
                return None
        before, after = self._snapshot(parent), self._snapshot(commit)
        shown = self._known_types(before, after)
        return None if shown is None else (before, after, shown)

    def page_digest(self) -> str:
        """Return what a place inside a block depends on: the filter, and the names of the types."""
        return filter_digest([self.filter.to_json(), type_names(self.current)])

    def _snapshot(self, commit: GraphCommit) -> Snapshot:
        name = commit.graph_commit_id
        found = self._recent.pop(name, None) or resolve_commit(self.workspace.manifest, commit)[1]
        while len(self._recent) > 1:
            del self._recent[next(iter(self._recent))]
        self._recent[name] = found
        return found

    def _known_types(self, before: Snapshot, after: Snapshot) -> ChangeFilter | None:
        """Return the filter with those types that exist here; None if there are none of them."""
        if not (self.filter.types and self.skips_unknown_types):
            return self.filter
        catalogs = [catalog_at(self.workspace.manifest, one) for one in (before, after)]
        known = {
            name
            for catalog in (*catalogs, self.current)
            for names in (catalog.nodes, catalog.edges)
            for name in names
        }
        types = tuple(name for name in self.filter.types if name in known)
        return replace(self.filter, types=types) if types else None

    def _refuse_boundary(self, commit: GraphCommit) -> None:
        """Refuse a schema change that destroyed rows, or values of rows; interfaces have none."""
        for step in commit.facts["schema"]["steps"]:
            if step.get("mode") != "hard" or step["type_kind"] == "interface":
                continue
            name = step.get("type_name", step.get("name"))
            if self._shows(commit, step["type_kind"], name):
                raise _boundary(commit, name, step.get("property_name"))

    def _shows(self, commit: GraphCommit, kind: Kind, name: str) -> bool:
        """Whether the filter shows a type that a commit calls so, whatever it is called now."""
        if not self.filter.shows_kind(kind):
            return False
        return self.filter.shows_type([name]) or self.filter.shows_type(
            self._names_now(commit, f"{kind}:{name}")
        )

    def _names_now(self, commit: GraphCommit, table_key: str) -> Iterator[str]:
        """Yield the name that a type of a commit has now, if it is still there."""
        then = catalog_at(self.workspace.manifest, self._snapshot(commit))
        numbers = {
            number
            for entity in then.entities()
            if entity.table_key == table_key
            for number in entity.incarnations
        }
        for entity in self.current.entities():
            if not numbers.isdisjoint(entity.incarnations):
                yield entity.name


def _touches_rows(commit: GraphCommit) -> bool:
    """Whether a schema change took rows away or changed values; other steps leave every row as it is."""
    steps = commit.facts["schema"]["steps"]
    return any(step["kind"] in _OF_ROWS for step in steps)


def _boundary(commit: GraphCommit, type_name: str, dropped: str | None) -> SchemaBoundary:
    what = f"type `{type_name}`" if dropped is None else f"`{type_name}.{dropped}`"
    return SchemaBoundary(
        f"commit `{commit.graph_commit_id}` dropped {what} for good, so rows of `{type_name}` before and "
        "after it cannot be compared; go on after this commit",
        graph_commit_id=commit.graph_commit_id,
        type_name=type_name,
    )


def gap(commit: GraphCommit, cursor: str | None, cause: HistoryReclaimed) -> ChangeFeedGap:
    """Return the error for a commit whose changes cannot be found any more."""
    return ChangeFeedGap(
        f"the changes of commit `{commit.graph_commit_id}` cannot be read any more ({cause.message}); "
        "take a baseline and go on from its cursor",
        cursor=cursor,
        first_unreadable_commit_id=commit.graph_commit_id,
    )


def commit_changes(
    reader: ChangeReader, graph_commit_id: str, limit: object = None, page_token: object = None
) -> CommitChanges:
    """Return a page of what a commit changed against its first parent."""
    manifest = reader.workspace.manifest
    budget = Budget(check_changes(limit))
    commit = find_commit(manifest, graph_commit_id)
    head = manifest.state(MAIN).head
    graph_id = head.graph_id
    digest = reader.page_digest()
    place = None
    if page_token is not None:
        token = read_token(graph_id, page_token, CommitToken, head.former_ids)
        if token.graph_commit_id != commit.graph_commit_id:
            raise CursorRejected("it is the page token of another commit")
        if token.filter != digest:
            raise CursorRejected("it was made for another filter, or before a type was renamed")
        place = token.place
    if commit.parent_commit_id is None:
        raise NoParent(
            f"commit `{commit.graph_commit_id}` is the first one, with nothing before it to compare "
            "with; its content is an empty graph",
            graph_commit_id=commit.graph_commit_id,
        )
    parent = find_commit(manifest, commit.parent_commit_id)
    try:
        taken = take(reader.changes(commit, parent, place), budget)
    except HistoryReclaimed as reclaimed:
        raise gap(commit, None, reclaimed) from None
    following = None
    if taken.has_more:
        following = write_token(graph_id, CommitToken(commit.graph_commit_id, digest, taken.place))
    return CommitChanges(ChangeBlock(commit, tuple(taken.changes)), following)
