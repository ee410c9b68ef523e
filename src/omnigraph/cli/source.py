"""Query texts and parameters as flags give them: a file, standard input, or the text itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from omnigraph.errors import BadRequest

STDIN = "-"

QueryNameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The query, where the source has several.")
]
QueryOption = Annotated[
    str | None, typer.Option("--query", metavar="FILE", help="The queries (.gq); - reads stdin.")
]
InlineOption = Annotated[
    str | None,
    typer.Option(
        "-e", "--query-string", metavar="TEXT", help="The query itself, instead of a file."
    ),
]
ParamsOption = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="The parameters, a JSON object.")
]
ParamsFileOption = Annotated[
    str | None,
    typer.Option("--params-file", metavar="FILE", help="The parameters in a file; - reads stdin."),
]


def refuse_stored_query(name: str | None, query: str | None, inline: str | None) -> None:
    """A name without a source is that of a query kept by a server, which is not there yet."""
    if name is not None and query is None and inline is None:
        raise BadRequest(
            f"`{name}` without a source would be a stored query of a server, and there is no "
            "--server in this version; pass the source with --query FILE or -e TEXT"
        )


def read_query(query: str | None, inline: str | None, params_file: str | None) -> str | Path:
    """The source text, or the file that holds it."""
    if query is not None and inline is not None:
        raise typer.BadParameter("--query excludes -e")
    if query == params_file == STDIN:
        raise typer.BadParameter("--query - excludes --params-file -: stdin is read once")
    if inline is not None:
        if not inline.strip():
            raise BadRequest("-e is blank; give the text of a query")
        return inline
    if query is None:
        raise BadRequest("there is no query; pass --query FILE or -e TEXT")
    return read_stdin("--query") if query == STDIN else Path(query)


def read_params(text: str | None, file: str | None) -> Any:
    """The parameters as a JSON value, or None."""
    if text is not None and file is not None:
        raise typer.BadParameter("--params excludes --params-file")
    if file is not None:
        text = read_stdin("--params-file") if file == STDIN else _read(Path(file))
    if text is None:
        return None
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise BadRequest("the parameters nest too deep; give an object of plain values") from None
    except ValueError as error:  # also an integer of thousands of digits
        raise BadRequest(
            f"the parameters are not JSON ({error}); give an object keyed by parameter name"
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that gives every key once: of two values one would be dropped silently."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the parameters give `{twice}` twice; leave one out")
    return found


def _read(path: Path) -> str:
    from omnigraph.language import read_source

    return read_source(path)[0]


def read_stdin(flag: str) -> str:
    """All of standard input as text."""
    try:
        return open_stdin(flag).read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadRequest(f"stdin is not UTF-8 text (byte {error.start}); pipe UTF-8 in") from None


def open_stdin(flag: str) -> BinaryIO:
    """Standard input as it is."""
    if sys.stdin is None:
        raise BadRequest(f"{flag} is - and stdin is closed; pipe the input in, or give a file")
    return sys.stdin.buffer
