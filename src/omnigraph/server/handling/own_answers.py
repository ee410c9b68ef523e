"""What a server says of itself: that it is there, what can be asked of it, and which graphs it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omnigraph.errors import PolicyDenied
from omnigraph.policy.checker import Action
from omnigraph.policy.gate import Gate
from omnigraph.server.handling.error_bodies import encode
from omnigraph.server.handling.exchange import Exchange
from omnigraph.server.handling.routing import Own

if TYPE_CHECKING:
    from omnigraph.server.state import ServerState


class OwnAnswers:
    """The answers that need no graph. Nothing is waited for, and no lock is taken."""

    def __init__(self, state: ServerState, describe: Callable[[], dict[str, Any]]) -> None:
        """Answer for a server; ``describe`` makes its OpenAPI document."""
        self._state = state
        self._make_description = describe
        self._openapi: bytes | None = None

    def answer(self, own: Own, exchange: Exchange) -> tuple[int, bytes]:
        """Return the status and the body."""
        if own == "healthz":
            return self._health()
        return 200, self._describe() if own == "openapi" else self._graphs(exchange)

    def _health(self) -> tuple[int, bytes]:
        state = self._state
        if state.draining:
            return 503, encode({"status": "draining"})
        return 200, encode(
            {
                "status": "ok",
                "version": state.version,
                "internal_schema_version": state.internal_schema_version,
            }
        )

    def _describe(self) -> bytes:
        """The OpenAPI document, made when it is asked for the first time."""
        if self._openapi is None:
            self._openapi = encode(self._make_description())
        return self._openapi

    def _graphs(self, exchange: Exchange) -> bytes:
        """List the graphs, to whom the policy of the server allows it."""
        state = self._state
        if not state.is_open:
            if state.policy is None:
                raise PolicyDenied(
                    "the server has no policy of its own, and without one nobody lists its graphs; "
                    "name the graph that you want",
                    action=Action.GRAPH_LIST.value,
                    actor=exchange.actor,
                )
            Gate(state.policy).ask(exchange.actor, Action.GRAPH_LIST)
        base = state.hosts.base_url(exchange.scope)
        names = sorted(state.graphs)
        aside = [
            {"graph_id": name, "reason": why} for name, why in sorted(state.quarantined.items())
        ]
        return encode(
            {
                "graphs": [{"graph_id": name, "uri": f"{base}/graphs/{name}"} for name in names],
                **({"quarantined": aside} if aside else {}),
            }
        )
