"""The engine against the oracle on queries that search, rank, and take parameters."""

from __future__ import annotations

import random
from typing import Any

import pytest

import omnigraph
from omnigraph.lang.query.ir import NOW_PARAM
from omnigraph.read.thresholds import DEFAULTS, MatchThresholds, Thresholds
from omnigraph.read.view.view import Reader
from tests.opened import workspace_of
from tests.read.fixed_queries import SEARCHES
from tests.read.judging_helpers import NOW, check, compiled, queries
from tests.read.search_queries import CATALOG, SCHEMA, plain_graph
from tests.sampling import runs_all
from tests.stored import fill

QUERIES = 60


def compare_many(
    tmp_path: Any, seed: int, *, indexed: bool = False, thresholds: Thresholds = DEFAULTS
) -> None:
    rng = random.Random(seed)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        if indexed:
            graph.ensure_indices()
        reader = Reader(workspace_of(graph), thresholds)
        for query, plan, params in queries(rng, QUERIES):
            view = reader.view(graph.snapshot(), CATALOG)
            check(view, plain, plan, params, f"seed {seed}: {query.arranged(query.clauses)}")
        for text in SEARCHES:
            plan = compiled(text)
            assert plan is not None
            check(view, plain, plan, {NOW_PARAM: NOW}, f"seed {seed}: {text}")


@pytest.mark.parametrize("seed", range(10 if runs_all() else 2))
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
def test_small_batches_change_nothing(tmp_path, seed):
    compare_many(tmp_path, seed, thresholds=Thresholds(match=MatchThresholds(batch_rows=3)))
