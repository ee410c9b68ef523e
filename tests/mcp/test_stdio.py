"""`omnigraph mcp` over pipes: nothing but messages on stdout, whatever comes in and whoever prints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.server.small import ALL, CROSS, SCHEMA, TAGS

LONG = 120
"""Seconds after which a test gives up; nothing that works takes so long."""
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
NOISY = """
import ctypes, os, sys
from omnigraph.cli import main
from omnigraph.service import query
plain = query.query
def noisy(*given, **named):
    print("noise of Python")
    os.write(1, b"noise of a descriptor\\n")
    ctypes.CDLL(None).puts(b"noise of C")
    return plain(*given, **named)
query.query = noisy
sys.exit(main())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stdio") / "g"
    with og.init(place, SCHEMA) as graph:
        graph.load([*TAGS, {"type": "Person", "data": {"name": "ada"}}])
    return place


class Agent:
    """The other end of the pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.number = 0

    def write(self, line: str) -> None:
        """Send a line, whatever it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> int:
        """Send a request, and return its number."""
        self.number += 1
        asked = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.write(json.dumps(asked))
        return self.number

    def tell(self, method: str, **params: Any) -> None:
        """Send what is not answered."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def read(self) -> dict[str, Any]:
        """Read the next line, which is a message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process wrote nothing more"
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, number: int) -> dict[str, Any]:
        """Read until the answer to a request; others are dropped."""
        while True:
            message = self.read()
            if message.get("id") == number:
                return message

    def call(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its answer."""
        return self.answer(self.send("tools/call", name=tool, arguments=arguments))

    def rows(self) -> Any:
        """Ask for something that works."""
        return self.call("query", {"query": ALL})["result"]["structuredContent"]["rows"]


@contextmanager
def started(place: Path, *command: str) -> Iterator[Agent]:
    """Start the process on a graph, and greet it."""
    argv = (*(command or (sys.executable, "-m", "omnigraph")), "mcp", str(place))
    with greeted(argv, place.parent / "stderr") as agent:
        yield agent


@contextmanager
def greeted(argv: Sequence[str], log: Path) -> Iterator[Agent]:
    """Start a process and greet it."""
    with log.open("w") as stderr:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        agent = Agent(process)
        told = agent.answer(agent.send("initialize", **HELLO))
        assert told["result"]["serverInfo"]["name"] == "omnigraph"
        agent.tell("notifications/initialized")
        yield agent
    finally:
        process.kill()
        process.wait(LONG)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def end(agent: Agent) -> tuple[int, str]:
    """Go away; return the exit code, and what was still written."""
    assert agent.process.stdin is not None
    assert agent.process.stdout is not None
    agent.process.stdin.close()
    left = agent.process.stdout.read()
    return agent.process.wait(LONG), left


def test_what_libraries_print_does_not_reach_the_agent(place):
    with started(place, sys.executable, "-c", NOISY) as agent:
        assert agent.rows() == [{"name": "ada"}]
        assert agent.rows() == [{"name": "ada"}]
        # What is still in the buffers of Python and C comes out at the end, and not here either.
        assert end(agent) == (0, "")
    told = (place.parent / "stderr").read_text()
    assert told.count("noise of Python") == told.count("noise of a descriptor") == 2
    assert told.count("noise of C") == 2


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


CALL = '{"jsonrpc": "2.0", "id": "bad", "method": "tools/call", "params": {"name": "query", "arguments": %s}}'
BAD = {
    "no JSON": "hello",
    "nothing": "",
    "cut": "{",
    "a batch": "[" + CALL % "{}" + "]",
    "a number": "5",
    "no message": "{}",
    "nested": CALL % f'{{"params": {{"x": {nested(1000)}}}}}',
    "very nested": CALL % f'{{"params": {{"x": {nested(100_000)}}}}}',
    "a list": CALL % "[1, 2]",
    "a text": CALL % '"query"',
    "a lone surrogate": CALL % r'{"query": "\ud800"}',
    "long": CALL % json.dumps({"query": "q" * (1 << 20)}),
    "another method": '{"jsonrpc": "2.0", "id": "bad", "method": "no/such"}',
}
ANSWERED = {"a list", "a text", "long", "another method"}
"""Those whose id can be read; the others have nobody to be answered to."""


def test_bad_messages_are_refused_and_the_next_one_is_answered(place):
    with started(place) as agent:
        for name, line in BAD.items():
            agent.write(line)
            if name in ANSWERED:
                told = agent.answer("bad")  # type: ignore[arg-type]
                assert "error" in told or told["result"]["isError"], name
            assert agent.rows() == [{"name": "ada"}], name
        assert end(agent) == (0, "")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("query", {"query": 5}),
        ("query", {"query": ["x"]}),
        ("query", {"query": ALL, "params": [1]}),
        ("branches_create", {"name": {"a": 1}}),
        ("no_such_tool", {"a": 1}),
        ("x" * 100_000, {}),
        ("", {}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_arguments_are_results_that_say_so(agent, tool, arguments):
    result = agent.call(tool, arguments)["result"]
    assert result["isError"]
    assert result["structuredContent"]["kind"] == "bad_request"
    assert len(result["structuredContent"]["error"]) < 1000


@pytest.fixture(scope="module")
def agent(place: Path) -> Iterator[Agent]:
    with started(place) as agent:
        yield agent


def test_a_call_that_is_given_up_stops_the_engine(agent):
    # More than there are threads: each must come free for the last one to be answered.
    for _ in range(5):
        number = agent.send("tools/call", name="query", arguments={"query": CROSS})
        agent.tell("notifications/cancelled", requestId=number, reason="no more")
    assert agent.rows() == [{"name": "ada"}]


def test_an_agent_that_goes_in_the_middle_of_a_call_ends_the_process(place):
    with started(place) as agent:
        assert agent.rows() == [{"name": "ada"}]
        agent.send("tools/call", name="query", arguments={"query": CROSS})
        code, left = end(agent)
    assert code == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in left.splitlines())
