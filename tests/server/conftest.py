"""What tests of the server share: a small graph, and servers that are stopped when the test has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.cli.running import Launcher
from tests.server.running import RunningServer, start_server

SCHEMA = """
node Person {
  name: String @key
  age: I64?
}
edge Knows: Person -> Person
"""
PEOPLE = "\n".join(
    f'{{"type": "Person", "data": {{"name": "{name}", "age": {age}}}}}'
    for name, age in [("ada", 36), ("bob", 41), ("eve", 29)]
)


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a graph of three people, which no test may write to."""
    root = tmp_path_factory.mktemp("people") / "g.omni"
    with og.init(root, SCHEMA) as graph:
        graph.load(PEOPLE.encode(), mode="append")
    return root


@pytest.fixture
def own_people(tmp_path: Path) -> Path:
    """The root of such a graph that belongs to one test."""
    root = tmp_path / "g.omni"
    with og.init(root, SCHEMA) as graph:
        graph.load(PEOPLE.encode(), mode="append")
    return root


@pytest.fixture
def start(tmp_path: Path, launcher: Launcher) -> Iterator[Callable[..., RunningServer]]:
    """Start real servers, as many as the test wants; arguments are those of ``start_server``.

    ``fresh``: in a new interpreter, where the start or the end of the process is what is tested.
    """
    with ExitStack() as running:

        def starting(*flags: Any, fresh: bool = False, **more: Any) -> RunningServer:
            log = tmp_path / f"server-{len(list(tmp_path.glob('server-*.log')))}.log"
            given = {"log": log, "launcher": None if fresh else launcher, **more}
            return running.enter_context(start_server(*flags, **given))

        yield starting
