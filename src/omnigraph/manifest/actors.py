"""Actors: who asks for a change, as every surface that takes one checks it."""

from __future__ import annotations

from typing import Final

from omnigraph.errors import BadRequest

RESERVED: Final = "omnigraph:"
LONGEST: Final = 256


def checked_actor(actor: object, where: str = "actor") -> str | None:
    """An actor as commits record it, without the white space around it; None is nobody.

    ``where`` is the argument or flag it was given with. What starts with ``omnigraph:`` is the
    product's own.
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
