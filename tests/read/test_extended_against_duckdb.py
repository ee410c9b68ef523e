"""The engine against SQL on conditions, optional blocks, `exists`, alternatives and groups, on graphs of some size."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import omnigraph
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import ReadPlan
from tests.read.extended_queries import CATALOG, SCHEMA, plain_graph
from tests.read.judged_by_sql import Question
from tests.read.sql_helpers import database
from tests.read.test_extended import answer_of, comparable, view_of
from tests.stored import fill

QUESTIONS = 150
MOST_ROWS = 50_000


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_sql(tmp_path, seed):
    rng = random.Random(f"sql {seed}")
    plain = plain_graph(rng, persons=60, edges=200)
    connection = database(CATALOG, plain)
    compared = 0
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        view = view_of(graph)
        for _ in range(QUESTIONS):
            text, sql = Question(rng).texts()
            plan = compile_query(CATALOG, text)
            assert isinstance(plan, ReadPlan)
            rows = connection.execute(sql).fetchmany(MOST_ROWS + 1)
            if len(rows) > MOST_ROWS:
                continue
            compared += bool(rows)
            expected = Counter(comparable(row) for row in rows)
            assert Counter(answer_of(view, plan, {})) == expected, f"{text}\n{sql}"
    assert compared > QUESTIONS // 2
