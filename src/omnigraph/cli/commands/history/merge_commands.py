"""`omnigraph branch merge`, and `omnigraph commit revert`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import made_commit, note, put, replayed
from omnigraph.cli.shared_options import (
    BranchOption,
    CommitFlags,
    ResolveOption,
    UriOption,
    read_resolve,
    read_resolve_schema,
    step_lines,
)
from omnigraph.cli.text_tables import put_facts, put_table
from omnigraph.errors import MergeConflicts
from omnigraph.service import wire
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.cli.sides.side import GraphSide


@dataclass(frozen=True, slots=True)
class MergeFlags:
    """Flags that a merge and a revert share: how conflicts are found, decided and shown."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")
    ] = False
    resolve: ResolveOption = None
    resolve_schema: Annotated[
        list[str] | None,
        typer.Option(
            "--resolve-schema",
            metavar="WORD|ELEMENT=WORD",
            help="Decide schemas in conflict: ours keeps the target's, theirs takes the other side's, for all "
            "or for one element (node:Ship.flag=ours). May be given several times.",
        ),
    ] = None
    granularity: Annotated[
        Literal["entity", "property"],
        typer.Option("--granularity", help="What both sides may not change differently."),
    ] = "entity"
    images: Annotated[
        bool, typer.Option("--images", help="Show the entities in conflict on all sides.")
    ] = False

    def read(self) -> dict[str, Any]:
        """Return them as a request has them."""
        return {
            "dry_run": self.dry_run,
            "resolve": read_resolve(self.resolve),
            "resolve_schema": read_resolve_schema(self.resolve_schema),
            "granularity": self.granularity,
            "images": self.images,
        }


def merge(
    call: Invocation,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge.")],
    flags: MergeFlags,
    made: CommitFlags,
    into: Annotated[
        str, typer.Option("--into", metavar="NAME", help="The branch that gets its changes.")
    ] = "main",
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source afterwards.")
    ] = False,
    uri: UriOption = None,
) -> None:
    """Bring what a branch changed into another one, as one commit, or list all conflicts."""
    if flags.dry_run and delete_branch:
        raise typer.BadParameter("--dry-run deletes no branch; leave out --delete-branch")
    request = wire.MergeBody(
        source=source,
        target=into,
        delete_branch=delete_branch,
        message=made.message,
        **flags.read(),
    )
    act = f"deleting branch {source.strip()}" if delete_branch else None
    document = _run(
        call, uri, flags, act, lambda side: side.ask("merge", request, said=made.conditions())
    )
    if "branch_delete_error" in document:
        why = document["branch_delete_error"]
        note(f"warning: branch {document['source']} was not deleted: {why}")
    done = "would merge" if flags.dry_run else "merged"
    _answer(
        call,
        document,
        f"{done} {document['source']} into {document['target']}: {document['outcome']}",
    )


def revert(
    call: Invocation,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit to undo.")],
    flags: MergeFlags,
    made: CommitFlags,
    branch: BranchOption = None,
    uri: UriOption = None,
) -> None:
    """Undo one commit of a branch as a new commit, or list all conflicts."""
    request = wire.RevertBody(branch=branch, message=made.message, **flags.read())
    document = _run(
        call,
        uri,
        flags,
        None,
        lambda side: side.ask("revert", request, graph_commit_id, said=made.conditions()),
    )
    target, commit = document["target"], document["reverted"]
    if flags.dry_run:
        text = f"would revert {commit} on {target}: {document['outcome']}"
    elif document["commit"] is None:
        text = f"nothing of {commit} to revert on {target}"
    else:
        text = f"reverted {commit} on {target}"
    _answer(call, document, text)


def _run(
    call: Invocation,
    uri: str | None,
    flags: MergeFlags,
    act: str | None,
    work: Callable[[GraphSide], Document],
) -> Document:
    """Run it; of conflicts, list all on stderr before they end the command.

    A dry run writes nothing. ``act`` needs the user's consent.
    """
    address = call.address(uri, read_only=flags.dry_run)
    if act is not None:
        call.consent(address, act)
    try:
        with call.reach(address, read_only=flags.dry_run) as side:
            return work(side)
    except MergeConflicts as error:
        if call.flags.json:
            raise
        for conflict in error.details["conflicts"]:
            note(f"{conflict['kind']}  {_as_typed(conflict['message'])}")
        raise MergeConflicts(_as_typed(error.message), **error.details) from None


def _as_typed(message: str) -> str:
    """Spell the option that decides a conflict of schemas as the command line has it."""
    return message.replace(" resolve_schema ", " --resolve-schema ")


def _answer(call: Invocation, document: Document, text: str) -> None:
    def show() -> None:
        put(text + replayed(document))
        stats = document["stats"]
        if "schema" in document:
            put("\n".join(step_lines(document["schema"]["steps"])))
        facts: list[tuple[str, Any]] = [
            (f"  {name}", stats[name]) for name in ("inserts", "updates", "deletes")
        ]
        if stats["resolved"]:
            facts.append(("  resolved", stats["resolved"]))
        if document["commit"] is not None:
            facts.append(("  commit", document["commit"]["graph_commit_id"]))
            said = document["commit"]["facts"].get("message")
            facts += [] if said is None else [("  message", said)]
        put_facts(facts)
        shown = document.get("conflicts", ())
        if shown:
            _put_conflicts(shown)
        left = document.get("conflict_count", 0) - len(shown)
        if left:
            note(f"these are the first conflicts; {left} more are not shown")

    call.answer(document, show, made_commit(document))


def _put_conflicts(conflicts: Sequence[Document]) -> None:
    put_table(
        ("conflict", "table", "id", "what"),
        [
            (
                conflict["kind"],
                conflict["table_key"],
                conflict["row_id"],
                _as_typed(conflict["message"]),
            )
            for conflict in conflicts
        ],
    )
