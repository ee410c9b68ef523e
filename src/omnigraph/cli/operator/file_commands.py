"""`omnigraph alias`, `profile`, `login` and `logout`: the commands about the files of the operator."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from omnigraph import settings
from omnigraph.cli.address import Cluster, Server, binding_of, find_profile, scope
from omnigraph.cli.call import Invocation
from omnigraph.cli.formats import TABLE_ROWS, Format
from omnigraph.cli.operator.config import NAME, Alias, NamedGraph, Operator, ScopeKind
from omnigraph.cli.operator.credentials import read_tokens, write_tokens
from omnigraph.cli.output import note
from omnigraph.cli.shared_options import FormatOption, ParamsFileOption, ParamsOption, read_params
from omnigraph.cli.text_tables import put_facts, put_table
from omnigraph.errors import BadRequest
from omnigraph.service import wire

DEFAULTS = "(defaults)"
"""The name that stands for the defaults, where no profile is active."""
ServerArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The server, as config.yaml names it.")
]


def alias(
    call: Invocation,
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
    known = _find_alias(call.operator, name)
    bound = bind_params(known, args or [], read_params(params, params_file))
    from omnigraph.cli.commands.query import put_rows

    chosen = format or known.format or call.operator.defaults.output or Format.TABLE
    shown = Format.JSON if call.flags.json else Format(chosen)
    most = TABLE_ROWS if shown is Format.TABLE else None
    body = wire.InvokeBody(params=dict(bound), max_rows=most, expect_mutation=False)
    address = scope("server", known.server, known.graph, call.operator)
    assert isinstance(address, Server)
    with call.reach(call.with_graph(address)) as side:
        put_rows(call, side.ask("invoke", body, known.query), shown)


def bind_params(known: Alias, args: Sequence[str], given: Any) -> Mapping[str, Any]:
    """Return the parameters of the query: those of the alias, then the arguments, then ``given``."""
    if len(args) > len(known.args):
        takes = ", ".join(known.args) or "none"
        raise BadRequest(
            f"alias `{known.name}` was given {len(args)} arguments and takes {takes}; drop the rest"
        )
    if given is not None and not isinstance(given, Mapping):
        raise BadRequest("the parameters must be a JSON object keyed by parameter name")
    positional = dict(zip(known.args, map(_argument_value, args), strict=False))
    return {**known.params, **positional, **(given or {})}


def _find_alias(operator: Operator, name: str) -> Alias:
    operator.refuse_faulty("aliases", name)
    if name not in operator.aliases:
        known = ", ".join(sorted(operator.aliases))
        has = f"has the aliases {known}" if known else "has no aliases"
        raise BadRequest(f"there is no alias `{name}`; config.yaml {has}")
    return operator.aliases[name]


def _argument_value(text: str) -> Any:
    """Return what an argument means: JSON if it is some, otherwise the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def list_profiles(call: Invocation) -> None:
    """List the profiles, and what is wrong with those that cannot be used."""
    active = settings.PROFILE.get()
    operator = call.operator
    items = [
        *(
            _item(profile, operator, profile.name == active)
            for profile in operator.profiles.values()
        ),
        *_faulty(operator, active),
    ]
    items.sort(key=lambda item: item["name"])
    columns = ("name", "binding", "default graph", "active", "error")
    rows = [
        [
            item["name"],
            item["binding"],
            item["default_graph"],
            "yes" if item["active"] else None,
            item["error"],
        ]
        for item in items
    ]
    if not items:
        note(f"there are no profiles in {operator.path or 'config.yaml'}")
    call.answer({"profiles": items}, lambda: put_table(columns, rows) if rows else None)


def show_profile(
    call: Invocation,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The profile; the active one, if there is none."),
    ] = None,
) -> None:
    """Show which graph a profile means, or the defaults if none is active."""
    operator = call.operator
    name = settings.PROFILE.get() if name is None else name
    kind: ScopeKind | None = None
    target: str | None = None
    if name is not None:
        profile = find_profile(operator, name)
        kind, target = binding_of(profile)
        graph = profile.default_graph
    else:
        defaults = operator.defaults
        graph = defaults.default_graph
        if defaults.server is not None:
            kind, target = "server", defaults.server
        elif defaults.store is not None:
            kind, target = "store", defaults.store
    document = {
        "name": DEFAULTS if name is None else name,
        "scope_kind": kind,
        "target": target,
        "endpoint": None
        if kind is None or target is None
        else _endpoint(kind, target, graph, operator),
        "default_graph": graph,
        "output_format": operator.defaults.output or "table",
    }
    call.answer(
        document,
        lambda: put_facts([(key.replace("_", " "), value) for key, value in document.items()]),
    )


def _item(profile: NamedGraph, operator: Operator, active: bool) -> dict[str, Any]:
    """Return a profile as the list shows it: what it names, or why it cannot be used."""
    kind: ScopeKind | None = None
    target = error = None
    try:
        kind, target = binding_of(profile)
        _endpoint(kind, target, profile.default_graph, operator)
    except BadRequest as refused:
        error = refused.message
    return {
        "name": profile.name,
        "binding": ", ".join(f"{key}: {value}" for key, value in profile.bindings.items()) or None,
        "scope_kind": kind,
        "target": target,
        "valid": error is None,
        "error": error,
        "default_graph": profile.default_graph,
        "active": active,
    }


def _faulty(operator: Operator, active: str | None) -> Iterator[dict[str, Any]]:
    """Yield the profiles whose entries cannot be read, as the list shows them."""
    for place, fault in operator.faults.items():
        section, _, name = place.partition(".")
        if section == "profiles":
            item = _item(NamedGraph(name), operator, name == active)
            yield {**item, "error": fault.message}


def _endpoint(kind: ScopeKind, target: str, graph: str | None, operator: Operator) -> str:
    """Return the address behind what a profile names; refuse one that cannot be used."""
    address = scope(kind, target, graph, operator)
    if isinstance(address, Server):
        return address.url
    return address.root if isinstance(address, Cluster) else address.uri


def login(
    call: Invocation,
    name: ServerArgument,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="The token; without it, it is read from stdin, where other users cannot see it.",
        ),
    ] = None,
) -> None:
    """Keep the token of a server."""
    _check_name(name)
    token = (_read_token() if token is None else token).strip()
    if not token:
        raise BadRequest("the token is empty; nothing was stored")
    if not token.isprintable() or not token.isascii() or " " in token:
        raise BadRequest("the token has characters that no token has; nothing was stored")
    declared = name in call.operator.servers
    tokens = read_tokens()
    write_tokens({**tokens, name: token})
    if not declared:
        note(f"config.yaml declares no server `{name}`; add it under servers to use the token")
    call.answer({"name": name, "declared": declared}, f"logged in to {name}")


def logout(call: Invocation, name: ServerArgument) -> None:
    """Forget the token of a server."""
    _check_name(name)
    tokens = read_tokens()
    removed = tokens.pop(name, None) is not None
    if removed:
        write_tokens(tokens)
    text = f"logged out of {name}" if removed else f"there was no token of {name}"
    call.answer({"name": name, "removed": removed}, text)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadRequest(
            f"`{name}` cannot be the name of a server; use letters, digits, _ and -, and begin "
            "with a letter or _"
        )


def _read_token() -> str:
    """Return one line of stdin; a person at a terminal types it unseen."""
    if sys.stdin is None:
        raise BadRequest("there is no stdin to read the token from; pass --token TOKEN")
    if sys.stdin.isatty():
        from getpass import getpass

        try:
            return getpass("token: ", sys.stderr)
        except EOFError:
            return ""
    return sys.stdin.readline()
