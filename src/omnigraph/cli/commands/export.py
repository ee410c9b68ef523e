"""`omnigraph export`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import StdoutBytes, note
from omnigraph.cli.progress_line import export_progress
from omnigraph.cli.shared_options import TargetOptions, UriArgument
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.runner.executors import EngineName
from omnigraph.service import loads as service

STDOUT = "-"


def export(
    call: Invocation,
    target: TargetOptions,
    uri: UriArgument = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="A node or edge type; may be repeated."),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "--output",
            metavar="FILE",
            help="Where to write, a file or directory; - is stdout.",
        ),
    ] = STDOUT,
    format: Annotated[
        Literal["jsonl", "csv", "parquet", "arrow"] | None,
        typer.Option(
            "--format",
            help="JSON lines, or files of columns; what the name of FILE says by default.",
        ),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="The engine that reads and sorts.")
    ] = "auto",
) -> None:
    """Write every node and edge of one snapshot as JSON lines, or types as files of columns."""
    if call.flags.json:
        raise BadRequest("--json cannot be used with export, which writes JSON lines; leave it out")
    stdout = StdoutBytes()
    request = service.ExportRequest(
        type_names=None if types is None else tuple(types),
        format=format,
        engine=engine,
        **target.read(),
    )
    with (
        export_progress(call.flags) as progress,
        call.reach(call.address(uri)) as side,
    ):
        where = cast("Any", stdout) if out == STDOUT else out
        document = side.export(request, where, progress)
    stdout.flush()
    if not call.flags.quiet:
        note(_said(document))


def _said(document: dict[str, Any]) -> str:
    records = counted(document["stats"]["records"], "record")
    said = f"exported {records} of commit {document['graph_commit_id']}"
    if not document.get("leased", True):
        said += "; the graph cannot be written to, so cleanup could not know about this export"
    return f"{said}; {document['note']}" if document.get("note") else said
