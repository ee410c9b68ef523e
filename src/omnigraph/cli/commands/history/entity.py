"""`omnigraph history` and `omnigraph blame`: how one node or edge came to be what it is.

commit 01K… on main by ada, 2026-05-04 10:30:00Z
  ~ node Person ann
      age: 30 -> 31
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal, TypedDict, cast

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.commands.history.change_text import ChangeText
from omnigraph.cli.output import note, put
from omnigraph.cli.shared_options import TargetOptions, UriOption
from omnigraph.cli.text_tables import moment, put_table
from omnigraph.display.text import cell_text, counted, printable, shortened
from omnigraph.service import wire
from omnigraph.service.documents import Document

_VALUE_CHARACTERS = 40
_INDENT = "  "

EdgesOption = Annotated[
    bool, typer.Option("--edges", help="Of a node, with the edges that it has.")
]


class _Entity(TypedDict):
    """The fields of a request that name one node or edge."""

    kind: Literal["node", "edge"]
    type: str
    id: str


@dataclass(frozen=True, slots=True)
class EntityArguments:
    """The arguments that name one node or edge."""

    kind: Annotated[str, typer.Argument(metavar="KIND", help="`node` or `edge`.")]
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type.")]
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the node or edge.")]

    def read(self) -> _Entity:
        """Return the arguments as a request takes them."""
        if self.kind not in ("node", "edge"):
            raise typer.BadParameter(f"KIND is `node` or `edge`, not `{self.kind}`")
        return {"kind": cast("Any", self.kind), "type": self.type_name, "id": self.id}


def history(
    call: Invocation,
    entity: EntityArguments,
    target: TargetOptions,
    edges: EdgesOption = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="At most N changes, 100 by default."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="ID", help="Start after this commit.")
    ] = None,
    uri: UriOption = None,
) -> None:
    """Show the changes of a node or edge, newest first: what changed, in which commit, by whom."""
    request = wire.EntityHistoryParameters(
        **entity.read(), edges=edges, limit=limit, before=before, **target.read()
    )
    with call.reach(call.address(uri)) as side:
        document = side.ask("entity_history", request)
    call.answer(document, lambda: _put_history(document))
    if call.flags.json:
        return
    if document["next"] is not None:
        note(f"there is more: --before {document['next']}")
    if not document["complete"]:
        note("deletions that an older release made may be missing")


def blame(
    call: Invocation,
    entity: EntityArguments,
    target: TargetOptions,
    edges: EdgesOption = False,
    uri: UriOption = None,
) -> None:
    """Show for each property of a node or edge the commit that gave it its value, and its actor."""
    request = wire.EntityBlameParameters(**entity.read(), edges=edges, **target.read())
    with call.reach(call.address(uri)) as side:
        document = side.ask("entity_blame", request)
    call.answer(document, lambda: _put_blame(document))


def _put_history(document: Document) -> None:
    text = ChangeText.for_stdout()
    # With the edges of a node a commit may have several entries, which stand below each other.
    for _, entries in groupby(document["entries"], key=lambda one: one["graph_commit_id"]):
        several = list(entries)
        put(text.title(_title(several[0])))
        for entry in several:
            shown = entry
            if entry["op"] == "update" and "before" not in entry:
                # Nothing is known to differ, so that no value is shown as new.
                shown = {**entry, "before": entry.get("after")}
            put("\n".join(f"{_INDENT}{line}" for line in (*text.lines(shown), *_notes(entry))))


def _title(entry: Document) -> str:
    by = "" if entry["actor_id"] is None else f" by {entry['actor_id']}"
    title = f"commit {entry['graph_commit_id']} on {entry['branch'] or 'main'}{by}, {moment(entry['created_at'])}"
    return title if entry["merged_by"] is None else f"{title}, merged by {entry['merged_by']}"


def _notes(entry: Document) -> Iterator[str]:
    """Yield what else there is to say of a change: whose work a merge brought, and what is not known."""
    if "via" in entry:
        via = entry["via"]
        actors = ", ".join(via["actors"]) or "nobody"
        what = counted(via["commits"], "commit")
        yield f"    (the merge brought {what} of {printable(via['branch'] or 'main')} by {printable(actors)})"
    if "reclaimed" in entry:
        after = entry["reclaimed"]["after"]
        since = "earlier states are gone" if after is None else f"made after commit {after}"
        yield f"    ({since}; with this commit at the latest)"


def _put_blame(document: Document) -> None:
    for one in (document, *document.get("edges", ())):
        put(ChangeText.for_stdout().title(f"{one['kind']} {one['type']} {one['id']}"))
        told = {**({"(ends)": one["endpoints"]} if "endpoints" in one else {}), **one["properties"]}
        rows = [
            (
                name,
                shortened(cell_text(value["value"]), _VALUE_CHARACTERS),
                value["graph_commit_id"],
                value["branch"] or "main",
                moment(value["created_at"]) + (" or earlier" if "reclaimed" in value else ""),
                _actor(value),
                value["operation"],
            )
            for name, value in told.items()
        ]
        put_table(("property", "value", "commit", "branch", "time", "actor", "operation"), rows)


def _actor(value: Document) -> str | None:
    """Return who gave a value; of a merged branch that is gone, also who worked on it."""
    actor: str | None = value["actor_id"]
    others = value.get("via", {}).get("actors", ())
    return f"{actor or 'nobody'} for {', '.join(others)}" if others else actor
