"""`omnigraph lint`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.command import reads_graph
from omnigraph.cli.output import printable, put, report
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.source import STDIN, read_stdin
from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    from omnigraph.lang.query.lint import LintReport


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, reads_graph("lint"), lint)


def lint(
    call: Call,
    query: Annotated[
        str, typer.Option("--query", metavar="FILE", help="The queries (.gq); - reads stdin.")
    ],
    uri: UriArgument = None,
    schema: Annotated[
        Path | None,
        typer.Option("--schema", metavar="FILE", help="The schema (.pg), instead of a graph's."),
    ] = None,
) -> None:
    """Check queries against a schema, without running them."""
    import omnigraph

    if schema is not None and call.names_graph(uri):
        raise BadRequest("lint was given both --schema FILE and a graph; drop one")
    address = None if schema is not None else call.find_address(uri)
    source = read_stdin("--query") if query == STDIN else Path(query)
    if schema is not None:
        found = omnigraph.lint(schema, source)
    elif address is None:
        raise BadRequest("lint needs a schema: pass --schema FILE, or the URI of a graph")
    else:
        with call.open(address) as graph:
            accepted = graph.schema.source
        found = omnigraph.lint(accepted, source)
        found = replace(found, schema_source={"kind": "graph", "uri": address.uri})
    found = replace(found, query_path=query)
    call.answer(found.to_json(), lambda: _put(found))
    _report_failures(found)
    if found.errors:
        raise typer.Exit(1)


def _report_failures(found: LintReport) -> None:
    """Print each error with its underlined source line on stderr."""
    if found.failure is not None:
        report(found.failure)
    for result in found.results:
        if result.failure is not None:
            report(result.failure)


def _put(found: LintReport) -> None:
    lines = []
    for result in found.results:
        lines.append(f"{'error' if result.failure else 'ok':<7} {result.kind} {result.name}")
        lines += [f"warning {text}" for text in result.warnings]
    lines += [
        f"{finding.severity:<7} {finding.code} {finding.message}"
        for finding in found.findings
        if finding.severity != "error"
    ]
    counts = [("error", found.errors), ("warning", found.warnings), ("info", found.infos)]
    lines.append(
        f"{_count_text(len(found.results), 'query', 'queries')}: "
        + ", ".join(_count_text(number, word, f"{word}s") for word, number in counts)
    )
    put(printable("\n".join(lines)))


def _count_text(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
