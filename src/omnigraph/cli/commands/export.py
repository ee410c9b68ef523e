"""`omnigraph export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import StdoutBytes, note
from omnigraph.cli.progress import export_progress
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.targets import TargetOptions
from omnigraph.errors import BadRequest
from omnigraph.manifest.snapshot import Target
from omnigraph.pipeline.load_options import EngineName

if TYPE_CHECKING:
    from omnigraph.changes.export.export import ExportResult

STDOUT = "-"


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("export"), export)


def export(
    call: Call,
    target: TargetOptions,
    uri: UriArgument = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="A node or edge type; may be repeated."),
    ] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Where to write; - is stdout.")
    ] = STDOUT,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="The engine that reads and sorts.")
    ] = "auto",
) -> None:
    """Write every node and edge of one snapshot as JSON lines, which load takes back."""
    from omnigraph.graph.history import exports
    from omnigraph.graph.session import access_of

    if call.flags.json:
        raise BadRequest("--json cannot be used with export, which writes JSON lines; leave it out")
    state, stdout = target.read(), StdoutBytes()
    with (
        export_progress(call.flags) as progress,
        call.open(call.address(uri)) as graph,
    ):
        result = exports.export(
            access_of(graph),
            cast("Any", stdout) if out == STDOUT else out,
            Target.of(**state),
            types,
            engine,
            progress,
            # The handle is read-only because nothing is changed; others must know about the read.
            lease=True,
        )
    stdout.flush()
    if not call.flags.quiet:
        note(_said(result))


def _said(result: ExportResult) -> str:
    said = f"exported {result.records} records of commit {result.graph_commit_id}"
    if not result.leased:
        said += "; the graph cannot be written to, so cleanup could not know about this export"
    return said if result.note is None else f"{said}; {result.note}"
