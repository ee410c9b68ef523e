"""`omnigraph branch merge`, and `omnigraph commit revert`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.address import Store
from omnigraph.cli.call import Invocation
from omnigraph.cli.output import made_commit, note, put, replayed
from omnigraph.cli.shared_options import (
    BranchOption,
    CommitFlags,
    ResolveOption,
    UriOption,
    read_resolve,
)
from omnigraph.cli.text_tables import put_facts, put_table
from omnigraph.errors import MergeConflicts
from omnigraph.service.branches import MergeRequest, RevertRequest
from omnigraph.service.branches import merge as run_merge
from omnigraph.service.branches import revert as run_revert
from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph import Graph


@dataclass(frozen=True, slots=True)
class MergeFlags:
    """Flags that a merge and a revert share: how conflicts are found, decided and shown."""

    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")
    ] = False
    resolve: ResolveOption = None
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
    request = MergeRequest(
        source=source, target=into, delete_branch=delete_branch, **flags.read(), **made.read()
    )
    with _opened(call, uri, flags, f"deleting branch {source.strip()}", delete_branch) as graph:
        document = _run(call, lambda: run_merge(graph, request))
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
    request = RevertRequest(
        graph_commit_id=graph_commit_id, branch=branch, **flags.read(), **made.read()
    )
    with _opened(call, uri, flags) as graph:
        document = _run(call, lambda: run_revert(graph, request))
    target, commit = document["target"], document["reverted"]
    if flags.dry_run:
        text = f"would revert {commit} on {target}: {document['outcome']}"
    elif document["commit"] is None:
        text = f"nothing of {commit} to revert on {target}"
    else:
        text = f"reverted {commit} on {target}"
    _answer(call, document, text)


@contextmanager
def _opened(
    call: Invocation, uri: str | None, flags: MergeFlags, act: str = "", asks: bool = False
) -> Iterator[Graph]:
    """Open the graph, for a dry run without writing; ``act`` needs the user's consent if it ``asks``."""
    address: Store = call.address(uri, read_only=flags.dry_run)
    if asks:
        call.consent(address, act)
    with call.open(address, read_only=flags.dry_run) as graph:
        yield graph


def _run(call: Invocation, work: Callable[[], Document]) -> Document:
    """Run it; of conflicts, list all on stderr before they end the command."""
    try:
        return work()
    except MergeConflicts as error:
        if not call.flags.json:
            for conflict in error.details["conflicts"]:
                note(f"{conflict['kind']}  {conflict['message']}")
        raise


def _answer(call: Invocation, document: Document, text: str) -> None:
    def show() -> None:
        put(text + replayed(document))
        stats = document["stats"]
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
            (conflict["kind"], conflict["table_key"], conflict["row_id"], conflict["message"])
            for conflict in conflicts
        ],
    )
