"""The engine against SQL: the same matches as joins over the same rows, on graphs of some size.

The oracle is for small graphs; here hundreds of nodes go through the compiled kernels, batches and
messages. A traversal is a join with the distinct pairs of its edges, a negation is `NOT EXISTS`.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import omnigraph
from omnigraph.lang.query.ir import NOW_PARAM
from omnigraph.read.execute import run_read
from omnigraph.read.match.pattern import pattern_of
from omnigraph.read.view.view import Reader
from tests.opened import workspace_of
from tests.read.queries import CATALOG, SCHEMA, matches, plain_graph
from tests.read.sql_helpers import database, sql_of
from tests.stored import fill

MOST_ROWS = 200_000


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_rows_are_those_of_sql(tmp_path, seed):
    rng = random.Random(seed)
    plain = plain_graph(rng, persons=120, edges=400)
    connection = database(CATALOG, plain)
    compared = 0
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        view = Reader(workspace_of(graph)).view(graph.snapshot(), CATALOG)
        for text, grouped, listed in matches(rng, 60):
            names = [column.name for column in listed.columns]
            pattern = pattern_of(grouped.steps)
            ids = ", ".join(f'"{name}".id' for name in names)
            groups = f"{sql_of(pattern, f'{ids}, count(*)')} GROUP BY ALL"
            connection.execute(
                f"SELECT count(*), sum(n) FROM ({groups}) AS g({', '.join(names)}, n)"
            )
            size = connection.fetchone()
            assert size is not None
            if size[0] > MOST_ROWS:
                continue
            compared += 1
            expected = {row[:-1]: row[-1] for row in connection.execute(groups).fetchall()}
            answer = run_read(view, grouped, {NOW_PARAM: 0}).to_pylist()
            actual = {tuple(row.values())[:-1]: row["n"] for row in answer}
            assert actual == expected, text
            if (size[1] or 0) <= MOST_ROWS:
                rows = run_read(view, listed, {NOW_PARAM: 0}).to_pylist()
                assert Counter(tuple(row.values()) for row in rows) == Counter(expected), text
    assert compared > 30
