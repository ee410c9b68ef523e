"""`omnigraph purge`: take nodes with their edges, and edges, out of a graph for good."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import note, put
from omnigraph.cli.shared_options import OperationOption, UriArgument
from omnigraph.cli.sides.side import WriteConditions
from omnigraph.cli.text_tables import put_table
from omnigraph.display.text import counted, size_text
from omnigraph.errors import BadRequest
from omnigraph.service import wire
from omnigraph.service.documents import Document


def purge(
    call: Invocation,
    uri: UriArgument = None,
    entities: Annotated[
        list[str] | None,
        typer.Argument(metavar="TYPE=ID", help="A node or edge, such as Person=ann."),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="A file with one TYPE=ID on each line."),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="Why; the audit of the graph keeps it."),
    ] = None,
    operation_id: OperationOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Purge; without this, only show what would go.")
    ] = False,
) -> None:
    """Remove nodes with their edges, and edges, for good: from every branch, version, index and cache."""
    named = _named([*(entities or ()), *_lines(from_file)])
    if not named:
        raise BadRequest("name at least one entity to purge as TYPE=ID, such as Person=ann")
    request = wire.PurgeBody(entities=named, reason=reason, dry_run=not confirm)
    call = replace(call, command=replace(call.command, writes=confirm))
    address = call.address(uri, read_only=not confirm)
    count = counted(sum(map(len, named.values())), "entity", "entities")
    if confirm:
        call.consent(address, f"purging {count} for good")
    with call.reach(address) as side:
        document = side.ask("purge", request, said=WriteConditions(operation_id=operation_id))
    found = bool(document["purged"])
    done = f"{count} purged" if confirm and found else None
    call.answer(document, lambda: _put(document), done)
    if found and not confirm and not call.flags.json:
        way = "pass --confirm to purge"
        if document["obstacles"]:
            way = "a purge is refused until nothing is in the way"
        note(f"nothing was changed; {way}")


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"--from-file {path} cannot be read ({error}); check the path") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _named(words: list[str]) -> dict[str, list[str]]:
    """Return the ids by type; what follows the first `=` is the id."""
    named: dict[str, list[str]] = {}
    for word in words:
        kind, found, named_id = word.partition("=")
        if not found or not kind or not named_id:
            raise BadRequest(f"{word!r} names no entity; write TYPE=ID, such as Person=ann")
        named.setdefault(kind, []).append(named_id)
    return named


def _put(document: Document) -> None:
    missing = f"{counted(document['not_found'], 'id')} found nowhere"
    if not document["purged"]:
        put(f"nothing to purge: {missing}")
        return
    put_table(("type", "entities"), list(document["purged"].items()))
    if document["not_found"]:
        put(missing)
    if document["dry_run"]:
        for one in document["obstacles"]:
            put(f"in the way: {one['kind']} {one['name']} keeps rows of {one['table_key']}")
        put(f"{counted(len(document['unreadable']), 'commit')} could not be read afterwards")
        return
    versions, files = document["versions_removed"], document["files_removed"]
    size = size_text(document["bytes_removed"])
    put(f"removed {counted(versions, 'version')} of tables, {counted(files, 'file')}, {size}")
    if document["verified"] is not None:
        put(f"searched {counted(document['verified']['files'], 'file')} afterwards")
    put(f"operation {document['operation_id']}, salt {document['salt'] or 'in the first answer'}")
