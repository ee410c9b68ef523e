"""`omnigraph explain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.output import printable, put
from omnigraph.cli.register import UriOption, add
from omnigraph.cli.source import QueryOptions, TimeoutOption, time_limit
from omnigraph.cli.tables import put_table
from omnigraph.cli.targets import TargetOptions
from omnigraph.display.text import counted
from omnigraph.service import query as service

ProfileOption = Annotated[
    bool, typer.Option("--profile", help="Run the query, too, and show where its time goes.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "explain", explain)


def explain(
    call: Call,
    source: QueryOptions,
    target: TargetOptions,
    timeout: TimeoutOption = None,
    profile: ProfileOption = False,
    uri: UriOption = None,
) -> None:
    """Show what a read query would do, without running it."""
    state = target.read()
    source.refuse_stored()
    text, params = source.read()
    request = service.ExplainRequest(
        query=text, name=source.name, params=params, profile=profile, **state
    )
    with time_limit(timeout), source.named_in_errors(), call.open(call.address(uri)) as graph:
        document = service.explain(graph, request)
    call.answer(document, lambda: put_explanation(document))


def put_explanation(document: dict[str, Any]) -> None:
    """Write the steps of a plan, and below them the phases of its run if it was measured."""
    put(printable("\n".join(_lines(document))))
    if "profile" in document:
        from omnigraph.read.profile import COLUMNS

        put(counted(document["row_count"], "row"))
        phases = list(_phases(document["profile"], ""))
        put_table(COLUMNS, phases, right=COLUMNS[1:])


def _lines(document: dict[str, Any]) -> Iterator[str]:
    from omnigraph.manifest.snapshot import Target

    target = Target(**document["target"])
    yield f"{document['query_name']} on {target}, commit {document['graph_commit_id']}"
    for step in document["steps"]:
        text = step["text"]
        indent = " " * (len(text) - len(text.lstrip()) + 4)
        yield text
        if step["table_key"] is not None:
            cached = ", in memory" if step["cached"] else ""
            yield f"{indent}{step['table_key']}: {counted(step['rows'], 'row')}{cached}"
        for index in step["indexes"]:
            column = f"{index['table_key']}.{index['column']}"
            yield f"{indent}index {column} ({index['kind']}): {index['coverage']}"
    for step in document.get("order") or ():
        yield f"run: {step['text']} (about {counted(step['estimated_rows'], 'row')})"
    if document.get("order_unknown") is not None:
        yield f"order: not known yet, {document['order_unknown']}"
    yield f"path: {document['path']}"


def _phases(
    phases: list[dict[str, Any]], indent: str
) -> Iterator[tuple[str, int | None, int | None, str, int | None]]:
    for phase in phases:
        spent = f"{phase['milliseconds']:.2f}"
        rows = phase["estimated_rows"], phase["rows"]
        yield indent + phase["name"], *rows, spent, phase["bytes"]
        yield from _phases(phase["phases"], indent + "  ")
