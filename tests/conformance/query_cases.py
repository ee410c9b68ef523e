"""Query cases: a fixture graph, one run, and the follow-up runs on the same graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest

from omnigraph.errors import OmniGraphError, ParseError
from omnigraph.lang.query.syntax.parser import parse
from tests.conformance.case_files import Case
from tests.conformance.executors import Session, environment, open_session
from tests.conformance.expectations import check_error, check_rows, only_known, same_value

FIXTURE_KEYS = {"about", "schema", "data"}
RUN_KEYS = {"query", "name", "params", "env", "expect", "note"}
CASE_KEYS = {*RUN_KEYS, "id", "fixture", "tags", "decision"}
EXPECT_KEYS = {"rows", "ordered", "error_contains", "affected", "then"}


def run_query_case(case: Case) -> None:
    """Judge one case."""
    only_known("case", case.body, CASE_KEYS)
    fixture = case.fixtures[case.body["fixture"]]
    only_known(f"fixture {case.body['fixture']}", fixture, FIXTURE_KEYS)
    _check_keys(case.body)
    schema, data = fixture["schema"], fixture["data"] or ""
    with closing(open_session(schema, data, writes=_writes(case.body))) as session:
        judge_run(session, case.body)


def _writes(run: Mapping[str, Any]) -> bool:
    """Whether the run or a follow-up is a mutation."""
    try:
        mutates = any(query.is_mutation for query in parse(run["query"]).queries)
    except ParseError:
        mutates = False
    return mutates or any(_writes(follow_up) for follow_up in run["expect"].get("then") or [])


def _check_keys(run: Mapping[str, Any]) -> None:
    expect = run["expect"]
    only_known("expect", expect, EXPECT_KEYS)
    kinds = expect.keys() & {"rows", "error_contains", "affected"}
    assert len(kinds) == 1, f"a run expects rows, an error or counts, not {sorted(kinds)}"
    for follow_up in expect.get("then") or []:
        only_known("then", follow_up, RUN_KEYS)
        _check_keys(follow_up)


def judge_run(session: Session, run: Mapping[str, Any]) -> None:
    """Judge one run and the runs that follow it."""
    expect = run["expect"]

    def execute() -> Any:
        with environment(run.get("env") or {}):
            return session.run(run["query"], run.get("name"), run.get("params"))

    if "error_contains" in expect:
        _judge_failure(execute, expect)
    else:
        outcome = execute()
        if "rows" in expect:
            assert outcome.rows is not None, "a mutation ran where rows were expected"
            check_rows(outcome.rows, expect["rows"], ordered=expect.get("ordered", False))
        else:
            assert same_value(outcome.affected, expect["affected"]), outcome.affected
    for follow_up in expect.get("then") or []:
        judge_run(session, follow_up)


def _judge_failure(execute: Callable[[], Any], expect: Mapping[str, Any]) -> None:
    words = [str(word) for word in expect["error_contains"]]
    try:
        outcome = execute()
    except OmniGraphError as error:
        check_error(error, expect)
        return
    pytest.fail(f"expected an error with {words}, got {outcome}", pytrace=False)
