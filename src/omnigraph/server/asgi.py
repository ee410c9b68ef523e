"""The ASGI application of a server: every request goes through the same checks in the same order.

    Host and Origin → path, method → token → graph → declared length, media type → body → turn → engine

A request with a raw body, which may be large, is asked about by the policy and let in before its body is
read. What a check refuses is answered at once, and none that would come later is made.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import BadRequest, BlobRange, Busy, GraphNotFound, Unauthenticated
from omnigraph.explorer.page_files import SESSION_PATH, guarding_headers, is_page, new_nonce
from omnigraph.explorer.sign_in import LARGEST_REQUEST
from omnigraph.manifest.branch_names import MAIN
from omnigraph.policy import Action
from omnigraph.server.decisions import could_ever
from omnigraph.server.handling import binding
from omnigraph.server.handling.agents import AgentRoute, agent_graph
from omnigraph.server.handling.blob_answers import range_refusal_headers
from omnigraph.server.handling.bodies import (
    BodyLimit,
    DeclaredBody,
    SpoolFile,
    limit_of,
    read_body,
)
from omnigraph.server.handling.error_bodies import JSON_TYPE, Addresses, encode, error_answer
from omnigraph.server.handling.exchange import Exchange, Scope
from omnigraph.server.handling.lanes import ClientGone, Receive
from omnigraph.server.handling.own_answers import OwnAnswers
from omnigraph.server.handling.routing import ROUTES, Own, decoded_segment
from omnigraph.server.handling.running import AskedOperation, OperationRunner, refuse_old
from omnigraph.server.handling.sending import Send
from omnigraph.server.refusals import Refusal
from omnigraph.server.tokens import presented_token
from omnigraph.service.calls import Call
from omnigraph.service.graph_urls import GRAPH_ID_RULE, is_graph_id
from omnigraph.service.operations import INVOKE_MUTATION, JSON, OPERATIONS, Operation

if TYPE_CHECKING:
    from omnigraph.explorer.page_files import Pages
    from omnigraph.graph.session import Session
    from omnigraph.server.state import ServedGraph, ServerState

logger = logging.getLogger("omnigraph.server")
requests_log = logging.getLogger("omnigraph.server.requests")
"""One line for every request: `request`, with ``Exchange.facts`` as extra fields."""

_LARGE: Final = 256 << 10
"""Bodies above this are decoded in a thread, so that other requests need not wait."""


def create_app(state: ServerState) -> ServerApp:
    """Return the application that serves the graphs of a server."""
    return ServerApp(state)


class ServerApp:
    """A server as ASGI calls it. ``engine`` has what is under way, and stops it."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.engine = OperationRunner(state)
        self._limits = {
            name: limit_of(operation, state.limits.load_body_max_mb, state.limits.blob_body_max_mb)
            for name, operation in OPERATIONS.items()
        }
        spool = state.spool_directory
        self._addresses = {
            name: Addresses(served.graph.uri, spool) for name, served in state.graphs.items()
        }
        self._no_address = Addresses(None, spool)
        self._by_raw_id = {name.encode(): served for name, served in state.graphs.items()}
        self._sessions: dict[tuple[str, str | None], Session] = {}
        self._own = OwnAnswers(state, lambda: _description(state))
        self._agents = AgentRoute(self) if state.agents else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            if self._agents is not None:
                await self._agents.end()
            return
        assert scope["type"] == "http", "the server speaks nothing else"
        exchange = Exchange(scope, receive, send)
        if self._state.draining:
            exchange.out.extra.append((b"connection", b"close"))
        try:
            await self._serve(exchange)
        except ClientGone:
            pass
        except Exception as error:  # noqa: BLE001 - every error has its answer
            await self._answer_error(exchange, error)
        finally:
            seconds = perf_counter() - exchange.began
            self._state.figures.answered(exchange.route, exchange.out.status, seconds)
            if requests_log.isEnabledFor(logging.INFO):
                requests_log.info("request", extra=exchange.facts())

    async def _serve(self, exchange: Exchange) -> None:
        """Make the checks in their order, and hand the request over to the engine."""
        scope, state = exchange.scope, self._state
        refusal = state.hosts.check(scope, state.minds_hosts)
        if refusal is not None:
            raise refusal
        if state.pages is not None and is_page(scope["raw_path"]):
            await self._serve_page(exchange, state.pages)
            return
        if self._agents is not None and (graph_id := agent_graph(scope["raw_path"])) is not None:
            await self._serve_agent(exchange, graph_id)
            return
        matched = ROUTES.match(scope["raw_path"], scope["method"])
        if isinstance(matched, str):
            exchange.route = matched
            await self._serve_own(exchange, matched)
            return
        operation = matched.operation
        exchange.route = operation.name
        if operation.successor is not None:
            exchange.out.extra += _deprecation(operation.successor)
        self._authenticate(exchange)
        served, values = self._find_graph(exchange, matched.graph_id, matched.values)
        if operation.name == "invoke" and _is_mutation(served, exchange.actor, *values):
            operation = INVOKE_MUTATION
        declared = self._declared(exchange, operation)
        media_type, run = binding.chosen_form(operation, exchange.headers)
        if media_type != JSON and operation.answer != "BlobAnswer":
            refuse_old(exchange)
        asked = AskedOperation(
            operation,
            run,
            media_type,
            request=await self._request(exchange, operation, declared.limit),
            call=self._call(exchange, operation, served),
            values=values,
            addresses=self._addresses[served.id],
            head=matched.head,
        )
        if operation.content in {"lines", "columns", "bytes"}:
            await self._serve_raw(exchange, asked, declared)
        elif operation.lane == "read":
            await self.engine.read(exchange, asked)
        elif operation.lane == "stream":
            await self.engine.stream(exchange, asked)
        else:
            await self.engine.write(exchange, asked)

    async def _serve_agent(self, exchange: Exchange, graph_id: bytes) -> None:
        """Answer a message of the protocol for agents."""
        assert self._agents is not None
        exchange.route = "mcp"
        if exchange.scope["method"] != "POST":
            raise Refusal(
                405,
                "method_not_allowed",
                "messages are sent here with POST; there is no stream of events",
                [(b"allow", b"POST")],
            )
        self._authenticate(exchange)
        served, _ = self._find_graph(exchange, graph_id, ())
        # As every body of JSON: the SDK would refuse one in its own ways, some of them without JSON.
        declared = self._declared(exchange, OPERATIONS["query"])
        binding.refuse_parameters(exchange.scope["query_string"])
        body = bytes(await read_body(exchange.receive, declared.limit))
        token = presented_token(exchange.scope["headers"])
        await self._agents.serve(exchange, served, token, body)

    async def _serve_page(self, exchange: Exchange, pages: Pages) -> None:
        """Answer with a file of the explorer, or exchange the code of a link for a token."""
        exchange.route = "ui"
        nonce = new_nonce()
        exchange.out.extra += guarding_headers(nonce)
        path, method = exchange.scope["raw_path"], exchange.scope["method"]
        sign_in = self._state.sign_in
        if sign_in is None or path != SESSION_PATH:
            accepts = exchange.headers.get(b"accept-encoding", b"")
            answer = pages.answer(path, method, accepts, nonce)
            head = method == "HEAD"
            await exchange.out.whole(answer.status, answer.headers, answer.body, head=head)
            return
        if method != "POST":
            raise Refusal(
                405, "method_not_allowed", "codes are sent here with POST", [(b"allow", b"POST")]
            )
        limit = BodyLimit("request_body_bytes", LARGEST_REQUEST)
        body = bytes(await read_body(exchange.receive, limit))
        told = sign_in.exchange(exchange.headers.get(b"content-type", b""), body)
        await exchange.out.whole(200, [JSON_TYPE, (b"cache-control", b"no-store")], encode(told))

    def _authenticate(self, exchange: Exchange) -> None:
        """Find out who asks; by the token alone."""
        verifier = self._state.verifier
        if verifier is None:
            return
        token = presented_token(exchange.scope["headers"])
        if token is None:
            raise Unauthenticated("missing bearer token")
        actor = verifier.verify(token)
        if actor is None:
            raise Unauthenticated("invalid bearer token")
        # Only `omnigraph ui` knows somebody who has no name.
        exchange.actor = actor or None

    def _find_graph(
        self, exchange: Exchange, raw_id: bytes, raw_values: tuple[bytes, ...]
    ) -> tuple[ServedGraph, tuple[str, ...]]:
        """Return the graph of a request, and the values in its path."""
        served = self._by_raw_id.get(raw_id)
        if served is None or raw_values:
            served, values = self._look_up(raw_id, raw_values)
        else:
            values = ()
        exchange.served = served
        exchange.url = f"{self._state.hosts.base_url(exchange.scope)}/graphs/{served.id}"
        return served, values

    def _look_up(
        self, raw_id: bytes, raw_values: tuple[bytes, ...]
    ) -> tuple[ServedGraph, tuple[str, ...]]:
        graph_id = decoded_segment(raw_id)
        if not is_graph_id(graph_id):
            raise BadRequest(f"{graph_id[:80]!r} is no id of a graph; one has {GRAPH_ID_RULE}")
        values = tuple(decoded_segment(value) for value in raw_values)
        served = self._state.graphs.get(graph_id)
        if served is None:
            raise GraphNotFound(
                f"there is no graph {graph_id} on this server; ask it for its graphs",
                graph=graph_id,
            )
        return served, values

    async def _request(self, exchange: Exchange, operation: Operation, limit: BodyLimit) -> Any:
        """Return what the parameters or the JSON body of a request say."""
        query_string = exchange.scope["query_string"]
        if operation.content != "json":
            return binding.bind_parameters(operation, query_string)
        binding.refuse_parameters(query_string)
        body = await read_body(exchange.receive, limit)
        if len(body) <= _LARGE:
            return binding.decode_body(operation, body)
        return await self.engine.aside(lambda: binding.decode_body(operation, body))

    def _declared(self, exchange: Exchange, operation: Operation) -> DeclaredBody:
        """Check what a request says of its body."""
        limit = self._limits[operation.name]
        if (length := binding.declared_length(exchange.headers)) is not None:
            limit.check(length)
        return DeclaredBody(limit, length, binding.check_media_type(operation, exchange.headers))

    def _call(self, exchange: Exchange, operation: Operation, served: ServedGraph) -> Call:
        """Return who asks, with the ids and conditions that stand in headers."""
        call = Call(
            session=self._session(served, exchange.actor),
            uri=exchange.url,
            limits=self.engine.read_limits,
            if_commit=binding.if_commit(operation, exchange.headers),
            operation_id=binding.operation_id(operation, exchange.headers),
            stored=served.stored,
        )
        return _with_validators(call, exchange) if operation.answer == "PutBlobAnswer" else call

    def _session(self, served: ServedGraph, actor: str | None) -> Session:
        """Return the graph as an actor uses it; the actors of a server are few and stay."""
        key = (served.id, actor)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = served.graph.session(actor)
        return session

    async def _serve_raw(
        self, exchange: Exchange, asked: AskedOperation, declared: DeclaredBody
    ) -> None:
        """Ask the policy, let the write in, and only then take its body."""
        served = exchange.served
        assert served is not None
        if served.mode != "open":
            await self.engine.aside(lambda: _ask_first(asked))
        slot = self.engine.writers.enter(exchange.actor, declared.length or 0)
        spool = None
        try:
            spool = SpoolFile(self._state.spool_directory)
            await spool.receive(exchange.receive, declared, slot, self.engine.lanes.encoding)
        except BaseException:
            if spool is not None:
                spool.remove()
            slot.leave()
            raise
        asked.call = replace(asked.call, received=spool.path)
        await self.engine.write_received(exchange, asked, declared, slot, spool)

    async def _serve_own(self, exchange: Exchange, own: Own) -> None:
        """Answer what is asked of the server itself."""
        if own == "graphs":
            self._authenticate(exchange)
        binding.refuse_parameters(exchange.scope["query_string"])
        status, body = self._own.answer(own, exchange)
        head = exchange.scope["method"] == "HEAD"
        await exchange.out.whole(status, [JSON_TYPE], body, head=head)

    async def _answer_error(self, exchange: Exchange, error: Exception) -> None:
        """Say what is wrong; if the answer has begun, leave it without its end."""
        if exchange.out.begun:
            # The web server closes a connection whose answer was not finished.
            logger.error(
                "answer broken off", exc_info=error, extra={"request_id": exchange.request_id}
            )
            return
        if isinstance(error, Busy):
            self._state.figures.refused(error)
        graph_id = None if exchange.served is None else exchange.served.id
        status, headers, body = error_answer(error, exchange.request_id, graph_id)
        if isinstance(error, BlobRange):
            headers += range_refusal_headers(error)
        addresses = self._no_address if graph_id is None else self._addresses[graph_id]
        text = addresses.hidden(encode(body), exchange.url)
        await exchange.out.whole(status, headers, text, head=exchange.scope["method"] == "HEAD")


def _description(state: ServerState) -> dict[str, Any]:
    from omnigraph.server.openapi import openapi_document

    return openapi_document(tokens=not state.is_open, agents=state.agents)


async def _live(receive: Receive, send: Send) -> None:
    """Follow the life of the process, for web servers that tell about it."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _is_mutation(served: ServedGraph, actor: str | None, name: str) -> bool:
    """Return whether a stored query writes; of one that there is not, no.

    Nor of one that the actor may not invoke: whether its writes have a turn would tell it from none.
    """
    entry = None if served.stored is None else served.stored.queries.get(name)
    if entry is None or not entry.query.is_mutation:
        return False
    return could_ever(served.checker, actor, Action.INVOKE_QUERY)


def _deprecation(successor: str) -> list[tuple[bytes, bytes]]:
    path = OPERATIONS[successor].path
    link = f'<{path}>; rel="successor-version"'
    return [(b"deprecation", b"true"), (b"link", link.encode())]


def _ask_first(asked: AskedOperation) -> None:
    """Ask whether a write with a raw body is allowed, before that is read."""
    session, request = asked.call.session, asked.request
    branch = getattr(request, "branch", None)
    branch = MAIN if branch is None else branch
    if asked.operation.content == "bytes":
        session.may_write(branch)
    else:
        session.may_load(branch, getattr(request, "from_", None))


def _with_validators(call: Call, exchange: Exchange) -> Call:
    """Return a call with the conditions on the blob that it writes."""
    texts = [exchange.headers.get(name) for name in (b"if-match", b"if-none-match")]
    if_match, if_none_match = (None if text is None else text.decode("latin-1") for text in texts)
    return replace(call, if_match=if_match, if_none_match=if_none_match)
