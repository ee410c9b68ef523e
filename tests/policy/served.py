"""The world of ``world`` behind a server, and the three ways to ask for an operation: HTTP, MCP, Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from omnigraph.errors import OmniGraphError
from omnigraph.lang.query.registry import Registry, StoredSource
from omnigraph.mcp.tools import BUILT_IN_NAMES, built_in
from omnigraph.policy import Question
from omnigraph.server.asgi import ServerApp
from omnigraph.server.tokens import TokenTable
from omnigraph.service.operations import Operation
from tests.policy.operation_rows import STORED, Row
from tests.policy.world import World, opened
from tests.server.http import Answer, Http, server_state, threaded

TOKENS = {"ada": "token-of-ada", "bob": "token-of-bob"}
TOOLS = {tool.operation.name: name for name, tool in built_in().items()}
MESSAGE = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@dataclass
class ServedWorld(World):
    """The graph behind a server. Things that calls use up are made for each call by its own name."""

    stored: Registry = field(default_factory=lambda: Registry({}))
    http: Http | None = None
    app: ServerApp | None = None
    made: dict[tuple[str, str], str] = field(default_factory=dict)

    def branch(self, name: str) -> str:
        """A branch that nobody else uses."""
        return self._once("branch", name, lambda: self.owner.branches.create(name, "fresh"))

    def tag(self, name: str) -> str:
        """A tag of `side` that nobody else uses."""
        made = lambda: self.owner.tags.create(name, f"commit:{self.side_commit}")  # noqa: E731
        return self._once("tag", name, made)

    def commit(self, name: str) -> str:
        """A commit of `side` that nobody else uses."""
        record = {"type": "Person", "data": {"name": f"of-{name}"}}
        load = lambda: self.owner.load([record], branch="side").commit.graph_commit_id  # noqa: E731
        return self._once("commit", name, load)

    def _once(self, kind: str, name: str, make: Callable[[], object]) -> str:
        if (kind, name) not in self.made:
            result = make()
            self.made[kind, name] = result if isinstance(result, str) and kind == "commit" else name
        return self.made[kind, name]

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Any = None,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        actor: str = "ada",
    ) -> Answer:
        """Send one request as it stands: nothing in the path is changed."""
        assert self.http is not None
        sent = {
            "Host": f"127.0.0.1:{self.http.port}",
            "Authorization": f"Bearer {TOKENS[actor]}",
            "Content-Length": str(len(body)),
            "X-Request-Id": "r",
            **(headers or {}),
        }
        target = f"{path}?{urlencode(params, doseq=True)}" if params else path
        lines = [
            f"{method} {target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in sent.items()),
        ]
        return self.http.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def ask(self, path: str, body: Any = None, *, actor: str = "ada", **headers: str) -> Answer:
        """Send a JSON body to a path below the graph; a GET without one."""
        if body is None:
            return self.send("GET", f"/graphs/default/{path}", headers=headers, actor=actor)
        sent = {"Content-Type": "application/json", **headers}
        content = json.dumps(body).encode()
        return self.send("POST", f"/graphs/default/{path}", body=content, headers=sent, actor=actor)

    def message(self, method: str, actor: str = "ada", /, **params: Any) -> Answer:
        """Send one message of the protocol for agents."""
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        body = json.dumps(asked).encode()
        return self.send("POST", "/graphs/default/mcp", body=body, headers=MESSAGE, actor=actor)

    def tool(self, name: str, arguments: Any, actor: str = "ada") -> dict[str, Any]:
        """Call a tool, and return its result."""
        answer = self.message("tools/call", actor, name=name, arguments=arguments).json()
        result: dict[str, Any] = answer["result"]
        return result


@contextmanager
def served_world(place: Path, policy: Any = None, **limits: int) -> Iterator[ServedWorld]:
    """Serve the world; a policy of the test's own stands in place of the one that records."""
    with opened(place / "g", policy) as world:
        stored = Registry.load([StoredSource(*one) for one in STORED.items()], BUILT_IN_NAMES)
        state = server_state(
            {"default": world.graph}, place / "spool", verifier=TokenTable(TOKENS), **limits
        )
        state.agents = True
        served = replace(state.graphs["default"], stored=stored, checker=world.policy)
        state.graphs = {"default": served}
        with threaded(state) as running:
            yield ServedWorld(**vars(world), stored=stored, http=running.http, app=running.app)


def text_of(question: Question) -> str:
    """A question as rows write it."""
    return f"{question.action} {question.branch or '-'} {question.target or '-'}"


Asking = Callable[[], str | None]
"""Asks for an operation, and returns the kind of the error, if there is one."""


def ways(world: ServedWorld, operation: Operation, row: Row, name: str) -> dict[str, Asking]:
    """Return the surfaces on which a row can be asked for; what it uses up is there for each."""
    found = {"http": _over_http(world, operation, row, f"{name}-http")}
    is_tool = operation.name in TOOLS or operation.name == "invoke"
    if is_tool and row.accept is None:
        found["mcp"] = _over_mcp(world, operation, row, f"{name}-mcp")
    found["python"] = _in_python(world, row, f"{name}-python")
    return found


def _over_http(world: ServedWorld, operation: Operation, row: Row, name: str) -> Asking:
    request, values = row.request(world, name), row.path(world, name)
    path = operation.path
    for part, value in zip(operation.names_in_path, values, strict=True):
        path = path.replace(f"{{{part}}}", quote(value, safe=""))
    headers = {} if row.accept is None else {"Accept": row.accept}
    params, body = dict(request), b""
    if operation.content == "json":
        params, body = {}, json.dumps(request).encode()
        headers["Content-Type"] = "application/json"
    elif row.body is not None:
        body, headers["Content-Type"] = row.body(name), row.media_type
    method = row.method or operation.method

    def ask() -> str | None:
        answer = world.send(
            method, f"/graphs/default/{path}", params=params, body=body, headers=headers
        )
        if answer.status < 400:
            return None
        return {403: "policy_denied"}[answer.status] if method == "HEAD" else answer.json()["kind"]

    return ask


def _over_mcp(world: ServedWorld, operation: Operation, row: Row, name: str) -> Asking:
    request, values = dict(row.request(world, name)), row.path(world, name)
    if operation.name == "invoke":
        (tool,) = values
        arguments = {**request.pop("params", {}), **request}
    else:
        tool = TOOLS[operation.name]
        arguments = {**request, **dict(zip(operation.names_in_path, values, strict=True))}

    def ask() -> str | None:
        result = world.tool(tool, arguments)
        if not result.get("isError"):
            return None
        told = result["structuredContent"]
        # Whoever may call a tool on no branch is told that there is none.
        is_hidden = told["error"] == f"there is no tool `{tool}`; list the tools"
        return "policy_denied" if is_hidden else told["kind"]

    return ask


def _in_python(world: ServedWorld, row: Row, name: str) -> Asking:
    row.request(world, name)
    row.path(world, name)
    session = world.session

    def ask() -> str | None:
        try:
            row.python(session, world, name)
        except OmniGraphError as error:
            kind: str = error.body()["kind"]
            return kind
        return None

    return ask
