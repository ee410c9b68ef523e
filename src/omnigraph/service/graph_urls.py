"""How a graph behind a server is named: `https://host:8080/graphs/shop` is the URL of a server and a graph id."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from omnigraph.errors import BadRequest

GRAPH_ID_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9-]{0,63}"
"""What the id of a graph looks like, as a regular expression."""
GRAPH_ID_RULE: Final = "1 to 64 letters, digits and `-`, the first no `-`, and not policies, healthz, openapi or graphs"
"""What the id of a graph may be, in words."""

_GRAPH_ID: Final = re.compile(GRAPH_ID_PATTERN)
_RESERVED: Final = frozenset({"policies", "healthz", "openapi", "graphs"})


def is_graph_id(text: str) -> bool:
    """Whether a graph may be called so."""
    return _GRAPH_ID.fullmatch(text) is not None and text not in _RESERVED


def check_server_url(text: str) -> None:
    """Refuse what is not the URL of a server, or says more than where it is."""
    try:
        parts = urlsplit(text)
        is_server = parts.scheme.lower() in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # is checked when it is read
    except ValueError:
        is_server = False
    if not is_server:
        raise BadRequest(f'"{text}" is not the URL of a server; give one such as https://host:8080')
    if parts.username is not None or parts.query or parts.fragment:
        raise BadRequest(
            f'"{text}" has more than a host and a path; give a URL without user, ? and #'
        )
