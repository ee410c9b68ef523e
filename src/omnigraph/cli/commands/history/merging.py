"""`omnigraph branch merge`, and `omnigraph commit revert`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph.cli.address import Store
from omnigraph.cli.call import Call
from omnigraph.cli.output import note, put
from omnigraph.cli.register import BranchOption, UriOption
from omnigraph.cli.source import ResolveOption, read_resolve
from omnigraph.cli.tables import put_facts, put_table
from omnigraph.errors import MergeConflicts

if TYPE_CHECKING:
    from omnigraph.graph import Graph
    from omnigraph.write.merge.request import MergeResult


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

    def arguments(self) -> dict[str, Any]:
        """Return them as the methods of a graph take them."""
        return {
            "dry_run": self.dry_run,
            "resolve": read_resolve(self.resolve),
            "granularity": self.granularity,
            "images": self.images,
        }


def merge(
    call: Call,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge.")],
    flags: MergeFlags,
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
    arguments = flags.arguments()
    with _opened(call, uri, flags, f"deleting branch {source.strip()}", delete_branch) as graph:
        result = _run(
            call,
            lambda: graph.branches.merge(
                source, into, call.actor, delete_branch=delete_branch, **arguments
            ),
        )
    if result.branch_delete_error is not None:
        note(f"warning: branch {result.source} was not deleted: {result.branch_delete_error}")
    if result.dry_run:
        text = f"would merge {result.source} into {result.target}: {result.outcome}"
    else:
        text = f"merged {result.source} into {result.target}: {result.outcome}"
    _answer(call, result, text)


def revert(
    call: Call,
    graph_commit_id: Annotated[str, typer.Argument(metavar="ID", help="The commit to undo.")],
    flags: MergeFlags,
    branch: BranchOption = None,
    uri: UriOption = None,
) -> None:
    """Undo one commit of a branch as a new commit, or list all conflicts."""
    arguments = flags.arguments()
    target = "main" if branch is None else branch
    with _opened(call, uri, flags) as graph:
        result = _run(
            call,
            lambda: graph.commits.revert(graph_commit_id, target, call.actor, **arguments),
        )
    if result.dry_run:
        text = f"would revert {result.reverted} on {result.target}: {result.outcome}"
    elif result.commit is None:
        text = f"nothing of {result.reverted} to revert on {result.target}"
    else:
        text = f"reverted {result.reverted} on {result.target}"
    _answer(call, result, text)


@contextmanager
def _opened(
    call: Call, uri: str | None, flags: MergeFlags, act: str = "", asks: bool = False
) -> Iterator[Graph]:
    """Open the graph, for a dry run without writing; ``act`` needs the user's consent if it ``asks``."""
    address: Store = call.address(uri, read_only=flags.dry_run)
    if asks:
        call.consent(address, act)
    with call.open(address, read_only=flags.dry_run) as graph:
        yield graph


def _run(call: Call, work: Callable[[], MergeResult]) -> MergeResult:
    """Run it; of conflicts, list all on stderr before they end the command."""
    try:
        return work()
    except MergeConflicts as error:
        if not call.flags.json:
            for conflict in error.details["conflicts"]:
                note(f"{conflict['kind']}  {conflict['message']}")
        raise


def _answer(call: Call, result: MergeResult, text: str) -> None:
    def show() -> None:
        put(text)
        stats = result.stats
        facts: list[tuple[str, Any]] = [
            ("  inserts", stats.inserts),
            ("  updates", stats.updates),
            ("  deletes", stats.deletes),
        ]
        if stats.resolved:
            facts.append(("  resolved", stats.resolved))
        if result.commit is not None:
            facts.append(("  commit", result.commit.graph_commit_id))
        put_facts(facts)
        if result.conflicts:
            _put_conflicts([conflict.to_json() for conflict in result.conflicts])

    made = None if result.commit is None else f"commit {result.commit.graph_commit_id} is made"
    call.answer(result.to_json(), show, made)


def _put_conflicts(conflicts: Sequence[dict[str, Any]]) -> None:
    put_table(
        ("conflict", "table", "id", "what"),
        [(one["kind"], one["table_key"], one["row_id"], one["message"]) for one in conflicts],
    )
