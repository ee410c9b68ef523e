"""`graph.diff`: the difference of two pinned snapshots as a value that can be read again and again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from omnigraph.changes.change_filter import Kind
from omnigraph.changes.cursors import DiffToken, read_token, write_token
from omnigraph.changes.diff import Change, Position, changes_panel
from omnigraph.changes.pages import Budget, behind, check_changes, take
from omnigraph.changes.stats import Meter, Stats
from omnigraph.display.panel import SHOWN_ROWS, Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import CursorRejected, OmniGraphError
from omnigraph.lang.schema.migrate.read_steps import step_texts
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DiffStats(Stats):
    """What a diff found and cost. ``types_affected`` are the names of types with changes, sorted."""

    types_affected: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {
            **{name: getattr(self, name) for name in Stats.__slots__},
            "types_affected": list(self.types_affected),
        }


Run = Callable[[Meter, Position | None], Iterator[Sequence[Change]]]
"""Compares the two sides, from the beginning or behind a place."""


@dataclass(frozen=True, slots=True, repr=False)
class DiffPage(Shown):
    """A part of a diff. ``stats`` are those of the whole diff, on its first page; else None."""

    from_: Snapshot
    to: Snapshot
    changes: tuple[Change, ...]
    stats: DiffStats | None
    next_page_token: str | None
    schema: Mapping[str, Any] | None = None
    """Both hashes and the steps, where the schemas of the two sides differ."""

    def to_json(self) -> dict[str, Any]:
        """Return the document of one page."""
        shown: dict[str, Any] = {"from": side_json(self.from_), "to": side_json(self.to)}
        if self.schema is not None:
            shown["schema"] = dict(self.schema)
        shown["changes"] = [change.to_json() for change in self.changes]
        if self.stats is not None:
            shown["stats"] = self.stats.to_json()
        if self.next_page_token is not None:
            shown["next_page_token"] = self.next_page_token
        return shown

    def _panel(self) -> Panel:
        ends = f"from {_side_text(self.from_)} to {_side_text(self.to)}"
        more = [] if self.next_page_token is None else ["there are more, see .next_page_token"]
        return changes_panel(
            f"page of {counted(len(self.changes), 'change')} {ends}",
            self.changes[:SHOWN_ROWS],
            hidden=len(self.changes) - SHOWN_ROWS,
            notes=[*_schema_notes(self.schema), *more],
        )


class DiffResult(Shown):
    """The changes from one snapshot to another.

    Iterating compares the two snapshots as it goes, in bounded memory, and may be done again;
    ``changes`` keeps all of them. Both states are pinned: later commits do not show.
    """

    def __init__(
        self,
        workspace: Workspace | None,
        from_: Snapshot,
        to: Snapshot,
        shown: str,
        run: Run,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.from_ = from_
        self.to = to
        self.schema = schema
        """Where the schemas of the two sides differ: both hashes and the steps; else None."""
        self._workspace = workspace
        self._shown = shown
        self._run = run
        self._stats: DiffStats | None = None

    def __eq__(self, other: object) -> bool:
        """Whether the other compares the same two states in the same way, so that it finds the same."""
        return (
            self._identity() == other._identity()
            if isinstance(other, DiffResult)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, ...]:
        sides = (self.from_, self.to)
        return (
            self._shown,
            *(text for one in sides for text in (one.graph_id, one.graph_commit_id)),
        )

    def __reduce__(self) -> tuple[Callable[..., DiffResult], tuple[object, ...]]:
        """Pickle what was found, read to the end: in another process there is no open graph."""
        found = (self._shown, self.changes, self.stats, self.schema)
        return _read_before, (self.from_, self.to, *found)

    def __iter__(self) -> Iterator[Change]:
        """Yield the changes: nodes before edges, then names of types, then ids."""
        if "changes" in self.__dict__:
            return iter(self.changes)
        return self._compare()

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """All changes. Iterate over the result instead where there may be more than memory holds."""
        return tuple(self._compare())

    @property
    def stats(self) -> DiffStats:
        """What was found and what it cost; compares the snapshots if that was not done to the end."""
        if self._stats is None:
            for _ in self._compare():
                pass
        assert self._stats is not None
        return self._stats

    def page(self, limit: int | None = None, page_token: str | None = None) -> DiffPage:
        """Return at most ``limit`` changes (1,000), from the beginning or where a page before ended.

        A token holds for these two commits and this filter; any other is ``CursorRejected``.
        """
        budget = Budget(check_changes(limit))
        graph_id, ends = self.from_.graph_id, (self.from_.graph_commit_id, self.to.graph_commit_id)
        place = None
        if page_token is not None:
            workspace = self._workspace
            head = None if workspace is None else workspace.manifest.state(MAIN).head
            former_ids = () if head is None else head.former_ids
            token = read_token(graph_id, page_token, DiffToken, former_ids)
            if (token.before, token.after) != ends:
                raise CursorRejected(
                    "it was made for a diff of two other commits, for example before a branch moved "
                    "on; name the commits themselves"
                )
            if token.filter != self._shown:
                raise CursorRejected("it was made for another filter")
            place = token.place
        start = None if place is None else Position(cast(Kind, place.kind), place.type, place.id)
        chunks = self._run(Meter(self._workspace), start)
        taken = take(behind(itertools.chain.from_iterable(chunks), place), budget)
        following = None
        if taken.has_more:
            following = write_token(graph_id, DiffToken(*ends, self._shown, taken.place))
        stats = self.stats if page_token is None else None
        changes = tuple(taken.changes)
        return DiffPage(self.from_, self.to, changes, stats, following, self.schema)

    def to_json(self) -> dict[str, Any]:
        """Return the document that `diff --json` prints."""
        page = DiffPage(self.from_, self.to, self.changes, self.stats, None, self.schema)
        return page.to_json()

    def _compare(self) -> Generator[Change]:
        meter = Meter(self._workspace)
        affected: set[str] = set()
        with meter.running():
            chunks = self._run(meter, None)
        while True:
            # Only what happens in here counts, not what the caller does with the changes.
            with meter.running():
                chunk = next(chunks, None)
            if chunk is None:
                break
            affected.update(change.type for change in chunk)
            yield from chunk
        counts = meter.stats()
        self._stats = DiffStats(
            **{name: getattr(counts, name) for name in Stats.__slots__},
            types_affected=tuple(sorted(affected)),
        )

    @cached_property
    def _first(self) -> tuple[Change, ...]:
        """The changes that are shown, and one more if there is one."""
        if "changes" in self.__dict__:
            return self.changes[: SHOWN_ROWS + 1]
        with closing(self._compare()) as found:
            return tuple(itertools.islice(found, SHOWN_ROWS + 1))

    def _panel(self) -> Panel:
        ends = f"from {_side_text(self.from_)} to {_side_text(self.to)}"
        try:
            first = self._first
        except OmniGraphError as error:
            return Panel(f"changes {ends}", notes=[f"they cannot be read: {error}"])
        notes = _schema_notes(self.schema)
        if len(first) <= SHOWN_ROWS:
            return changes_panel(f"{counted(len(first), 'change')} {ends}", first, notes=notes)
        shown, more = first[:SHOWN_ROWS], "… more; .stats counts them, iterating gives them all"
        title = f"changes {ends}"
        if self._stats is not None:
            found = self._stats
            count = found.inserts + found.updates + found.deletes
            title, more = f"{count:,} {title}", f"… {count - SHOWN_ROWS:,} more"
        return changes_panel(title, shown, more=more, notes=notes)


def _read_before(
    from_: Snapshot,
    to: Snapshot,
    shown: str,
    changes: tuple[Change, ...],
    stats: DiffStats,
    schema: Mapping[str, Any] | None,
) -> DiffResult:
    """Return a diff that was read by another process; it has all its changes, and reads nothing."""

    def run(_meter: Meter, start_after: Position | None) -> Iterator[Sequence[Change]]:
        if start_after is None:
            return iter([changes])
        start = _place(start_after)
        return iter([[change for change in changes if _place(change) > start]])

    found = DiffResult(None, from_, to, shown, run, schema)
    found.__dict__["changes"] = changes
    found._stats = stats  # noqa: SLF001 - this is how one is made
    return found


def _schema_notes(schema: Mapping[str, Any] | None) -> list[str]:
    """Say the steps between two schemas, for people."""
    return [] if schema is None else [f"schema: {step}" for step in step_texts(schema)]


def _place(of: Change | Position) -> tuple[bool, str, str]:
    """Return the place of a change in a diff: nodes before edges, then names of types, then ids."""
    return of.kind == "edge", of.type, of.id


def _side_text(snapshot: Snapshot) -> str:
    """Return one side of a diff in words."""
    return f"{snapshot.branch} at {snapshot.graph_commit_id}"


def side_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return one side of a diff in its public form."""
    return {
        "graph_commit_id": snapshot.graph_commit_id,
        "branch": snapshot.branch,
        "version": snapshot.manifest_version,
    }
