"""What the history and the blame of an entity answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.changes.change_filter import Kind, Op
from omnigraph.changes.diff import Change, change_text
from omnigraph.display.panel import SHOWN_ROWS, Panel, Shown
from omnigraph.display.text import cell_text, counted, moment_text, printable, shortened
from omnigraph.manifest.branch_names import MAIN

_VALUE_CHARACTERS = 40


@dataclass(frozen=True, slots=True, repr=False)
class HistoryEntry(Shown):
    """One change of an entity: what happened to it, and the commit that did it.

    ``changed`` are the names of what an update changed (``from`` and ``to`` are the ends of an edge); None for
    inserts and deletes, and where the state before is not known. ``merged_by`` is the merge that brought the
    commit into the branch; None for commits of the branch itself. ``via`` stands for a merged branch that
    is gone or may not be read. ``reclaimed`` says after which commit the change was made, where
    cleanup removed the state before it.
    """

    kind: Kind
    type: str
    id: str
    op: Op
    changed: list[str] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    graph_commit_id: str
    branch: str | None
    actor_id: str | None
    created_at: int
    operation: str
    merged_by: str | None
    via: Mapping[str, Any] | None = None
    reclaimed: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the public form, without images, ``via`` and ``reclaimed`` where there are none."""
        shown = {name: getattr(self, name) for name in HistoryEntry.__slots__}
        optional = ("before", "after", "via", "reclaimed")
        return {
            key: value for key, value in shown.items() if not (key in optional and value is None)
        }

    def _panel(self) -> Panel:
        facts: list[tuple[str, Any]] = [
            ("commit", self.graph_commit_id),
            ("branch", self.branch or MAIN),
            ("actor", self.actor_id),
            ("made", moment_text(self.created_at)),
            ("operation", self.operation),
            ("values", self.text),
        ]
        return Panel(f"{self.op} of {self.kind} {self.type} {printable(self.id)}", facts)

    @property
    def text(self) -> str:
        """What the entity got, or what its properties became: `age: 30 -> 31`."""
        before, after = (None if one is None else dict(one) for one in (self.before, self.after))
        if self.op == "update" and before is None:
            return ", ".join(self.changed or ())
        return change_text(Change(self.kind, self.type, self.id, self.op, before, after))


@dataclass(frozen=True, slots=True, repr=False)
class EntityHistory(Shown):
    """A page of the changes of an entity, newest first.

    ``next`` is what ``before`` takes for the following page; None on the last one. ``complete`` is false where
    deletions may be missing, because an older release did not record them.
    """

    entries: list[HistoryEntry]
    next: str | None = None
    complete: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the public document."""
        entries = [entry.to_json() for entry in self.entries]
        return {"entries": entries, "next": self.next, "complete": self.complete}

    def _panel(self) -> Panel:
        notes = [] if self.next is None else [f"older ones: before={self.next!r}"]
        if not self.complete:
            notes.append("deletions that an older release made may be missing")
        return Panel.of_rows(
            counted(len(self.entries), "change"),
            ("commit", "made", "actor", "branch", "change", "type", "id", "values"),
            [
                (
                    one.graph_commit_id,
                    moment_text(one.created_at),
                    one.actor_id,
                    one.branch or MAIN,
                    one.op,
                    one.type,
                    one.id,
                    one.text,
                )
                for one in self.entries
            ],
            notes=notes,
        )


@dataclass(frozen=True, slots=True, repr=False)
class EntityBlame(Shown):
    """Which commit gave each property of an entity its value.

    ``properties`` maps a name to ``{value, graph_commit_id, branch, actor_id, created_at, operation,
    merged_by}``, with ``via`` and ``reclaimed`` as in a history. ``endpoints`` are those of an edge, and
    ``edges`` the blames of the edges of a node, if they were asked for.
    """

    kind: Kind
    type: str
    id: str
    graph_commit_id: str
    properties: Mapping[str, Mapping[str, Any]]
    endpoints: Mapping[str, Any] | None = None
    edges: list[EntityBlame] | None = field(default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the public document; endpoints and edges appear only where there are any to tell."""
        shown: dict[str, Any] = {
            "kind": self.kind,
            "type": self.type,
            "id": self.id,
            "graph_commit_id": self.graph_commit_id,
            "properties": {name: dict(one) for name, one in self.properties.items()},
        }
        if self.endpoints is not None:
            shown["endpoints"] = dict(self.endpoints)
        if self.edges is not None:
            shown["edges"] = [one.to_json() for one in self.edges]
        return shown

    def _panel(self) -> Panel:
        told = dict(self.properties)
        if self.endpoints is not None:
            told = {"(ends)": self.endpoints, **told}
        rows = [
            (
                name,
                shortened(cell_text(one["value"]), _VALUE_CHARACTERS),
                one["graph_commit_id"],
                one["actor_id"],
                moment_text(one["created_at"]),
                one["operation"],
            )
            for name, one in told.items()
        ]
        columns = ("property", "value", "commit", "actor", "made", "operation")
        title = f"{self.kind} {self.type} {printable(self.id)}"
        edges = self.edges or []
        notes = [f"{counted(len(edges), 'edge')}, see .edges"] if edges else []
        return Panel(
            title,
            columns=columns,
            rows=rows[:SHOWN_ROWS],
            hidden=max(0, len(rows) - SHOWN_ROWS),
            notes=notes,
        )
