"""`omnigraph query`."""

from __future__ import annotations

import shutil
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.formats import TABLE_ROWS, Format, TableStyle, render
from omnigraph.cli.output import is_utf8_output, note, on_terminal, put_piece
from omnigraph.cli.register import UriOption, add
from omnigraph.cli.source import QueryOptions, TimeoutOption, time_limit
from omnigraph.cli.targets import TargetOptions
from omnigraph.display.text import counted
from omnigraph.service.documents import Streamed
from omnigraph.service.query import MAX_ROWS, QueryRequest
from omnigraph.service.query import query as run_query

FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How the rows are printed, `table` by default.")
]
MaxRowsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rows", metavar="N", min=1, max=MAX_ROWS, help="Show the first N rows at most."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "query", query)


def query(
    call: Call,
    source: QueryOptions,
    target: TargetOptions,
    timeout: TimeoutOption = None,
    max_rows: MaxRowsOption = None,
    format: FormatOption = None,
    uri: UriOption = None,
) -> None:
    """Run a read query and print its rows."""
    if call.flags.json and format is not None:
        raise typer.BadParameter("--json excludes --format")
    state = target.read()
    source.refuse_stored()
    text, params = source.read()
    default = call.operator.defaults.output or Format.TABLE
    chosen = Format.JSON if call.flags.json else format or Format(default)
    most = TABLE_ROWS if max_rows is None and chosen is Format.TABLE else max_rows
    request = QueryRequest(query=text, name=source.name, params=params, max_rows=most, **state)
    with time_limit(timeout), source.named_in_errors(), call.open(call.address(uri)) as graph:
        answer = run_query(graph, request)
    put_answer(call, answer, chosen)
    if answer.end().get("truncated"):
        shown, total = answer.head["row_count"], answer.end()["total_rows"]
        more = "; --format csv or jsonl prints all, --max-rows more" if max_rows is None else ""
        note(f"these are the first {shown:,} of {counted(total, 'row')}{more}")


def put_answer(call: Call, answer: Streamed, format: Format) -> None:
    """Write the rows of an answer; a table as the screen and the operator's file want it."""
    defaults = call.operator.defaults
    style = TableStyle(
        shutil.get_terminal_size().columns if on_terminal() else None,
        defaults.table_max_column_width,
        defaults.table_cell_layout == "wrap",
    )
    for piece in render(answer, format, ascii_only=not is_utf8_output(), style=style):
        put_piece(piece)
