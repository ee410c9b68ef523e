"""Who runs the cases: the executors there are, and what none of them can do yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from omnigraph import settings
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import Const, Nearest, ParamRef, Ranking, ReadPlan, Rrf
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema.catalog import Catalog
from tests.oracle.analysis import mock_embedding
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError, run, to_json_rows

NOT_BUILT = {
    "write": "needs the write path, not built yet",
    "apply": "needs schema apply and the write path, not built yet",
    "engine": "needs the engine: the oracle raises no run-time errors",
    "provider": "needs the embedding provider, not built yet",
    "surfaces": "needs the command line and the server, not built yet",
    "versioning": "needs the commit graph, not built yet",
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


class OracleSession:
    """Compiles with the product and reads with the oracle."""

    def __init__(self, catalog: Catalog, data: str) -> None:
        self.catalog = catalog
        self.graph = Graph.load(catalog, data)

    def run(self, source: str, name: str | None, params: Any) -> Outcome:
        """Compile, bind and interpret."""
        plan = compile_query(self.catalog, source, name)
        bound = bind(plan.params, params)
        if not isinstance(plan, ReadPlan):
            not_built("write")
        if _compares_models(plan.ranking):
            not_built("provider")
        try:
            rows = run(plan, self.graph, bound, time.time_ns() // 1_000_000, _embed)
        except RefusedError:
            not_built("engine")
        return Outcome(rows=to_json_rows(plan, rows))


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


SESSIONS: Mapping[str, Callable[[Catalog, str], Session]] = {"oracle": OracleSession}
