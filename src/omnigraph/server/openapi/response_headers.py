"""Headers of answers, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Final

_HEADER_TEXTS: Final = {
    "X-Request-Id": "the id of the request, which stands in the log, too",
    "ETag": "what `If-None-Match` takes",
    "Deprecation": "`true`: use another route",
    "Link": "the route to use instead",
    "Accept-Ranges": "`bytes`",
    "Content-Range": "which bytes these are",
    "Omnigraph-Snapshot-Id": "the commit that was read",
}


def response_headers(*names: str) -> dict[str, Any]:
    """Return what the document says of the headers of an answer: these, and the id of the request."""
    return {
        name: {"description": _HEADER_TEXTS[name], "schema": {"type": "string"}}
        for name in ("X-Request-Id", *names)
    }
