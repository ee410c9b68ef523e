"""How a browser gets the token of `omnigraph ui`: by a code that is printed in the terminal, and used once.

A code is part of a link, and links are seen by others: in a history, over a shoulder. So it is good for two
minutes and one use, and after five wrong ones no code is good until the person at the terminal asks for a new one.
The token itself is in no link.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_urlsafe
from time import monotonic
from typing import Final, Literal

import msgspec

from omnigraph.errors import BadRequest, Unauthenticated
from omnigraph.server.refusals import Refusal

Mode = Literal["read-write", "read-only"]

CODE_SECONDS: Final = 120
WRONG_CODES: Final = 5
"""So many wrong codes, and the right one is void, too."""
LARGEST_REQUEST: Final = 4096
NAMELESS: Final = ""
"""What ``SignIn.verify`` returns for a person whose name nothing tells."""


class CodeBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /ui/session`."""

    code: str


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who uses `omnigraph ui`, on which graph, and how."""

    actor: str | None
    graph_id: str
    mode: Mode


class SignIn:
    """The codes of one process, and the token that they are exchanged for.

    It is also the ``Verifier`` of the server: the token lives as long as the process.
    """

    def __init__(self, visitor: Visitor, clock: Callable[[], float] = monotonic) -> None:
        self.visitor = visitor
        self._clock = clock
        self._lock = threading.Lock()
        self._token = token_urlsafe(32)
        self._digest = _digest(self._token)
        self._code: bytes | None = None
        self._until = 0.0
        self._wrong = 0
        self.used: Callable[[], None] = lambda: None
        """Called when a code was used, so that what shows it can go."""

    def new_code(self) -> str:
        """Return a fresh code; older ones are void from now on."""
        code = token_urlsafe(16)
        with self._lock:
            self._code = _digest(code)
            self._until = self._clock() + CODE_SECONDS
            self._wrong = 0
        return code

    def verify(self, token: str) -> str | None:
        """Return the actor that a token belongs to, or None if nobody's."""
        if not hmac.compare_digest(_digest(token), self._digest):
            return None
        return self.visitor.actor or NAMELESS

    def exchange(self, media_type: bytes, body: bytes) -> dict[str, str | None]:
        """Return the answer to `POST /ui/session`; ``Unauthenticated`` for any but the code of now."""
        if media_type.partition(b";")[0].strip().lower() != b"application/json":
            raise Refusal(
                415,
                "media_type",
                "this path takes JSON; send it with Content-Type application/json",
            )
        try:
            code = msgspec.json.decode(body, type=CodeBody).code
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BadRequest('the body is no JSON object such as {"code": "…"}; send one') from None
        if not self._takes(code):
            raise Unauthenticated(
                "the code is wrong, was used, or is older than two minutes; press Enter in the terminal "
                "of `omnigraph ui` for a new link"
            )
        self.used()
        visitor = self.visitor
        return {
            "token": self._token,
            "actor_id": visitor.actor,
            "graph_id": visitor.graph_id,
            "mode": visitor.mode,
        }

    def _takes(self, code: str) -> bool:
        given = _digest(code)
        with self._lock:
            known, in_time = self._code, self._clock() <= self._until
            fits = hmac.compare_digest(given, known or b"\0" * len(given))
            if fits and in_time and known is not None:
                self._code = None
                return True
            self._wrong += 1
            if self._wrong >= WRONG_CODES:
                self._code = None
            return False

    def __repr__(self) -> str:
        return f"<SignIn of {self.visitor.actor or 'nobody'} to {self.visitor.graph_id}>"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
