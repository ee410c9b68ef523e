"""`omnigraph lint`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import printable, put, report
from omnigraph.cli.register import UriArgument, add
from omnigraph.cli.source import STDIN, naming_file, read_file, read_stdin
from omnigraph.errors import BadRequest, SourceError
from omnigraph.service import lint as service
from omnigraph.spans import Span

SEVERITIES = ("error", "warning", "info")


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "lint", lint)


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
    if schema is not None and call.names_graph(uri):
        raise BadRequest("lint was given both --schema FILE and a graph; drop one")
    address = None if schema is not None else call.find_address(uri)
    source = read_stdin("--query") if query == STDIN else read_file(query)
    request = service.LintRequest(source=source, query_path=query)
    if schema is not None:
        with naming_file(schema):
            document = service.lint_with_schema(read_file(schema), str(schema), request)
    elif address is None:
        raise BadRequest("lint needs a schema: pass --schema FILE, or the URI of a graph")
    else:
        with call.open(address) as graph:
            document = service.lint(graph, request, address.uri)
    call.answer(document, lambda: _put(document))
    _report_failures(document, source)
    if document["errors"]:
        raise typer.Exit(1)


def _report_failures(document: dict[str, Any], source: str) -> None:
    """Print each error with its underlined source line on stderr."""
    path = None if document["query_path"] == STDIN else document["query_path"]
    broken = [(one["message"], one) for one in document["findings"] if one["severity"] == "error"]
    failing = [(one["error"], one) for one in document["results"] if "error" in one]
    for message, one in (*broken, *failing):
        facts = one.get("diagnostic", {})
        span = Span(**facts["span"]) if "span" in facts else None
        report(
            SourceError(message, span=span, source=source, filename=path, hint=facts.get("hint"))
        )


def _put(document: dict[str, Any]) -> None:
    lines = []
    for result in document["results"]:
        lines.append(f"{result['status']:<7} {result['kind']} {result['name']}")
        lines += [f"warning {text}" for text in result.get("warnings", ())]
    lines += [
        f"{finding['severity']:<7} {finding['code']} {finding['message']}"
        for finding in document["findings"]
        if finding["severity"] != "error"
    ]
    lines.append(
        f"{_count_text(document['queries_processed'], 'query', 'queries')}: "
        + ", ".join(_count_text(document[f"{word}s"], word, f"{word}s") for word in SEVERITIES)
    )
    put(printable("\n".join(lines)))


def _count_text(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
