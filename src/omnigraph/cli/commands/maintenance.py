"""Commands that keep a graph in shape; they open its storage themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import made_commit, note, put
from omnigraph.cli.progress_line import optimize_progress, verify_progress
from omnigraph.cli.shared_options import BranchOption, UriArgument, seconds_of
from omnigraph.cli.text_tables import put_table
from omnigraph.display.text import counted
from omnigraph.errors import GraphMoved
from omnigraph.service import maintenance as service
from omnigraph.service.documents import Document

FAILED = 1
"""The exit code when something could not be done, or is not as it should be."""


def optimize(call: Invocation, uri: UriArgument = None, branch: BranchOption = None) -> None:
    """Merge small fragments of tables, complete their indexes, and build those that are missing."""
    address = call.storage(uri)
    with optimize_progress(call.flags) as progress, call.open(address) as graph:
        document, remarks = service.optimize(graph, branch, address.uri, progress=progress)
    for text in remarks.warnings:
        note(f"warning: {text}")
    tables = document["tables"]
    call.answer(
        document, lambda: _put_optimized(tables), "1 commit made" if remarks.commits else None
    )
    drifted = [row["table_key"] for row in tables if row["skipped"] == "drift_needs_repair"]
    if drifted:
        names = ", ".join(drifted)
        note(f"another program wrote to {names}, which was left alone: run omnigraph repair")
    failed = [row["table_key"] for row in tables if row["error"] is not None]
    if failed:
        names = ", ".join(failed)
        note(f"error: something was left out of these tables: {names}; their rows say why")
        raise typer.Exit(FAILED)


def _put_optimized(tables: list[Document]) -> None:
    columns = (
        "table",
        "fragments merged",
        "into",
        "version",
        "skipped",
        "pending indexes",
        "error",
    )
    put_table(
        columns,
        [
            [
                row["table_key"],
                row["fragments_removed"],
                row["fragments_added"],
                row["manifest_version"],
                row["skipped"],
                ", ".join(row["pending_indexes"]) or None,
                row["error"],
            ]
            for row in tables
        ],
    )


def ensure_indices(
    call: Invocation,
    uri: UriArgument = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE[.PROPERTY]]...", help="With --rebuild: only these indexes."),
    ] = None,
    branch: BranchOption = None,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Build indexes anew although they are there."),
    ] = False,
) -> None:
    """Build the declared indexes that are missing or damaged, and complete those that do not cover all rows."""
    chosen = names or []
    if uri is not None and call.names_graph(None):
        # The graph is named by a flag, so the first word is a table.
        chosen, uri = [uri, *chosen], None
    if chosen and not rebuild:
        raise typer.BadParameter(
            f"{chosen[0]} names an index to build anew: pass --rebuild as well"
        )
    address = call.storage(uri)
    with call.open(address) as graph:
        document, remarks = service.ensure_indices(
            graph, branch, address.uri, rebuild=tuple(chosen) or rebuild
        )
    for text in remarks.warnings:
        note(f"warning: {text}")
    lines = [f"built {key} {name}" for key, name in document["built"]]
    lines += remarks.lines
    lines += [
        f"failed {index['table_key']} {index['property']}: {index['error']}"
        for index in document["failed"]
    ]
    text = "\n".join(lines) or "every index is there and covers all rows"
    call.answer(document, text, made_commit(document))
    if document["failed"]:
        raise typer.Exit(FAILED)


def repair(
    call: Invocation,
    uri: UriArgument = None,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Repair tables on which only maintenance happened."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --confirm: repair the others too, as they are now."),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo", help="With --confirm: put all of them back to what the graph knows."
        ),
    ] = False,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved", help="The original of this graph is gone: it keeps its id, or gets it back."
        ),
    ] = False,
) -> None:
    """Look for tables that another program wrote to; with --confirm, take over what is there.

    A graph that was copied or moved is settled where it lies, as by every command that writes.
    """
    if force and undo:
        raise typer.BadParameter("--force takes over what is there, --undo undoes it: pass one")
    if force and not confirm:
        raise typer.BadParameter("--force repairs whatever is there: pass --confirm as well")
    if undo and not confirm:
        raise typer.BadParameter("--undo undoes whatever is there: pass --confirm as well")
    # What is only shown is read from a graph that is opened for reading.
    call = _writing(call, confirm or moved)
    address = call.storage(uri)

    def run(call: Invocation) -> tuple[Document, service.Remarks]:
        with call.open(address, moved=moved) as graph:
            return service.repair(
                graph, confirm=confirm, force=force, undo=undo, uri=address.uri, moved=moved
            )

    try:
        document, remarks = run(call)
    except GraphMoved:
        document, remarks = run(_writing(call, True))
        note(f"the graph is settled at {address.uri} now")
    tables, count = document["tables"], remarks.commits
    done = f"{counted(count, 'commit')} made" if count else None
    call.answer(document, lambda: _put_judged(tables), done)
    refused = [row["table_key"] for row in tables if row["action"] == "refused"]
    if refused:
        names = ", ".join(dict.fromkeys(refused))
        why = "another program changed the rows; look at them, then pass --force to take them over, or --undo"
        if force or undo:
            why = "moving the pin would not help; the table says why"
        note(f"error: refused to repair {names}: {why}")
        raise typer.Exit(FAILED)
    drifted = any(row["classification"] != "no_drift" for row in tables)
    if drifted and not confirm:
        note("nothing was changed; pass --confirm to repair what only maintenance has moved")


def _writing(call: Invocation, writes: bool) -> Invocation:
    return replace(call, command=replace(call.command, writes=writes))


def _put_judged(tables: list[Document]) -> None:
    put_table(
        ("table", "branch", "pinned", "newest", "found", "action", "operations", "error"),
        [
            [
                row["table_key"],
                row["table_branch"] or "main",
                row["manifest_version"],
                row["lance_head_version"],
                row["classification"],
                row["action"],
                ", ".join(row["operations"]) or None,
                row["error"],
            ]
            for row in tables
        ],
    )


def cleanup(
    call: Invocation,
    uri: UriArgument = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", min=1, help="Keep the newest N versions of each table."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DUR",
            help="Keep what is younger: a number and s, m, h, d or w.",
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Remove it; without this, only show what would go.")
    ] = False,
) -> None:
    """Remove old versions that nothing needs; without --confirm, show what would go."""
    seconds = None if older_than is None else seconds_of("--older-than", older_than, "7d")
    request = service.CleanupRequest(keep_versions=keep, older_than_secs=seconds, confirm=confirm)
    # What is only shown needs no consent, and its graph is opened for reading.
    call = replace(call, command=replace(call.command, writes=confirm))
    address = call.storage(uri)
    if confirm:
        call.consent(address, "removing old versions")
    with call.open(address) as graph:
        document, remarks = service.cleanup(graph, request, address.uri)
    _say_what_stays(document, remarks.warnings, older_than)
    done = "old versions were removed" if confirm else None
    call.answer(document, lambda: _put_removed(document), done)
    failed = [row["table_key"] for row in document["tables"] if row["error"] is not None]
    if failed:
        names = ", ".join(dict.fromkeys(failed))
        note(f"error: these tables could not be cleaned up: {names}; run it again")
        raise typer.Exit(FAILED)


def _say_what_stays(document: Document, warnings: Sequence[str], older_than: str | None) -> None:
    """Say on stderr what stays, and what to mind."""
    newest, preview = document["keep_versions"], document.get("preview")
    parts = [] if newest is None else [f"the newest {counted(newest, 'version')} of each table"]
    if older_than is not None:
        parts.append(f"what is younger than {older_than.strip()}")
    doing = "would keep" if preview else "kept"
    end = "; pass --confirm to remove the rest" if preview else ""
    note(f"{doing} {' and '.join(parts)}, and all that branches, tags and readers need{end}")
    for warning in warnings:
        note(f"warning: {warning}")


def _put_removed(document: Document) -> None:
    shown: list[list[Any]] = [
        [
            row["table_key"],
            row["table_branch"] or "main",
            row["old_versions_removed"],
            row["bytes_removed"],
            len(row["why_kept"]),
            row["error"],
        ]
        for row in document["tables"]
    ]
    goes = "goes" if document.get("preview") else "gone"
    put_table(("table", "branch", f"versions {goes}", "bytes", "versions kept", "error"), shown)


def verify(
    call: Invocation,
    uri: UriArgument = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Decode every file, and compare indexes with their columns."),
    ] = False,
) -> None:
    """Read every file that a kept state names; say what is lost or damaged, and how to mend it."""
    address = call.storage(uri)
    with verify_progress(call.flags) as progress:
        document = service.verify(
            lambda: call.open(address), address.uri, deep=deep, progress=progress
        )
    call.answer(document, lambda: _put_problems(document))
    count = sum(len(row["problems"]) for row in document["tables"])
    if count:
        note(f"error: {counted(count, 'problem')} found")
        raise typer.Exit(FAILED)


def _put_problems(document: Document) -> None:
    put_table(
        ("table", "branch", "versions", "files", "bytes", "rows", "problems"),
        [
            [
                row["table_key"],
                row["branch"],
                row["versions"],
                row["files"],
                row["bytes"],
                row["rows"],
                len(row["problems"]),
            ]
            for row in document["tables"]
        ],
    )
    for row in document["tables"]:
        for problem in row["problems"]:
            where = "" if problem["file"] is None else f" {problem['file']}:"
            needed = f" (needed by {', '.join(problem['states'])})" if problem["states"] else ""
            put(
                f"{problem['kind']}: {row['table_key']} on {row['branch']}:{where} {problem['detail']}{needed}"
            )
            put(f"  mend: {problem['mend']}")
    if not any(row["problems"] for row in document["tables"]):
        put("no problem found" if document["deep"] else "no problem found; --deep reads all of it")
