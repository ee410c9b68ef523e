"""`omnigraph alias`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from omnigraph.cli.address import scope
from omnigraph.cli.call import Call
from omnigraph.cli.formats import Format
from omnigraph.cli.operator.config import Alias, Operator
from omnigraph.cli.register import add
from omnigraph.cli.source import ParamsFileOption, ParamsOption, read_params
from omnigraph.errors import BadRequest

FormatOption = Annotated[
    Format | None, typer.Option("--format", help="How the rows are printed, `table` by default.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "alias", alias)


def alias(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The alias, as config.yaml has it.")],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARG", help="Values of its parameters: JSON, or else texts."),
    ] = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    format: FormatOption = None,
) -> None:
    """Run a stored query of a server under a name of your own."""
    if call.flags.json and format is not None:
        raise typer.BadParameter("--json excludes --format")
    found = _find(call.operator, name)
    bind_params(found, args or [], read_params(params, params_file))
    server = scope("server", found.server, found.graph, call.operator)
    raise BadRequest(
        f"alias `{name}` is the query `{found.query}` of {server.uri}, and this version of "
        "omnigraph reaches no servers; run the text of the query with omnigraph query"
    )


def bind_params(found: Alias, args: Sequence[str], given: Any) -> Mapping[str, Any]:
    """Return the parameters of the query: those of the alias, then the arguments, then ``given``."""
    if len(args) > len(found.args):
        takes = ", ".join(found.args) or "none"
        raise BadRequest(
            f"alias `{found.name}` was given {len(args)} arguments and takes {takes}; drop the rest"
        )
    if given is not None and not isinstance(given, Mapping):
        raise BadRequest("the parameters must be a JSON object keyed by parameter name")
    positional = dict(zip(found.args, map(_value, args), strict=False))
    return {**found.params, **positional, **(given or {})}


def _find(operator: Operator, name: str) -> Alias:
    operator.refuse_faulty("aliases", name)
    if name not in operator.aliases:
        known = ", ".join(sorted(operator.aliases))
        has = f"has the aliases {known}" if known else "has no aliases"
        raise BadRequest(f"there is no alias `{name}`; config.yaml {has}")
    return operator.aliases[name]


def _value(text: str) -> Any:
    """Return what an argument means: JSON if it is some, otherwise the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
