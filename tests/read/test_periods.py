"""Queries see what holds: the engine against the oracle, and against periods that are written out as conditions."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.lang.query import compile_query, ir
from omnigraph.lang.query.ir import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.read.execute import run_read
from omnigraph.read.thresholds import MatchThresholds, Thresholds
from omnigraph.read.view.view import View
from tests.opened import read_with
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.period_queries import (
    MOMENTS,
    CannotBeWritten,
    made,
    plain_graph,
    schema,
    written_out,
)
from tests.read.test_extended import comparable, stored, view_of
from tests.sampling import runs_all
from tests.stored import fill

Params = dict[str, Any]
Answer = list[tuple[Any, ...]]

QUERIES = 100
"""Texts for a seed, each asked of two graphs."""
SEEDS = range(25 if runs_all() else 5)
"""1,000 questions in the suite, 5,000 with `./dev faults --all`."""
OTHERWISE = 200 if runs_all() else 40
FORMS = {
    *("when of a match", "when of a binding", "when of a traversal", "as of", "during", "ever"),
    *("moment of the row", "moment of a parameter", "a path", "alternatives", "optional", "by"),
}


def queries(
    rng: random.Random, catalog: Catalog, count: int, forms: Counter[str]
) -> Iterator[tuple[str, ReadPlan, Params]]:
    """Generated queries that compile, with values and the moment of the call."""
    done = 0
    while done < count:
        used: Counter[str] = Counter()
        try:
            text, given = made(rng, used)
            plan = compile_query(catalog, text, "q" if "query q(" in text else None)
        except OmniGraphError:
            continue
        assert isinstance(plan, ReadPlan)
        done += 1
        forms.update(used)
        as_of = ir.EVER if rng.random() < 0.1 else rng.choice(MOMENTS)
        clock = {ir.NOW_PARAM: rng.choice(MOMENTS), ir.AS_OF_PARAM: as_of}
        yield text, plan, {**bind(plan.params, given), **clock}


def answer_of(view: View, plan: ReadPlan, params: Params) -> Answer:
    table = run_read(view, plan, params)
    columns = [stored(column.type, table.column(at)) for at, column in enumerate(plan.columns)]
    return [comparable(row) for row in zip(*columns, strict=True)]


def expected_of(plan: ReadPlan, plain: Any, params: Params) -> Answer:
    rows = judge(plan, plain, params, params[ir.NOW_PARAM], as_of=params[ir.AS_OF_PARAM])
    return [comparable(tuple(row.values())) for row in rows]


def check(view: View, plain: Any, text: str, plan: ReadPlan, params: Params) -> None:
    """Compare as the language promises: rows in order, or as a bag, or any of them."""
    what = f"{text}\n{params}"
    try:
        expected = expected_of(plan, plain, params)
    except RefusedError as refused:
        with pytest.raises(BadRequest, match=str(refused).partition(":")[0]):
            answer_of(view, plan, params)
        return
    whole = replace(plan, limit=None, offset=None)
    alike(
        plan,
        answer_of(view, plan, params),
        expected,
        what,
        lambda: expected_of(whole, plain, params),
    )
    with contextlib.suppress(CannotBeWritten):
        written = written_out(plan, params[ir.AS_OF_PARAM])
        answer = answer_of(view, written, params)
        alike(
            plan,
            answer,
            expected,
            f"written out: {what}",
            lambda: expected_of(whole, plain, params),
        )


def alike(plan: ReadPlan, actual: Answer, expected: Answer, what: str, everything: Any) -> None:
    if plan.order or plan.is_aggregate or plan.distinct:
        assert actual == expected, what
    elif plan.limit is None and plan.offset is None:
        assert Counter(actual) == Counter(expected), what
    else:
        assert len(actual) == len(expected), what
        assert not Counter(actual) - Counter(everything()), what


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_the_oracle(tmp_path, seed):
    forms: Counter[str] = Counter()
    rng = random.Random(f"periods {seed}")
    text = schema(rng)
    catalog = compile_schema(text).catalog
    plains = [plain_graph(rng), plain_graph(rng, persons=5)]
    with contextlib.ExitStack() as stack:
        graphs = [
            stack.enter_context(omnigraph.init(tmp_path / f"graph{at}", text))
            for at, _ in enumerate(plains)
        ]
        for graph, plain in zip(graphs, plains, strict=True):
            fill(graph, plain)
        warm = [view_of(graph) for graph in graphs]
        for number, (query, plan, params) in enumerate(queries(rng, catalog, QUERIES, forms)):
            views = [view_of(graphs[0]), warm[1]] if number % 5 == 0 else warm
            for view, plain in zip(views, plains, strict=True):
                check(view, plain, query, plan, params)
    table = "\n".join(f"{count:6d} {form}" for form, count in forms.most_common())
    sys.stdout.write(f"seed {seed}, {QUERIES} texts:\n{table}\n")
    assert not FORMS - forms.keys(), "forms that no query had"


@pytest.mark.parametrize(("mode", "few"), [("csr", 0), ("indexed", 0), ("indexed", 1024)])
def test_both_paths_agree_with_the_oracle(tmp_path, monkeypatch, mode, few):
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    rng = random.Random(f"periods {mode} {few}")
    text = schema(rng)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", text) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(few_rows=few)))
        fill(graph, plain)
        asked = queries(rng, compile_schema(text).catalog, OTHERWISE, Counter())
        for query, plan, params in asked:
            check(view_of(graph), plain, query, plan, params)
