"""The engine's answers beside the oracle's, compared as far as the language promises."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnigraph.embeddings.provider import MockEmbedder
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import NOW_PARAM, Bm25, ReadPlan, Rrf, Score
from omnigraph.lang.query.params import bind
from omnigraph.read.execute import run_read
from omnigraph.read.view.view import View
from omnigraph.types import from_arrow
from tests.oracle.graph import Graph
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.search_queries import CATALOG, Query

NOW = 1_000

Params = dict[str, Any]
Rows = list[tuple[Any, ...]]


def compiled(text: str) -> ReadPlan | None:
    """The plan of a generated query; None when it does not compile."""
    try:
        plan = compile_query(CATALOG, text)
    except OmniGraphError:
        return None
    assert isinstance(plan, ReadPlan)
    return plan


def queries(rng: random.Random, count: int) -> Iterator[tuple[Query, ReadPlan, Params]]:
    """Generated queries that compile, with bound parameters."""
    made = 0
    while made < count:
        query = Query(rng)
        plan = compiled(query.text())
        if plan is not None:
            made += 1
            yield query, plan, {**bind(plan.params, query.given), NOW_PARAM: NOW}


def answer_of(view: View, plan: ReadPlan, params: Params) -> Rows | None:
    """The engine's rows as stored values; None when it refuses."""
    try:
        table = run_read(view, plan, params, embedder=MockEmbedder())
    except BadRequest as error:
        assert "rrf" in str(error) or "overflow" in str(error)
        return None
    assert table.column_names == [column.name for column in plan.columns]
    assert table.schema.types == [column.type.arrow_type() for column in plan.columns]
    columns = [
        from_arrow(column.type.as_nullable(), table.column(at))
        for at, column in enumerate(plan.columns)
    ]
    return [comparable(row) for row in zip(*columns, strict=True)]


def expected_of(plan: ReadPlan, plain: Graph, params: Params) -> Rows | None:
    """The oracle's rows; None when it refuses."""
    try:
        return [comparable(tuple(row.values())) for row in judge(plan, plain, params, NOW)]
    except RefusedError:
        return None


def comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row that can be counted."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def alike(left: Rows, right: Rows) -> bool:
    """Equal rows; scores and sums of floats may differ in the last digits."""
    return len(left) == len(right) and all(
        math.isclose(one, two, rel_tol=1e-5, abs_tol=1e-7)
        if isinstance(one, float) and isinstance(two, float)
        else one == two
        for pair in zip(left, right, strict=True)
        for one, two in zip(*pair, strict=True)
    )


def check(view: View, plain: Graph, plan: ReadPlan, params: Params, note: str) -> None:
    """Compare as the language promises: rows in order, or as a bag, or any of them."""
    expected, actual = expected_of(plan, plain, params), answer_of(view, plan, params)
    told = f"{actual} is not {expected}\n{note}\nwith {params}"
    if expected is None or actual is None:
        assert actual == expected, told
    elif plan.order or plan.ranking or plan.is_aggregate:
        assert alike(actual, expected), told
    elif plan.limit is None and plan.offset is None:
        assert Counter(actual) == Counter(expected), told
    else:
        everything = expected_of(replace(plan, limit=None, offset=None), plain, params)
        assert len(actual) == len(expected), told
        assert not Counter(actual) - Counter(everything), told


def without_relevance(plan: ReadPlan) -> ReadPlan | None:
    """What of a plan stays true whatever index gives the scores of bm25; None when nothing does.

    Who matches does, and who comes first does not.
    """
    ranking = plan.ranking
    if isinstance(ranking, Rrf):
        return None if any(isinstance(arm, Bm25) for arm in ranking.arms) else plan
    if not isinstance(ranking, Bm25):
        return plan
    columns = tuple(one for one in plan.columns if not isinstance(one.expr, Score))
    return replace(plan, columns=columns, limit=None, offset=None) if columns else None


def check_any_index(view: View, plain: Graph, plan: ReadPlan, params: Params, note: str) -> None:
    """Like ``check``, on a table whose index may count rows that are gone, or not all of them."""
    kept = without_relevance(plan)
    if kept is None:
        return
    if not isinstance(kept.ranking, Bm25):
        check(view, plain, kept, params, note)
        return
    expected, actual = expected_of(kept, plain, params), answer_of(view, kept, params)
    assert Counter(actual) == Counter(expected), f"{actual} is not {expected}\n{note}\n{params}"
