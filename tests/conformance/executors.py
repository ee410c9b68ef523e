"""Who runs the cases: the executors there are, and what none of them can do yet."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import omnigraph
from omnigraph import settings
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import Const, Nearest, ParamRef, Ranking, ReadPlan, Rrf
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema.catalog import Catalog
from tests.oracle.analysis import mock_embedding
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError, run, to_json_rows
from tests.stored import fill, read_back

NOT_BUILT = {
    "apply": "needs schema apply, not built yet",
    "engine": "needs the engine: the oracle raises no run-time errors",
    "provider": "needs the embedding provider, not built yet",
    "surfaces": "command line cases run in tests/cli; the server is not built yet",
    "versioning": "needs the query engine, merge, diff and export, not built yet",
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


class OracleSession:
    """Compiles with the product and reads with the oracle."""

    def __init__(self, catalog: Catalog, data: str) -> None:
        self.catalog = catalog
        self.graph = Graph.load(catalog, data)

    def run(self, source: str, name: str | None, params: Any) -> Outcome:
        """Compile, bind and interpret."""
        plan = compile_query(self.catalog, source, name)
        bound = bind(plan.params, params)
        assert isinstance(plan, ReadPlan), "a mutation runs on a stored graph"
        if _compares_models(plan.ranking):
            not_built("provider")
        try:
            rows = run(plan, self.graph, bound, time.time_ns() // 1_000_000, _embed)
        except RefusedError:
            not_built("engine")
        return Outcome(rows=to_json_rows(plan, rows))

    def close(self) -> None:
        """Nothing is held."""


def _compares_models(ranking: Ranking | None) -> bool:
    """Whether text is to be embedded for vectors that record their model."""
    if isinstance(ranking, Rrf):
        return _compares_models(ranking.first) or _compares_models(ranking.second)
    if not isinstance(ranking, Nearest) or ranking.model is None:
        return False
    return isinstance(ranking.query, Const | ParamRef) and not ranking.query.type.is_vector


def _embed(text: str, dim: int) -> list[float]:
    if not settings.EMBEDDINGS_MOCK.get():
        not_built("provider")
    return mock_embedding(text, dim)


class StoredSession:
    """Writes with the product into a stored graph; reads it back for the oracle to judge."""

    def __init__(self, schema: str, data: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        root = Path(self._directory.name) / "graph"
        shutil.copytree(_template(schema, data), root)
        self.graph = omnigraph.open(root)

    def run(self, source: str, name: str | None, params: Any) -> Outcome:
        """Mutate the stored graph, or interpret a read over its rows."""
        catalog = self.graph.schema.catalog
        plan = compile_query(catalog, source, name)
        if not isinstance(plan, ReadPlan):
            done = self.graph.mutate(source, name, params)
            return Outcome(affected={"nodes": done.affected_nodes, "edges": done.affected_edges})
        rows = run(plan, read_back(self.graph), bind(plan.params, params), 0, _embed)
        return Outcome(rows=to_json_rows(plan, rows))

    def close(self) -> None:
        """Remove the graph."""
        self.graph.close()
        self._directory.cleanup()


@functools.cache
def _template(schema: str, data: str) -> Path:
    """A graph of one fixture, copied for every case: it has only main, so it may be moved."""
    directory = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    with omnigraph.init(directory / "graph", schema) as graph:
        fill(graph, Graph.load(graph.schema.catalog, data))
    return directory / "graph"


def open_session(schema: str, catalog: Catalog, data: str, *, writes: bool) -> Session:
    """Cases that only read are judged in memory; the others on a stored graph."""
    return StoredSession(schema, data) if writes else OracleSession(catalog, data)


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
