"""What an answer says when something is wrong, and what no answer says: where the server keeps its data.

Errors become the bodies of the manual. What is wrong on the server's side is told by the id of the request
alone; the log has the rest. In every text the addresses of the storage and of the spool directory are replaced
by the URL of the graph. That happens here and nowhere else.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from omnigraph.errors import (
    Busy,
    GraphNotFound,
    NewerFormat,
    NotAGraph,
    OmniGraphError,
    QueryCancelled,
    Unauthenticated,
)
from omnigraph.server.limits import RETRY_AFTER_SECONDS
from omnigraph.server.refusals import Header, Refusal

logger = logging.getLogger("omnigraph.server")

JSON_TYPE: Final[Header] = (b"content-type", b"application/json")
_PLACES: Final = ("root", "path", "files")
"""Details that are paths."""
_MOVED: Final = ("recorded", "actual")
"""Details of a graph that was moved, which are paths, too."""
_WAY: Final = ("from", "to")
"""Facts of the commit that settles a moved graph, which are addresses of storage."""

encode: Final = msgspec.json.Encoder().encode


class Addresses:
    """The places that a server does not tell: the storage of one graph, and the spool directory."""

    def __init__(self, uri: str | None, spool: Path) -> None:
        spellings = {str(spool), os.path.realpath(spool)}
        if uri is not None:
            spellings |= set(_spellings(uri))
        # The longest first: one may be the beginning of another.
        inside = {msgspec.json.encode(text)[1:-1] for text in spellings}
        self._known = sorted(inside, key=lambda text: (-len(text), text))

    def hidden(self, body: bytes, url: str) -> bytes:
        """Return JSON with the URL of the graph wherever one of the places stood."""
        for place in self._known:
            if place in body:
                body = body.replace(place, msgspec.json.encode(url)[1:-1])
        return body


def _spellings(uri: str) -> list[str]:
    """The ways in which the address of a graph may stand in a text."""
    if "://" in uri:
        scheme, _, rest = uri.partition("://")
        return [uri, f"{scheme}://{quote(rest)}"]
    encoded = quote(uri)
    places = [uri, f"file://{encoded}", f"file-object-store://{encoded}"]
    # Stores name keys without the slash in front; a single word would be found in other texts.
    bare = uri.lstrip("/")
    return [*places, bare] if "/" in bare else places


def error_answer(
    error: Exception, request_id: str, graph_id: str | None
) -> tuple[int, list[Header], dict[str, Any]]:
    """Return the status, the headers and the body that an error gets."""
    if isinstance(error, NotAGraph) and graph_id is not None:
        error = GraphNotFound(
            f"the graph {graph_id} is not there any more; ask for the graphs of this server",
            graph=graph_id,
        )
    if isinstance(error, QueryCancelled):
        error = Refusal(503, "draining", "the server is ending; send the request again")
    if isinstance(error, Refusal):
        return error.status, [*error.headers, JSON_TYPE], error.body()
    if not isinstance(error, OmniGraphError):
        logger.error("request failed", exc_info=error, extra={"request_id": request_id})
        return 500, [JSON_TYPE], _internal("internal", request_id)
    status = error.http_status
    if status >= 500 and not isinstance(error, NewerFormat):
        logger.error("request failed", exc_info=error, extra={"request_id": request_id})
        return status, [JSON_TYPE], _internal(error.code, request_id)
    return status, [*_headers_of(error), JSON_TYPE], _without_places(error)


def _internal(kind: str, request_id: str) -> dict[str, Any]:
    return {"error": f"internal error; request {request_id}", "kind": kind, "code": "internal"}


def _headers_of(error: OmniGraphError) -> list[Header]:
    if isinstance(error, Unauthenticated):
        return [(b"www-authenticate", b"Bearer")]
    if isinstance(error, Busy):
        return [(b"retry-after", b"%d" % RETRY_AFTER_SECONDS)]
    return []


def _without_places(error: OmniGraphError) -> dict[str, Any]:
    body, name = error.body(), error.wire_detail
    dropped = {*_PLACES, *(_MOVED if error.code == "graph_moved" else ())}
    if name is not None and isinstance(detail := body.get(name), dict) and dropped & detail.keys():
        body[name] = {fact: value for fact, value in detail.items() if fact not in dropped}
    return body


def without_former_places(document: dict[str, Any]) -> dict[str, Any]:
    """Return commits, or what shows some, without the places a graph was moved from and to."""
    if isinstance(commits := document.get("commits"), list):
        return {**document, "commits": [without_former_places(commit) for commit in commits]}
    if isinstance(head := document.get("head"), dict):
        return {**document, "head": without_former_places(head)}
    if document.get("operation") != "relocate":
        return document
    facts = {name: fact for name, fact in document["facts"].items() if name not in _WAY}
    return {**document, "facts": facts}


def without_address(status: dict[str, Any], url: str) -> dict[str, Any]:
    """Return the status of a graph with `URI` in the commands it advises: they are run beside the server."""
    tables = [{**table, "advice": _advice(table["advice"], url)} for table in status["tables"]]
    return {**status, "advice": _advice(status["advice"], url), "tables": tables}


def _advice(advice: list[dict[str, Any]], url: str) -> list[dict[str, Any]]:
    # No command helps where a person has to look.
    return [
        {**one, "command": None if command is None else command.replace(url, "URI")}
        for one in advice
        for command in (one["command"],)
    ]
