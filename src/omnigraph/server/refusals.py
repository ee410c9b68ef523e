"""Requests that are refused by rules of HTTP itself, before or beside those of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
}

Header = tuple[bytes, bytes]


class Refusal(Exception):
    """An answer of the HTTP layer alone: a route, method, media type, host or version.

    ``kind`` is one that no class of ``omnigraph.errors`` has; ``headers`` are sent with the answer.
    """

    def __init__(
        self, status: int, kind: str, message: str, headers: Sequence[Header] = ()
    ) -> None:
        super().__init__(message)
        self.status = HTTPStatus(status)
        self.kind = kind
        self.headers = tuple(headers)

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the answer."""
        code = _CODES.get(self.status, "internal" if self.status >= 500 else "bad_request")
        return {"error": str(self), "kind": self.kind, "code": code}
