"""What policies, stored queries and tools for agents cost, each beside the same without."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.serving.figures import Figure
from benchmarks.serving.graphs import POINT
from benchmarks.serving.http import Connection, query_body
from benchmarks.serving.processes import Command, Server, Watched, serving

BATCH, WARM, ROUNDS, STARTS = 100, 200, 16, 5
RULES, ACTORS = 200, 5_000
POLICY = """\
version: 1
groups: { all: [ada] }
rules:
  - id: work
    allow: { actors: { group: all }, actions: [read, change], branch_scope: any }
  - id: ask
    allow: { actors: { group: all }, actions: [invoke_query] }
"""
TOKENS = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"ada": "ada"}'}
Ask = Callable[[Connection, int], bytes]


def _turns(ways: Mapping[str, tuple[Server, str, Ask]]) -> dict[str, list[float]]:
    """Ask in several ways in turns; seconds of processor time that each takes of its server for a request."""
    used: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, (server, token, ask) in ways.items():
            count = WARM if turn == 0 else BATCH
            # A server closes connections that wait for their turn too long.
            connection = Connection(server.host, server.port, token)
            before = server.cpu()
            for number in range(count):
                status, body = connection.ask(ask(connection, turn * BATCH + number))
                assert status == 200, (status, body)
            connection.close()
            if turn:
                used[name].append((server.cpu() - before) / count)
    return used


def _beside(what: str, ours: list[float], theirs: list[float], bar: float) -> Figure:
    mine, others = statistics.mean(ours), statistics.mean(theirs)
    shown = f"{mine * 1000:.2f} ms against {others * 1000:.2f} ms"
    return Figure(what, shown, mine / others, bar)


def _params(number: int, persons: int) -> dict[str, str]:
    return {"key": f"p{number * 7919 % persons}"}


def requests(place: Path, people: Path, persons: int) -> Iterator[Figure]:
    """A point query with a policy, as a stored query, and as a tool, each beside the plain one."""
    policy, queries = place / "point-policy.yaml", place / "point-queries"
    policy.write_text(POLICY, "utf-8")
    queries.mkdir(exist_ok=True)
    name = POINT.split("query ", 1)[1].split("(", 1)[0].strip()
    (queries / "point.gq").write_text(POINT, "utf-8")
    stored = ["--queries", f"people={queries}"]
    with (
        serving({"people": people}, flags=stored) as free,
        serving({"people": people}, TOKENS, policy, stored) as ruled,
    ):

        def query(connection: Connection, number: int) -> bytes:
            body = query_body(POINT, **_params(number, persons))
            return connection.request("POST", "/graphs/people/query", body)

        def invoke(connection: Connection, number: int) -> bytes:
            body = json.dumps({"params": _params(number, persons)}).encode()
            return connection.request("POST", f"/graphs/people/queries/{name}", body)

        def tool(connection: Connection, number: int) -> bytes:
            arguments = {"query": POINT, "params": _params(number, persons)}
            params = {"name": "query", "arguments": arguments}
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            body = json.dumps(asked).encode()
            return connection.request("POST", "/graphs/people/mcp", body, accept="application/json")

        used = _turns(
            {
                "plain": (free, "", query),
                "policy": (ruled, "ada", query),
                "stored": (free, "", invoke),
                "tool": (free, "", tool),
            }
        )
    yield _beside("a point query behind a policy", used["policy"], used["plain"], 1.02)
    yield _beside("a stored query, beside its text", used["stored"], used["plain"], 1.0)
    yield _beside("a tool call, beside its request", used["tool"], used["plain"], 2.0)


def first_decision() -> Iterator[Figure]:
    """A decision that was not made before, of a large bundle."""
    from omnigraph.policy.bundle import Bundle, PolicyRule
    from omnigraph.policy.cedar import CedarChecker
    from omnigraph.policy.checker import Action, Question

    groups = {f"g{n}": frozenset(f"a{k}" for k in range(n, ACTORS, 50)) for n in range(50)}
    rules = tuple(
        PolicyRule(f"r{n}", f"g{n % 50}", (Action.CHANGE,), "unprotected") for n in range(RULES)
    )
    checker = CedarChecker(Bundle("graph", groups, frozenset({"main"}), rules))
    took = []
    for number in range(1000):
        question = Question(f"a{number}", Action.CHANGE, f"b{number}")
        began = time.process_time()
        assert checker.check(question).allowed
        took.append(time.process_time() - began)
    first = statistics.median(took) * 1000
    shown = f"{first:.3f} ms; {RULES} rules, {ACTORS:,} actors"
    yield Figure("a first decision", shown, first / 0.3, 1.0)


def greeting(people: Path) -> Iterator[Figure]:
    """What `omnigraph mcp` takes until it answers `initialize`, beside importing the SDK."""
    hello: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "bench", "version": "1"}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    ours, theirs = [], []
    for _ in range(STARTS):
        theirs.append(Command([sys.executable, "-c", "import mcp, mcp.server.stdio"]).cpu)
        argv = [sys.executable, "-m", "omnigraph", "mcp", str(people)]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:  # noqa: S603
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert "serverInfo" in process.stdout.readline()
            ours.append(Watched(process.pid).cpu())
            process.stdin.close()
    yield _beside("`omnigraph mcp` greets, beside importing the SDK", ours, theirs, 1.2)
