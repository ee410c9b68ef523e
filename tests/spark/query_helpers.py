"""Asking both engines the same question, and judging whether the answers are the same."""

from __future__ import annotations

import functools
from typing import Any

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import ReadPlan
from omnigraph.read.output.query_result import QueryResult
from omnigraph.spark.queries.refused import REFUSED, REFUSED_MOMENTS
from tests.conformance.case_files import Case, all_cases
from tests.conformance.executors import NotBuiltError, _shows_the_time, _template
from tests.conformance.expectations import check_rows
from tests.conformance.test_conformance import _needs_later_parts

Outcome = QueryResult | OmniGraphError


@functools.cache
def opened(schema: str, data: str) -> og.Graph:
    """A graph of a fixture, for reading."""
    return og.open(_template(schema, data), mode="r")


def graph_of(case: Case) -> og.Graph:
    """The graph that a case is asked of."""
    fixture = case.fixtures[case.body["fixture"]]
    return opened(fixture["schema"], fixture["data"] or "")


def read_cases() -> list[Case]:
    """The cases of the query files that could be asked of both engines: not those of parts that are not built."""
    found = []
    for case in all_cases():
        if case.kind == "query" and case.fault is None and case.file in {"query", "query-ext"}:
            try:
                _needs_later_parts(case)
            except NotBuiltError:
                continue
            found.append(case)
    return found


def plan_of(graph: og.Graph, text: str, name: str | None) -> ReadPlan | None:
    """The plan of a read; None for a mutation, and for a text that no engine gets to see."""
    try:
        plan = compile_query(graph.schema.catalog, text, name)
    except OmniGraphError:
        return None
    return plan if isinstance(plan, ReadPlan) else None


def is_refused(outcome: Outcome) -> bool:
    """Whether Spark does not answer the question, and says by name why."""
    if not isinstance(outcome, OmniGraphError) or outcome.code != "bad_request":
        return False
    forms = {one.form.strip("`") for one in (*REFUSED, *REFUSED_MOMENTS)}
    return outcome.details.get("engine") == "spark" and outcome.details.get("form") in forms


def asked(
    graph: og.Graph, text: str, name: str | None, params: Any, engine: str, **options: Any
) -> Outcome:
    """The answer of an engine, or its error."""
    try:
        return graph.query(text, name, params, engine=engine, **options)
    except OmniGraphError as error:
        return error


def agree(plan: ReadPlan, local: Outcome, spark: Outcome) -> None:
    """Fail unless both engines gave the same columns, types, rows and order, or the same error."""
    if isinstance(local, OmniGraphError) or isinstance(spark, OmniGraphError):
        assert _told(spark) == _told(local)
        return
    here, there = local.to_arrow(), spark.to_arrow()
    assert there.schema.equals(here.schema), (there.schema, here.schema)
    is_ordered = bool(plan.order) or plan.ranking is not None
    is_cut = plan.limit is not None or plan.offset is not None
    if _shows_the_time(plan) or (is_cut and not is_ordered):
        assert there.num_rows == here.num_rows
    else:
        check_rows(spark.rows, local.rows, ordered=is_ordered)


def _told(outcome: Outcome) -> Any:
    if isinstance(outcome, OmniGraphError):
        return type(outcome), str(outcome)
    return outcome.rows


def judged(
    graph: og.Graph, text: str, name: str | None = None, params: Any = None, **options: Any
) -> str:
    """Ask both engines; say whether the answers were equal, or the question was refused by name."""
    plan = plan_of(graph, text, name)
    assert plan is not None
    spark = asked(graph, text, name, params, "spark", **options)
    if is_refused(spark):
        return "refused"
    agree(plan, asked(graph, text, name, params, "local", **options), spark)
    return "equal"
