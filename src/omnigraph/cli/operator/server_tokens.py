"""Which token goes to which server."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from omnigraph import settings
from omnigraph.cli.operator.credentials import read_tokens

_PORTS = {"http": 80, "https": 443}


def token_for(url: str, servers: Mapping[str, str]) -> str | None:
    """Return the token for a URL: that of the nearest of ``servers`` above it, else the one for all.

    A token that was kept for one server goes to no other.
    """
    name = nearest_server(url, servers)
    keyed = None if name is None else settings.server_token(name).get() or read_tokens().get(name)
    return keyed or settings.BEARER_TOKEN.get()


def nearest_server(url: str, servers: Mapping[str, str]) -> str | None:
    """Return the name of the server whose URL is the longest beginning of this one, by whole segments."""
    place, segments = _parts(url)
    found: tuple[int, str] | None = None
    for name in sorted(servers):
        try:
            its_place, above = _parts(servers[name])
        except ValueError:  # an entry that is no URL; its own command says so
            continue
        if its_place == place and segments[: len(above)] == above:
            found = max(found or (-1, ""), (len(above), name))
    return None if found is None else found[1]


def _parts(url: str) -> tuple[tuple[str, str | None, int | None], list[str]]:
    """Return where a URL leads to, and the segments of its path."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    place = scheme, parts.hostname, parts.port or _PORTS.get(scheme)
    return place, [segment for segment in parts.path.split("/") if segment]
