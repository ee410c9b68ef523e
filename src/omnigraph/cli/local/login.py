"""`omnigraph login` and `omnigraph logout`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.call import Call
from omnigraph.cli.operator.credentials import read_tokens, write_tokens
from omnigraph.cli.operator.entries import NAME
from omnigraph.cli.output import note
from omnigraph.cli.register import add
from omnigraph.errors import BadRequest

ServerArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The server, as config.yaml names it.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, "login", login)
    add(app, "logout", logout)


def login(
    call: Call,
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


def logout(call: Call, name: ServerArgument) -> None:
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
