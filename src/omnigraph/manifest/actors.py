"""Who asks for a change, under which id, and with which words: every surface that accepts them checks here."""

from __future__ import annotations

from typing import Final

from omnigraph.clock import is_ulid
from omnigraph.errors import BadRequest

RESERVED: Final = "omnigraph:"
MAINTENANCE_ACTOR: Final = f"{RESERVED}maintenance"
"""The actor of commits that keep tables in shape."""
LONGEST: Final = 256
MESSAGE_BYTES: Final = 4096
"""How long the message of a commit may be, in UTF-8."""


def check_actor(actor: object, where: str = "actor") -> str | None:
    """Return the actor as commits record it, with surrounding white space removed; None means nobody.

    ``where`` names the argument or flag in error messages. Names that start with ``omnigraph:`` are
    reserved for the product and refused.
    """
    if actor is None:
        return None
    if not isinstance(actor, str):
        raise BadRequest(
            f"an actor is named by a text, not by {type(actor).__name__}; give {where} a name, such "
            "as an e-mail address"
        )
    text = actor.strip()
    if not text:
        raise BadRequest(f"{where} is empty; give the name of an actor, or leave it out")
    if len(text) > LONGEST:
        raise BadRequest(
            f"{where} has {len(text)} characters; the name of an actor has at most {LONGEST}"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(
            f"{where} is {text!a}, which has no UTF-8 form; name the actor in plain Unicode"
        ) from None
    if text.startswith(RESERVED):
        raise BadRequest(
            f"actors that start with `{RESERVED}` are those of the product itself; choose another "
            f"name than `{text}` for {where}",
            actor=text,
        )
    return text


def check_app_id(app_id: str | None, where: str = "app_id") -> str | None:
    """Return the name of a stream as it is recorded, without surrounding white space, or None."""
    if app_id is None:
        return None
    text = app_id.strip()
    if not text or len(text) > LONGEST:
        raise BadRequest(
            f"{where} is {app_id[:40]!r}; name the stream with 1 to {LONGEST} characters"
        )
    return text


def check_operation_id(operation_id: object, where: str = "operation_id") -> str | None:
    """Return the id that a caller chose for an operation, as commits record it: a ULID, or None."""
    if operation_id is None:
        return None
    text = operation_id.strip().upper() if isinstance(operation_id, str) else ""
    if not is_ulid(text):
        raise BadRequest(
            f"{where} is {operation_id!r}; give a ULID, 26 characters such as "
            "01JZZZZZZZZZZZZZZZZZZZZZZ1, or leave it out"
        )
    return text


def check_if_commit(if_commit: object, where: str = "if_commit") -> str | None:
    """Return the head that a caller expects, the id of a commit, or None."""
    if if_commit is None:
        return None
    if not isinstance(if_commit, str):
        raise BadRequest(
            f"{where} is a Python {type(if_commit).__name__}; give the id of a commit, a text"
        )
    text = if_commit.strip().upper()
    if not is_ulid(text):
        raise BadRequest(f"{where} is {if_commit[:80]!r}; give one bare commit id, without quotes")
    return text


def check_message(message: object, where: str = "message") -> str | None:
    """Return the words that a commit records about itself, without surrounding white space, or None."""
    if message is None:
        return None
    if not isinstance(message, str):
        raise BadRequest(
            f"{where} is a Python {type(message).__name__}; give a text that says what the commit is for"
        )
    text = message.strip()
    if not text:
        raise BadRequest(f"{where} is empty; say what the commit is for, or leave it out")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadRequest(
            f"{where} has no UTF-8 form ({text[:40]!a}…); write it in plain Unicode"
        ) from None
    if size > MESSAGE_BYTES:
        raise BadRequest(
            f"{where} has {size:,} bytes, and the message of a commit has at most {MESSAGE_BYTES:,}; "
            "shorten it, and keep the rest in the graph or beside it",
            limit=MESSAGE_BYTES,
            actual=size,
        )
    return text
