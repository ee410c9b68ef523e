"""The graphs that tests start with, and records to put into them.

A test file says in one line what its graph is::

    graph = graph_of(SCHEMA)  # new and empty for every test
    graph = graph_of(SCHEMA, PEOPLE, scope="module")  # loaded once, for all tests of the file
    graph = graph_of(SCHEMA, fill, upkeep="off")  # filled by `fill(graph)`
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.stored import read_back

Content = Sequence[dict[str, Any]] | Callable[[og.Graph], object]
"""Records to load, or a function that fills the graph."""


def graph_of(schema: str, *contents: Content, scope: str = "function", **options: Any) -> Any:
    """Return a fixture: a graph with this schema and contents, at `tmp_path / "g"` if every test has its own."""

    def opened(place: Path) -> Iterator[og.Graph]:
        with og.init(place, schema, **options) as graph:
            for content in contents:
                content(graph) if callable(content) else graph.load(content)
            yield graph

    @pytest.fixture
    def own(tmp_path: Path) -> Iterator[og.Graph]:
        yield from opened(tmp_path / "g")

    @pytest.fixture(scope=scope)
    def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
        yield from opened(tmp_path_factory.mktemp("shared") / "g")

    return own if scope == "function" else shared


def person(name: str, **data: Any) -> dict[str, Any]:
    """Return the record of a person."""
    return {"type": "Person", "data": {"name": name, **data}}


def ages(graph: og.Graph, branch: str = "main") -> dict[str, int | None]:
    """Name -> age of everyone on a branch."""
    people = read_back(graph, branch).nodes["Person"]
    return {name: data["age"] for name, data in people.items()}


def exported(graph: og.Graph, **options: Any) -> bytes:
    """What an export writes."""
    out = io.BytesIO()
    graph.export(out, **options)
    return out.getvalue()
