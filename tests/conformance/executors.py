"""Who runs the cases: the executors there are, and what none of them can do yet."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import omnigraph
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM, ParamRef, ReadPlan
from omnigraph.lang.query.params import bind
from tests.conformance.expectations import check_rows
from tests.oracle.graph import Graph as Plain
from tests.oracle.interpreter import run, to_json_rows
from tests.stored import fill, read_back

NOT_BUILT = {
    "apply": "needs schema apply, not built yet",
    "surfaces": "command line cases run in tests/cli; the server is not built yet",
    "versioning": "needs merge, diff and export, not built yet",
}


class NotBuiltError(Exception):
    """The case needs a part of the product that is not there; the case is skipped."""

    def __init__(self, part: str) -> None:
        super().__init__(NOT_BUILT[part])
        self.part = part


def not_built(part: str) -> NoReturn:
    """Stop the case: it needs a part that does not exist yet."""
    raise NotBuiltError(part)


@dataclass(frozen=True)
class Outcome:
    """What one run gave: the rows of a read, or the counts of a mutation."""

    rows: list[dict[str, Any]] | None = None
    affected: dict[str, int] | None = None


class Session(Protocol):
    """A fresh graph of one fixture. Runs see the effects of earlier runs."""

    def run(self, source: str, name: str | None, params: Any) -> Outcome:
        """Run one query as a caller would; raises what the product raises."""

    def close(self) -> None:
        """Give back what the session holds."""


class StoredSession:
    """Runs on a stored graph through the product; the oracle reads the same rows and must agree."""

    def __init__(self, graph: omnigraph.Graph, plain: Callable[[], Plain]) -> None:
        self.graph = graph
        self.plain = plain

    def run(self, source: str, name: str | None, params: Any) -> Outcome:
        """Mutate, or read twice and compare."""
        plan = compile_query(self.graph.schema.catalog, source, name)
        if not isinstance(plan, ReadPlan):
            done = self.graph.mutate(source, name, params)
            return Outcome(affected={"nodes": done.affected_nodes, "edges": done.affected_edges})
        result = self.graph.query(source, name, params)
        assert result.to_arrow().schema.types == [c.type.arrow_type() for c in plan.columns]
        if not _shows_the_time(plan):
            judged = run(plan, self.plain(), bind(plan.params, params), _now_ms())
            agree(plan, result.rows, to_json_rows(plan, judged))
        return Outcome(rows=result.rows)

    def close(self) -> None:
        """The graph is shared."""


class WritingSession(StoredSession):
    """The same on a graph of its own."""

    def __init__(self, schema: str, data: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        root = Path(self._directory.name) / "graph"
        shutil.copytree(_template(schema, data), root)
        super().__init__(omnigraph.open(root), lambda: read_back(self.graph))

    def close(self) -> None:
        """Remove the graph."""
        self.graph.close()
        self._directory.cleanup()


def agree(plan: ReadPlan, got: list[dict[str, Any]], want: list[dict[str, Any]]) -> None:
    """Fail unless engine and oracle gave the same answer, as far as the plan determines it."""
    is_ordered = bool(plan.order) or plan.ranking is not None
    if plan.limit is not None and not is_ordered:
        assert len(got) == len(want), "which rows is open, how many is not"
    else:
        check_rows(got, want, ordered=is_ordered)


def _shows_the_time(plan: ReadPlan) -> bool:
    shown = (column.expr for column in plan.columns)
    return any(isinstance(expr, ParamRef) and expr.name == NOW_PARAM for expr in shown)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@functools.cache
def _template(schema: str, data: str) -> Path:
    """A graph of one fixture, copied for every case: it has only main, so it may be moved."""
    directory = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with omnigraph.init(directory / "graph", schema) as graph:
        fill(graph, Plain.load(graph.schema.catalog, data))
    return directory / "graph"


@functools.cache
def _shared(schema: str, data: str) -> StoredSession:
    """One handle per fixture for all cases that only read."""
    graph = omnigraph.open(_template(schema, data), mode="r")
    plain = Plain.load(graph.schema.catalog, data)
    return StoredSession(graph, lambda: plain)


def open_session(schema: str, data: str, *, writes: bool) -> Session:
    """A graph of the fixture."""
    return WritingSession(schema, data) if writes else _shared(schema, data)


@contextmanager
def environment(wanted: Mapping[str, Any]) -> Iterator[None]:
    """Set these variables for the run; an empty value unsets one."""
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, Any]) -> None:
    for name, value in variables.items():
        if value in ("", None):
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)
