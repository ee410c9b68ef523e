"""The engine against the oracle on conditions, expressions and output: random queries, equal answers."""

from __future__ import annotations

import contextlib
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.graph import Graph
from omnigraph.lang.query import compile_query, ir
from omnigraph.lang.query.ir import NOW_PARAM, ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.read.execute import run_read
from omnigraph.read.thresholds import MatchThresholds, Thresholds
from omnigraph.read.view.view import View
from omnigraph.types import from_arrow
from tests import sampling
from tests.opened import fresh_reader, read_with
from tests.oracle.interpreter import RefusedError
from tests.oracle.interpreter import run as judge
from tests.read.extended_queries import CATALOG, SCHEMA, made, plain_graph
from tests.read.fixed_queries import OUTPUTS, PATHS, TERMS, many_ways
from tests.sampling import runs_all
from tests.stored import fill

Params = dict[str, Any]

QUERIES = 200
"""Texts for a seed, each asked of two graphs."""
COLD = 5
"""Every so many of them are asked of a handle that has read nothing."""
FIRST = (
    random.Random(sampling.seed()).randrange(25, 10**9)
    if runs_all() and sampling.seed() != "0"
    else 0
)
SEEDS = [range(at, at + 5) for at in range(FIRST, FIRST + 25, 5)] if runs_all() else [range(3)]
"""Each twice, for terms and for patterns: 2,400 questions in the suite, 20,000 with `./dev faults --all`, and others of
them with `--seed S`."""
OTHERWISE = 200 if runs_all() else 60
"""Texts for each other way to answer."""
PATTERNS = {
    *("optional", "alternatives", "a condition on edges", "from zero hops", "an open bound"),
    *("a path", "length of a path", "nodes of a path", "for", "exists", "optional in optional"),
    *("edges of a path", "by", "weights under a condition", "cost of a path", "source"),
    *("node of a source", "for over a parameter", "for over a list of an edge"),
}
FORMS = {
    *("+", "-", "*", "/", "%", "minus", "abs", "floor", "ceil", "round", "length", "part"),
    *("elapsed", "coalesce", "if", "concat", "lower", "upper", "trim", "substring", "replace"),
    *("text", "floor of a date", "shift", "date", "datetime", "or", "and", "not", "contains"),
    *("starts_with", "ends_with", "in", "is null", "a truth alone", "nodes compared"),
    *("a condition as a value", "shape", "having", "offset", "distinct", "shape as a key"),
    *("order by an expression", "a key that is an expression", "count(*)", "count(distinct)"),
    *("collect()", "collect(distinct)", "aggregates in an expression", "anonymous"),
    "limit of a parameter",
}


def queries(
    rng: random.Random, count: int, forms: Counter[str], *, patterns: bool = False
) -> Iterator[tuple[str, ReadPlan, Params]]:
    """Generated queries that compile, with values; the forms of those that do not are not counted."""
    done = 0
    while done < count:
        used: Counter[str] = Counter()
        text, given = made(rng, used, patterns=patterns)
        try:
            plan = compile_query(CATALOG, text, "q" if "query q(" in text else None)
        except OmniGraphError:
            continue
        assert isinstance(plan, ReadPlan)
        done += 1
        forms.update(used)
        yield text, plan, bind(plan.params, given)


def stored(kind: ir.ValueType, column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column, objects as dicts."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(kind, ir.ObjectType):
        names = [name for name, _ in kind.fields]
        assert [field.name for field in column.type] == names
        fields = [stored(inner, column.field(name)) for name, inner in kind.fields]
        rows = [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
        return [
            row if valid.as_py() else None
            for row, valid in zip(rows, column.is_valid(), strict=True)
        ]
    if isinstance(kind, ir.ObjectList):
        items = stored(kind.item, column.values)
        ends = zip(column.offsets.to_pylist(), column.offsets.to_pylist()[1:], strict=False)
        valid = column.is_valid().to_pylist()
        return [
            items[start:end] if is_there else None
            for (start, end), is_there in zip(ends, valid, strict=False)
        ]
    return from_arrow(kind.as_nullable(), column)


def view_of(graph: Graph) -> View:
    """A graph as a handle sees it that has read nothing."""
    return fresh_reader(graph).view(graph.snapshot(), graph.schema.catalog)


def answer_of(view: View, plan: ReadPlan, params: Params) -> list[tuple[Any, ...]]:
    """The engine's answer as stored values."""
    table = run_read(view, plan, {**params, NOW_PARAM: 0})
    assert table.column_names == [column.name for column in plan.columns]
    columns = [stored(column.type, table.column(at)) for at, column in enumerate(plan.columns)]
    return [comparable(row) for row in zip(*columns, strict=True)]


def comparable(value: Any) -> Any:
    """A value that can be counted; sums of floats may differ in the last digits."""
    if isinstance(value, dict):
        return tuple((name, comparable(inner)) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(comparable(inner) for inner in value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return float(f"{value:.9g}") + 0.0 if math.isfinite(value) else value
    return value


def expected_of(plan: ReadPlan, plain: Any, params: Params) -> list[tuple[Any, ...]]:
    """The oracle's answer."""
    return [comparable(tuple(row.values())) for row in judge(plan, plain, params, 0)]


def check(view: View, plain: Any, text: str, plan: ReadPlan, params: Params) -> None:
    """Compare as the language promises: rows in order, or as a bag, or any of them."""
    try:
        expected = expected_of(plan, plain, params)
    except RefusedError as refused:
        with pytest.raises(BadRequest, match=str(refused).partition(":")[0]):
            answer_of(view, plan, params)
        return
    actual = answer_of(view, plan, params)
    if plan.order or plan.is_aggregate or plan.distinct:
        assert actual == expected, text
    elif plan.limit is None and plan.offset is None:
        assert Counter(actual) == Counter(expected), text
    else:
        everything = Counter(expected_of(replace(plan, limit=None, offset=None), plain, params))
        assert len(actual) == len(expected), text
        assert not Counter(actual) - everything, text


@pytest.mark.parametrize("patterns", [False, True], ids=["terms", "patterns"])
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_engine_agrees_with_the_oracle(tmp_path, seeds, patterns, record_property):
    forms: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(f"{seed} {patterns}")
        plains = [plain_graph(rng), plain_graph(rng, persons=5)]
        with contextlib.ExitStack() as stack:
            graphs = [
                stack.enter_context(omnigraph.init(tmp_path / f"graph{seed}-{at}", SCHEMA))
                for at, _ in enumerate(plains)
            ]
            for graph, plain in zip(graphs, plains, strict=True):
                fill(graph, plain)
            views = [view_of(graph) for graph in graphs]
            asked = queries(rng, QUERIES, forms, patterns=patterns)
            for number, (text, plan, params) in enumerate(asked):
                if number % COLD == 0:
                    check(view_of(graphs[0]), plains[0], text, plan, params)
                    check(views[1], plains[1], text, plan, params)
                    continue
                for view, plain in zip(views, plains, strict=True):
                    check(view, plain, text, plan, params)
    table = "\n".join(f"{count:6d} {form}" for form, count in forms.most_common())
    sys.stdout.write(f"seeds {seeds}, {len(seeds) * QUERIES} texts:\n{table}\n")
    record_property("forms", dict(forms))
    assert not (PATTERNS if patterns else FORMS) - forms.keys(), "forms that no query had"


@pytest.mark.parametrize(("mode", "few"), [("csr", 0), ("indexed", 0), ("indexed", 1024)])
def test_both_paths_agree_with_the_oracle(tmp_path, monkeypatch, mode, few):
    """Without few rows, only a key or an index can start a look-up."""
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    rng = random.Random(f"{mode} {few}")
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(few_rows=few)))
        fill(graph, plain)
        for text, plan, params in queries(rng, OTHERWISE, Counter(), patterns=True):
            check(view_of(graph), plain, text, plan, params)


@pytest.mark.parametrize("seed", range(3))
def test_every_form_of_a_term_and_of_a_path(tmp_path, seed):
    plain = many_ways(seed)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        fill(graph, plain)
        for text in [*TERMS, *OUTPUTS, *PATHS]:
            plan = compile_query(CATALOG, text)
            assert isinstance(plan, ReadPlan)
            check(view_of(graph), plain, text, plan, {})


def test_small_batches_change_nothing(tmp_path):
    rng = random.Random(100)
    plain = plain_graph(rng)
    with omnigraph.init(tmp_path / "graph", SCHEMA) as graph:
        read_with(graph, Thresholds(match=MatchThresholds(batch_rows=3)))
        fill(graph, plain)
        for text, plan, params in queries(rng, OTHERWISE, Counter(), patterns=True):
            check(view_of(graph), plain, text, plan, params)
