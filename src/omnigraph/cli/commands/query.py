"""`omnigraph query`, `explain`, `mutate` and `lint`: commands that take the text of a query."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.address import Server
from omnigraph.cli.call import Invocation
from omnigraph.cli.formats import TABLE_ROWS, Format, TableStyle, render
from omnigraph.cli.output import (
    is_utf8_output,
    made_commit,
    note,
    on_terminal,
    put,
    put_piece,
    readable,
    replayed,
    report,
)
from omnigraph.cli.shared_options import (
    STDIN,
    AsOfOption,
    BranchOption,
    CommitFlags,
    FormatOption,
    IfCommitOption,
    QueryOptions,
    TargetOptions,
    TimeoutOption,
    UriArgument,
    UriOption,
    naming_file,
    read_file,
    read_params,
    read_stdin,
    time_limit,
)
from omnigraph.cli.sides.side import NO_CONDITIONS, WriteConditions
from omnigraph.cli.text_tables import put_table
from omnigraph.display.text import cell_text, counted, query_text
from omnigraph.errors import BadRequest, SourceError
from omnigraph.service import query as service
from omnigraph.service import wire
from omnigraph.service.documents import Document, Streamed
from omnigraph.spans import Span

MaxRowsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rows",
        metavar="N",
        min=1,
        max=service.MAX_ROWS,
        help="Show the first N rows at most.",
    ),
]
ProfileOption = Annotated[
    bool, typer.Option("--profile", help="Run the query, too, and show where its time goes.")
]

SEVERITIES = ("error", "warning", "info")


def query(
    call: Invocation,
    source: QueryOptions,
    target: TargetOptions,
    as_of: AsOfOption = None,
    timeout: TimeoutOption = None,
    max_rows: MaxRowsOption = None,
    format: FormatOption = None,
    uri: UriOption = None,
) -> None:
    """Run a read query and print its rows."""
    if call.flags.json and format is not None:
        raise typer.BadParameter("--json excludes --format")
    state = target.read()
    default = call.operator.defaults.output or Format.TABLE
    chosen = Format.JSON if call.flags.json else format or Format(default)
    most = TABLE_ROWS if max_rows is None and chosen is Format.TABLE else max_rows
    if source.stored is not None:
        if timeout is not None:
            raise BadRequest("--timeout cannot be told to a stored query; leave it out")
        params = read_params(source.params, source.params_file)
        body = wire.InvokeBody(
            params=params, max_rows=most, expect_mutation=False, as_of=as_of, **state
        )
        put_rows(call, invoked(call, uri, source.stored, body), chosen, asked_for=max_rows)
        return
    text, params = source.read()
    seconds = time_limit(timeout)
    request = wire.QueryBody(
        query=text,
        name=source.name,
        params=params,
        max_rows=most,
        timeout_ms=None if seconds is None else seconds * 1000,
        as_of=as_of,
        **state,
    )
    address = call.address(uri)
    with source.named_in_errors(), call.reach(address, seconds=seconds) as side:
        # Inside, because the rows of a server are read while they are printed.
        put_rows(call, side.query(request), chosen, asked_for=max_rows)


def invoked(
    call: Invocation,
    uri: str | None,
    name: str,
    body: wire.InvokeBody,
    said: WriteConditions = NO_CONDITIONS,
) -> Document:
    """Run a stored query of a server, and return its document."""
    address = call.address(uri)
    if not isinstance(address, Server):
        raise BadRequest(
            f"`{name}` without a source is a stored query, which servers have, and {address.uri} is storage; "
            "pass the source with --query FILE or -e TEXT, or --server"
        )
    with call.reach(address) as side:
        return side.ask("invoke", body, name, said=said)


def put_rows(
    call: Invocation, given: Streamed | Document, format: Format, *, asked_for: int | None = None
) -> None:
    """Write the rows of an answer, and say if they are not all."""
    answer = given if isinstance(given, Streamed) else _streamed(given)
    put_answer(call, answer, format)
    if answer.end().get("truncated"):
        shown, total = answer.head["row_count"], answer.end()["total_rows"]
        more = "; --format csv or jsonl prints all, --max-rows more" if asked_for is None else ""
        note(f"these are the first {shown:,} of {counted(total, 'row')}{more}")


def _streamed(document: Document) -> Streamed:
    """Return the document of a query in the form that answers of any length have."""
    behind = {"graph_commit_id", "truncated", "total_rows"}
    head = {name: value for name, value in document.items() if name not in {"rows", *behind}}
    tail = {name: value for name, value in document.items() if name in behind}
    rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in document["rows"]]
    return Streamed(head, "rows", [rows], tail)


def put_answer(call: Invocation, answer: Streamed, format: Format) -> None:
    """Write the rows of an answer; a table as the screen and the operator's file want it."""
    defaults = call.operator.defaults
    style = TableStyle(
        shutil.get_terminal_size().columns if on_terminal() else None,
        defaults.table_max_column_width,
        defaults.table_cell_layout == "wrap",
    )
    for piece in render(answer, format, ascii_only=not is_utf8_output(), style=style):
        put_piece(piece)


def explain(
    call: Invocation,
    source: QueryOptions,
    target: TargetOptions,
    as_of: AsOfOption = None,
    timeout: TimeoutOption = None,
    profile: ProfileOption = False,
    uri: UriOption = None,
) -> None:
    """Show what a read query would do, without running it."""
    state = target.read()
    source.refuse_stored()
    text, params = source.read()
    seconds = time_limit(timeout)
    request = wire.ExplainBody(
        query=text,
        name=source.name,
        params=params,
        profile=profile,
        timeout_ms=None if seconds is None else seconds * 1000,
        as_of=as_of,
        **state,
    )
    address = call.address(uri)
    with source.named_in_errors(), call.reach(address, seconds=seconds) as side:
        document = side.ask("explain", request)
    call.answer(document, lambda: put_explanation(document))


def put_explanation(document: dict[str, Any]) -> None:
    """Write the steps of a plan, and below them the phases of its run if it was measured."""
    put(readable("\n".join(_lines(document))))
    if "profile" in document:
        from omnigraph.read.profile import COLUMNS

        put(counted(document["row_count"], "row"))
        phases = list(_phases(document["profile"], ""))
        put_table(COLUMNS, phases, right=COLUMNS[1:])


def _lines(document: dict[str, Any]) -> Iterator[str]:
    from omnigraph.manifest.snapshot import Target

    target = Target(**document["target"])
    yield f"{query_text(document['query_name'])} on {target}, commit {document['graph_commit_id']}"
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
    if document.get("summed_away"):
        names = ", ".join(f"${name}" for name in document["summed_away"])
        yield f"summed away: {names}"
    if document.get("as_of") is not None:
        yield f"$as_of: {document['as_of']}"
    yield f"path: {document['path']}"


def _phases(
    phases: list[dict[str, Any]], indent: str
) -> Iterator[tuple[str, int | None, int | None, str, int | None]]:
    for phase in phases:
        spent = f"{phase['milliseconds']:.2f}"
        rows = phase["estimated_rows"], phase["rows"]
        yield indent + phase["name"], *rows, spent, phase["bytes"]
        yield from _phases(phase["phases"], indent + "  ")


def mutate(
    call: Invocation,
    source: QueryOptions,
    made: CommitFlags,
    branch: BranchOption = None,
    if_commit: IfCommitOption = None,
    uri: UriOption = None,
) -> None:
    """Run a mutation as one commit, or change nothing."""
    said = made.conditions(if_commit)
    if source.stored is not None:
        params = read_params(source.params, source.params_file)
        body = wire.InvokeBody(
            params=params, branch=branch, expect_mutation=True, message=made.message
        )
        document = invoked(call, uri, source.stored, body, said)
    else:
        text, params = source.read()
        request = wire.MutateBody(
            query=text, name=source.name, params=params, branch=branch, message=made.message
        )
        with source.named_in_errors(), call.reach(call.address(uri)) as side:
            document = side.ask("mutate", request, said=said)
    call.answer(document, lambda: put_mutation(document), made_commit(document))


def put_mutation(document: Document) -> None:
    """Write what a mutation did, and below it the rows of its `return`."""
    put(_mutation_text(document))
    if document.get("rows") is not None:
        names = document["columns"]
        rows = [[_shown(value) for value in row.values()] for row in document["rows"]]
        put_table(names, rows)


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else cell_text(value)


def _mutation_text(document: Document) -> str:
    """Return what a mutation did, from its document."""
    commit = document["commit"]
    made = "no commit" if commit is None else f"commit {commit['graph_commit_id']}"
    counts = f"{counted(document['affected_nodes'], 'node')}, {counted(document['affected_edges'], 'edge')}"
    return f"{query_text(document['query_name'])}: {counts}; {made}{replayed(document)}"


def lint(
    call: Invocation,
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
    if schema is not None:
        checked = service.LintRequest(source=source, query_path=query)
        with naming_file(schema):
            document = service.lint_with_schema(read_file(schema), str(schema), checked)
    elif address is None:
        raise BadRequest("lint needs a schema: pass --schema FILE, or the URI of a graph")
    else:
        with call.reach(address) as side:
            document = side.ask("lint", wire.LintBody(source=source, query_path=query))
    call.answer(document, lambda: _put_checked(document))
    _report_failures(document, source)
    if document["errors"]:
        raise typer.Exit(1)


def _report_failures(document: dict[str, Any], source: str) -> None:
    """Print each error with its underlined source line on stderr."""
    path = None if document["query_path"] == STDIN else document["query_path"]
    broken = [
        (fault["message"], fault) for fault in document["findings"] if fault["severity"] == "error"
    ]
    failing = [(fault["error"], fault) for fault in document["results"] if "error" in fault]
    for message, fault in (*broken, *failing):
        facts = fault.get("diagnostic", {})
        span = Span(**facts["span"]) if "span" in facts else None
        report(
            SourceError(message, span=span, source=source, filename=path, hint=facts.get("hint"))
        )


def _put_checked(document: dict[str, Any]) -> None:
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
        f"{counted(document['queries_processed'], 'query', 'queries')}: "
        + ", ".join(counted(document[f"{word}s"], word) for word in SEVERITIES)
    )
    put(readable("\n".join(lines)))
