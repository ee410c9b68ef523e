"""Cases of graph algorithms: one call on a fixture graph, what it found, and what writing it back did."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from tests.conformance.case_files import Case
from tests.conformance.executors import WritingSession, not_built
from tests.conformance.expectations import check_error, check_rows, only_known
from tests.conformance.query_cases import FIXTURE_KEYS, judge_run

CASE_KEYS = {"id", "fixture", "algorithm", "args", "write", "note", "expect"}
EXPECT_KEYS = {
    "rows", "ordered", "iterations", "converged", "commits", "then", "error_contains",
}  # fmt: skip
SAMPLED = {"samples", "seed"}


def run_algorithm_case(case: Case, engine: str = "auto") -> None:
    """Judge one case, with this engine unless it names one."""
    only_known("case", case.body, CASE_KEYS)
    expect = case.body["expect"]
    only_known("expect", expect, EXPECT_KEYS)
    if SAMPLED & case.body["args"].keys():
        not_built("samples")
    fixture = case.fixtures[case.body["fixture"]]
    only_known(f"fixture {case.body['fixture']}", fixture, FIXTURE_KEYS)
    with closing(WritingSession(fixture["schema"], fixture["data"])) as session:
        _judge(session.graphs[0], case.body, engine)
        for follow_up in expect.get("then") or []:
            judge_run(session, follow_up)


def _judge(graph: Graph, body: Mapping[str, Any], engine: str) -> None:
    expect = body["expect"]
    before = len(graph.commits.list())
    try:
        asked = {"engine": engine, **body["args"]}
        result = getattr(graph.algorithms, body["algorithm"])(**asked)
        if "write" in body:
            result.write(body["write"])
    except OmniGraphError as error:
        if "error_contains" not in expect:
            raise
        check_error(error, expect)
        assert len(graph.commits.list()) == before
        return
    assert "error_contains" not in expect, f"expected an error, got {result}"
    table = result.to_arrow()
    assert table.column_names[0] == "id"
    rows = table.rename_columns(["id", "value"]).to_pylist()
    check_rows(rows, expect["rows"], ordered=expect["ordered"])
    for name in ("iterations", "converged"):
        if name in expect:
            assert getattr(result, name) == expect[name]
    assert len(graph.commits.list()) - before == expect.get("commits", 0)
