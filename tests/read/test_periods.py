"""Queries see what holds: the engine against the oracle, and against periods that are written out as conditions."""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partialmethod
from itertools import islice
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.graph.graph import state_of
from omnigraph.lang.query import compile_query, ir
from omnigraph.lang.query.ir import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.read.execute import run_read
from omnigraph.read.kernels import late_csr
from omnigraph.read.thresholds import MatchThresholds, Thresholds
from omnigraph.read.values import periods
from omnigraph.read.view import held_edges
from omnigraph.read.view.view import View
from tests.opened import read_with
from tests.oracle.graph import Graph as PlainGraph
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.period_queries import (
    MOMENTS,
    CannotBeWritten,
    made,
    plain_graph,
    schema,
    writes,
    written_out,
)
from tests.read.test_extended import comparable, stored, view_of
from tests.sampling import runs_all
from tests.stored import fill, read_back

Params = dict[str, Any]
Answer = list[tuple[Any, ...]]

QUESTIONS = 1_000
"""For a seed: every text at one moment of a larger graph, and at many of a small one, where that is cheap."""
MOMENTS_OF_ONE = 20
SEEDS = range(25 if runs_all() else 2)
"""5,000 questions in the suite, 25,000 with `./dev faults --all`."""
OTHERWISE = 200 if runs_all() else 40
WRITES = 6
FORMS = {
    *("when of a match", "when of a binding", "when of a traversal", "as of", "during", "ever"),
    *("moment of the row", "moment of a parameter", "a path", "alternatives", "optional", "by"),
}


def queries(
    rng: random.Random, catalog: Catalog, forms: Counter[str]
) -> Iterator[tuple[str, ReadPlan, Params]]:
    """Generated queries that compile, with values and the moment of the call; they never end."""
    while True:
        used: Counter[str] = Counter()
        try:
            text, given = made(rng, used)
            plan = compile_query(catalog, text, "q" if "query q(" in text else None)
        except OmniGraphError:
            continue
        assert isinstance(plan, ReadPlan)
        forms.update(used)
        yield text, plan, {**bind(plan.params, given), **clock(rng)}


def clock(rng: random.Random) -> Params:
    """What time it is, and the moment of the call."""
    as_of = ir.EVER if rng.random() < 0.1 else rng.choice(MOMENTS)
    return {ir.NOW_PARAM: rng.choice(MOMENTS), ir.AS_OF_PARAM: as_of}


def at_other_moments(rng: random.Random, plan: ReadPlan, params: Params) -> list[Params]:
    """The same question at as many moments as make a difference to it."""
    told = repr(plan)
    named = [name for name in (ir.NOW_PARAM, ir.AS_OF_PARAM) if f"name={name!r}" in told]
    others = {
        tuple(others[name] for name in named): {**params, **others}
        for others in (clock(rng) for _ in range(MOMENTS_OF_ONE))
    }
    return list(others.values())


def answer_of(view: View, plan: ReadPlan, params: Params) -> Answer:
    table = run_read(view, plan, params)
    columns = [stored(column.type, table.column(at)) for at, column in enumerate(plan.columns)]
    return [comparable(row) for row in zip(*columns, strict=True)]


def expected_of(plan: ReadPlan, plain: Any, params: Params) -> Answer:
    rows = judge(plan, plain, params, params[ir.NOW_PARAM], as_of=params[ir.AS_OF_PARAM])
    return [comparable(tuple(row.values())) for row in rows]


def check(
    view: View, plain: Any, text: str, plan: ReadPlan, params: Params, *, written: bool = True
) -> None:
    """Compare as the language promises: rows in order, or as a bag, or any of them.

    ``written``: also with the same query whose periods are written out as conditions.
    """
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
    if not written:
        return
    with contextlib.suppress(CannotBeWritten):
        answer = answer_of(view, written_out(plan, params[ir.AS_OF_PARAM]), params)
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


def follow_all_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many bounds pass, what holds is derived from what held, and no array is copied that need not be."""
    for module, name, value in (
        (periods, "_FEW", 1),
        (periods, "_MANY", 0),
        (periods, "_TEST", 1_000_000),
        (held_edges, "_FEW", 0),
    ):
        monkeypatch.setattr(module, name, value)
    for owner, method in (
        (periods.Held, "of"),
        (late_csr.LateCsr, "at"),
        (late_csr.LateMultiCsr, "at"),
    ):
        free = partialmethod(getattr(owner, method), look=0)
        monkeypatch.setattr(owner, method, free)
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "csr")


def as_time_passes(moments: list[Params]) -> list[Params]:
    """The same questions in the order of their moments."""
    return sorted(moments, key=lambda one: -1 if (at := one[ir.AS_OF_PARAM]) == ir.EVER else at)


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_the_oracle(tmp_path, monkeypatch, seed):
    if seed % 2:
        follow_all_bounds(monkeypatch)
    forms: Counter[str] = Counter()
    rng = random.Random(f"periods {seed}")
    text = schema(rng)
    catalog = compile_schema(text).catalog
    large, small = plain_graph(rng), plain_graph(rng, persons=5)
    asked = texts = 0
    with (
        omnigraph.init(tmp_path / "large", text) as one,
        omnigraph.init(tmp_path / "small", text) as other,
    ):
        fill(one, large)
        fill(other, small)
        warm, little = view_of(one), view_of(other)
        for query, plan, params in queries(rng, catalog, forms):
            view = view_of(one) if texts % 5 == 0 else warm
            check(view, large, query, plan, params)
            moments = as_time_passes(at_other_moments(rng, plan, params))
            for at, given in enumerate(moments):
                check(little, small, query, plan, given, written=at == 0)
            texts, asked = texts + 1, asked + 1 + len(moments)
            if asked >= QUESTIONS:
                break
    table = "\n".join(f"{count:6d} {form}" for form, count in forms.most_common())
    sys.stdout.write(f"seed {seed}, {texts} texts, {asked} questions:\n{table}\n")
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
        asked = queries(rng, compile_schema(text).catalog, Counter())
        for query, plan, params in islice(asked, OTHERWISE):
            check(view_of(graph), plain, query, plan, params)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_warm_handle_beside_writers(tmp_path, seed):
    """What is in memory serves later states by their changes; branches and states before are told apart."""
    rng = random.Random(f"periods beside writers {seed}")
    text = schema(rng)
    with omnigraph.init(tmp_path / "graph", text) as graph:
        fill(graph, plain_graph(rng))
        asked = queries(rng, graph.schema.catalog, Counter())
        states = [_state_of(graph, "main")]
        for turn in range(WRITES):
            branch = rng.choice(["main", "side"]) if turn else "main"
            if turn == 1:
                graph.branches.create("side")
            for statement in writes(rng, text):
                graph.mutate(statement, branch=branch)
            states.append(_state_of(graph, branch))
            # Those asked last are warm, and the newest state is near one of them.
            for snapshot, plain in (states[-1], rng.choice(states)):
                view = state_of(graph).reader.view(snapshot, graph.schema.catalog)
                for query, plan, params in islice(asked, 4):
                    check(view, plain, query, plan, params, written=False)


def _state_of(graph: Graph, branch: str) -> tuple[Snapshot, PlainGraph]:
    return graph.snapshot(branch=branch), read_back(graph, branch)
