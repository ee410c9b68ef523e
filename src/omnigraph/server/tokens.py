"""Who a request comes from: bearer tokens, and the table that knows whose they are.

A server keeps no token, only the SHA-256 of each. A token that is presented is hashed, its digest looked
up, and the entry that was found, or one that fits nothing, is compared in constant time: every request
with a token costs one look-up and one comparison, whoever sends it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from omnigraph import settings
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.manifest.actors import check_actor

DEFAULT_ACTOR: Final = "default"
"""The actor of the token that is given alone."""

_NOBODY: Final = (b"\0" * hashlib.sha256().digest_size, None)
LARGEST_TABLE: Final = 16 << 20
"""The most bytes that a file of tokens may have."""


class Verifier(Protocol):
    """Knows whose a token is."""

    def verify(self, token: str) -> str | None:
        """Return the actor that a token belongs to, or None if nobody's; an actor without a name is empty."""


class TokenTable:
    """A fixed table of tokens: the only ``Verifier`` that ships. It holds digests, never tokens."""

    __slots__ = ("_actors",)

    def __init__(self, tokens: Mapping[str, str]) -> None:
        """Take the tokens by their actors; blank, repeated or unusable ones are refused by actor."""
        self._actors: dict[bytes, tuple[bytes, str]] = {}
        names: set[str] = set()
        for name, token in tokens.items():
            actor = check_actor(name, "the name of an actor in the table of tokens") or name
            digest = _digest(_checked(actor, token))
            if digest in self._actors:
                raise BadRequest(
                    f"the actors `{self._actors[digest][1]}` and `{actor}` have the same token; give "
                    "each its own"
                )
            if actor in names:
                raise _twice(actor)
            names.add(actor)
            self._actors[digest] = (digest, actor)

    def verify(self, token: str) -> str | None:
        """Return the actor that a token belongs to, or None if nobody's."""
        digest = _digest(token)
        known, actor = self._actors.get(digest, _NOBODY)
        return actor if hmac.compare_digest(digest, known) else None

    def __len__(self) -> int:
        return len(self._actors)

    def __repr__(self) -> str:
        return f"<TokenTable of {len(self)} actors>"


def tokens_from_environment() -> TokenTable | None:
    """Return the table that the environment describes, or None if it names no token.

    `OMNIGRAPH_SERVER_BEARER_TOKEN` is the token of the actor `default`; others stand in the file that
    `…_TOKENS_FILE` names or, without one, in `…_TOKENS_JSON`.
    """
    alone = settings.SERVER_TOKEN
    pairs: list[tuple[str, Any]] = []
    if (token := alone.get()) is not None:
        pairs.append((DEFAULT_ACTOR, token))
    file, text = settings.SERVER_TOKENS_FILE, settings.SERVER_TOKENS_JSON
    if (path := file.get()) is not None:
        pairs += _pairs(_read(path, file.variable), f"{file.variable} ({path})")
    elif (given := text.get()) is not None:
        pairs += _pairs(given, text.variable)
    if not pairs:
        return None
    tokens: dict[str, Any] = {}
    for name, token in pairs:
        if name.strip() in tokens:
            raise _twice(name.strip())
        tokens[name.strip()] = token
    return TokenTable(tokens)


def presented_token(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the bearer token of a request, or None if it has none, or several, or something else."""
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) != 1:
        return None
    scheme, _, token = given[0].strip().partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        return None
    return token.decode("utf-8", "surrogateescape")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _checked(actor: str, token: object) -> str:
    """Return a token without white space around it; no message repeats any of it."""
    if not isinstance(token, str):
        raise BadRequest(f"the token of the actor `{actor}` is no text; give it as one")
    token = token.strip()
    if not token:
        raise BadRequest(f"the token of the actor `{actor}` is blank; give one, or drop the actor")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadRequest(
            f"the token of the actor `{actor}` has characters that no header can carry; use printable "
            "ASCII without blanks"
        )
    return token


def _twice(actor: str) -> OmniGraphError:
    return BadRequest(f"the actor `{actor}` has two tokens; keep one of them")


def _read(path: str, variable: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(LARGEST_TABLE + 1)
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadRequest(
            f"cannot read {path}, which {variable} names: {why}; make it readable, or unset it"
        ) from None
    if len(data) > LARGEST_TABLE:
        raise BadRequest(f"{path}, which {variable} names, is too large; it holds at most 16 MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _no_table(f"{variable} ({path})", "it is not UTF-8 text") from None


def _pairs(text: str, where: str) -> list[tuple[str, Any]]:
    """Return the entries of a JSON object in their order, repeated ones too."""
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        # The parser's own words may quote the text.
        raise _no_table(where, "it is not JSON") from None
    if not isinstance(found, _Pairs):
        raise _no_table(where, "it is no object")
    return list(found)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as the list of its entries."""


def _no_table(where: str, why: str) -> BadRequest:
    return BadRequest(f'{where}: {why}; give a JSON object such as {{"ada": "her token"}}')
