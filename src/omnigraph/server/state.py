"""What a server is made of: its graphs, and everything that a request needs beside them.

``boot`` makes one ``ServerState``, ``app.create_app`` turns it into an ASGI application, and ``serving``
runs that. Requests change nothing in it; only the process that ends sets ``draining``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from omnigraph.server.figures import Figures
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from omnigraph.explorer.page_files import Pages
    from omnigraph.explorer.sign_in import SignIn
    from omnigraph.graph.graph import Graph
    from omnigraph.lang.query.registry import Registry
    from omnigraph.policy.checker import Checker
    from omnigraph.server.hosts import HostRules
    from omnigraph.server.limits import ServerLimits
    from omnigraph.server.tokens import Verifier

GraphMode = Literal["open", "default_deny", "policy"]
"""Who may use a graph: everybody; whoever has a token, to read; or as its policy says."""


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """An open graph under the name it has in URLs.

    The handle was opened with the checker of its mode: none for ``open``, ``policy.DefaultDeny`` for
    ``default_deny``, its bundle for ``policy``.
    """

    id: str
    graph: Graph
    mode: GraphMode
    stored: Registry | None = None
    """Its stored queries."""
    checker: Checker | None = None
    """What decides about it; none if it is open."""


@dataclass(slots=True, kw_only=True)
class ServerState:
    """A server, as its requests see it.

    Without a ``verifier`` the server is open: no token is asked for, and no one is the actor.
    ``spool_directory`` takes the bodies of loads and blobs while they are used. ``policy`` decides about the
    server itself (who may list its graphs); without one nobody but an open server does. ``agents``: the tools
    of graphs are offered to agents, too. ``pages`` are those of the explorer, unless it is left out; with a
    ``sign_in`` the server is that of `omnigraph ui`, which is for the person at its terminal alone.

    Of ``limits`` requests use `per_actor_inflight_max`, `per_actor_bytes_max`, `read_concurrency`,
    `query_timeout_ms`, `query_max_rows`, `query_max_mb`, `answers_mb`, `load_body_max_mb` and
    `blob_body_max_mb`; of ``hosts`` `check(scope, open_mode)`, which returns a ``Refusal`` or None, and
    `base_url(scope)`, a text without a slash at its end; of ``verifier`` `verify(token)`.
    """

    graphs: Mapping[str, ServedGraph]
    limits: ServerLimits
    hosts: HostRules
    spool_directory: Path
    verifier: Verifier | None = None
    policy: Checker | None = None
    agents: bool = False
    pages: Pages | None = None
    sign_in: SignIn | None = None
    draining: bool = False
    figures: Figures = field(default_factory=Figures)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    """Graphs of a cluster that are not served, and why."""
    version: str = __version__
    internal_schema_version: int = INTERNAL_SCHEMA_VERSION

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self.verifier is None

    @property
    def minds_hosts(self) -> bool:
        """Whether requests are refused that name another host, or come from a page of another origin."""
        return self.is_open or self.sign_in is not None
