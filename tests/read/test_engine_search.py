"""The engine against the oracle on queries that search, rank, and take parameters."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph
from omnigraph.embeddings.provider import MockEmbedder
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM, ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.read import enumeration
from omnigraph.read.execute import run_read
from omnigraph.read.view import Reader
from omnigraph.types import from_arrow
from tests.oracle.graph import Graph as PlainGraph
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.search_queries import CATALOG, SCHEMA, Query, plain_graph
from tests.stored import fill

QUERIES = 60
NOW = 1_000


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_CACHE_DIR", str(tmp_path / "cache"))


def queries(rng: random.Random, count: int) -> Iterator[tuple[str, ReadPlan, dict[str, Any]]]:
    """Generated queries that compile, with bound parameters."""
    made = 0
    while made < count:
        query = Query(rng)
        text = query.text()
        try:
            plan = compile_query(CATALOG, text)
        except OmniGraphError:
            continue
        assert isinstance(plan, ReadPlan)
        made += 1
        yield text, plan, {**bind(plan.params, query.given), NOW_PARAM: NOW}


def answer_of(
    reader: Reader, graph: Graph, plan: ReadPlan, params: dict[str, Any]
) -> list[tuple[Any, ...]] | None:
    """The engine's rows as stored values; None when it refuses."""
    view = reader.view(graph.snapshot(), CATALOG)
    try:
        table = run_read(view, plan, params, embedder=MockEmbedder())
    except BadRequest as error:
        assert "rrf" in str(error)
        return None
    assert table.column_names == [column.name for column in plan.columns]
    assert table.schema.types == [column.type.arrow_type() for column in plan.columns]
    columns = [
        from_arrow(column.type.as_nullable(), table.column(at))
        for at, column in enumerate(plan.columns)
    ]
    return [comparable(row) for row in zip(*columns, strict=True)]


def expected_of(plan: ReadPlan, plain: PlainGraph, params: dict[str, Any]) -> Any:
    try:
        return [comparable(tuple(row.values())) for row in judge(plan, plain, params, NOW)]
    except RefusedError:
        return None


def comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that can be counted."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def alike(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> bool:
    """Equal rows; scores and sums of floats may differ in the last digits."""
    return len(left) == len(right) and all(
        math.isclose(one, two, rel_tol=1e-5, abs_tol=1e-7)
        if isinstance(one, float) and isinstance(two, float)
        else one == two
        for pair in zip(left, right, strict=True)
        for one, two in zip(*pair, strict=True)
    )


def check(
    reader: Reader, graph: Graph, plain: PlainGraph, plan: ReadPlan, params: dict[str, Any]
) -> None:
    """Compare as the language promises: rows in order, or as a bag, or any of them."""
    expected = expected_of(plan, plain, params)
    actual = answer_of(reader, graph, plan, params)
    if expected is None or actual is None:
        assert actual == expected
    elif plan.order or plan.ranking or plan.is_aggregate:
        assert alike(actual, expected), f"{actual} is not {expected}"
    elif plan.limit is None:
        assert Counter(actual) == Counter(expected)
    else:
        unlimited = ReadPlan(plan.name, plan.params, plan.steps, plan.columns, plan.variables)
        assert len(actual) == len(expected)
        assert not Counter(actual) - Counter(expected_of(unlimited, plain, params))


def compare_many(tmp_path: Any, seed: int, *, indexed: bool = False) -> None:
    rng = random.Random(seed)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        if indexed:
            graph.ensure_indices()
        reader = Reader(graph.space)
        for text, plan, params in queries(rng, QUERIES):
            try:
                check(reader, graph, plain, plan, params)
            except BaseException as error:
                error.add_note(f"seed {seed}: {text}\nwith {params}")
                raise


@pytest.mark.parametrize("seed", range(10))
def test_engine_agrees_with_the_oracle(tmp_path, seed):
    compare_many(tmp_path, seed)


@pytest.mark.parametrize("seed", range(100, 103))
def test_indexes_change_nothing(tmp_path, seed):
    compare_many(tmp_path, seed, indexed=True)


@pytest.mark.parametrize("mode", ["csr", "indexed"])
@pytest.mark.parametrize("seed", range(200, 202))
def test_both_paths_agree_with_the_oracle(tmp_path, monkeypatch, seed, mode):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    compare_many(tmp_path, seed)


@pytest.mark.parametrize("seed", range(300, 303))
def test_small_batches_change_nothing(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(enumeration, "MAX_ROWS", 3)
    compare_many(tmp_path, seed)
