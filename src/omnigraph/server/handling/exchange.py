"""One request and its answer, and what all steps between them need to know."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from os import urandom
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from omnigraph.server.handling.binding import headers_of
from omnigraph.server.handling.lanes import Receive
from omnigraph.server.handling.sending import AT_ONCE, Outgoing, Send

if TYPE_CHECKING:
    from omnigraph.server.state import ServedGraph

Scope = MutableMapping[str, Any]
_NOTHING: Final[dict[str, Any]] = {}
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9_-]{1,64}")


class Exchange:
    """A request, and as much of its answer as was sent.

    ``actor``, ``served`` and ``route`` become known on the way; ``url`` is that of the graph.
    """

    __slots__ = (
        "actor",
        "began",
        "headers",
        "out",
        "receive",
        "request_id",
        "route",
        "scope",
        "served",
        "url",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began = perf_counter()
        self.scope = scope
        self.receive = receive
        self.headers = headers_of(scope["headers"])
        self.request_id = _request_id(self.headers.get(b"x-request-id"))
        self.out = Outgoing(send, scope.get("extensions", _NOTHING).get(AT_ONCE))
        self.out.extra.append((b"x-request-id", self.request_id.encode()))
        self.actor: str | None = None
        self.served: ServedGraph | None = None
        self.route: str | None = None
        self.url = ""

    @property
    def is_old(self) -> bool:
        """Whether the client speaks a version in which it could not see that an answer was cut off."""
        version: str = self.scope["http_version"]
        return version in {"1.0", "0.9"}

    def facts(self) -> dict[str, Any]:
        """What the log says of it."""
        return {
            "request_id": self.request_id,
            "method": self.scope["method"],
            "route": self.route,
            "status": self.out.status or None,
            "ms": round((perf_counter() - self.began) * 1000, 1),
            "actor": self.actor,
            "graph": None if self.served is None else self.served.id,
        }


def _request_id(given: bytes | None) -> str:
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return urandom(8).hex()
