"""The runner of versioning cases: a case that is not met, or not understood, must fail."""

import threading

import pytest
from _pytest.outcomes import Failed

from omnigraph import errors, failpoints
from tests.conformance.case_files import Case
from tests.conformance.versioning_cases import run_versioning_case
from tests.conformance.versioning_expectations import alike, check_failure, check_result

FIXTURES = {
    "pair": {
        "schema": "node Item { name: String @key  n: I64? }",
        "data": '{"type":"Item","data":{"name":"a","n":1}}',
        "queries": """
            query all() { match { $i: Item } return { $i.name as name, $i.n as n } }
            query set($n: I64) { update Item set { n: $n } where name = "a" }
        """,
    }
}
SET = {"op": "mutate", "query": "set", "params": {"n": 2}, "save": "w"}
PREPARE = {**SET, "phase": "prepare", "as": "w"}
ALL = {"op": "query", "query": "all"}


def run(*steps, **more):
    body = {"id": "c", "fixture": "pair", "steps": list(steps), **more}
    run_versioning_case(Case("versioning", "versioning", "c", body, FIXTURES))


def test_steps_that_are_met():
    run(
        {"op": "snapshot", "save": "old"},
        {**SET, "expect": {"commit": "<ulid>", "affected_nodes": 1}},
        {**ALL, "expect": {"rows": [{"name": "a", "n": 2}]}},
        {**ALL, "snapshot": "${old.id}", "expect": {"rows": [{"name": "a", "n": 1}]}},
        {"op": "branch_create", "name": "b"},
        {"op": "branch_list", "expect": {"branches": ["main", "b"]}, "handle": "other"},
        {"op": "commits", "expect": {
            "count": 3, "list": [{"graph_commit_id": "${w.commit}"}], "linear": True,
            "strictly_decreasing": "created_at", "each": {"actor_id": None}}},
        {"op": "commits", "id": "${w.commit}", "expect": {"commit": {"operation": "mutation"}}},
        {"op": "branch_delete", "name": "c", "expect": {"error": {"code": "branch_not_found"}}},
    )  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [
        {**ALL, "expect": {"rows": []}},
        {"op": "branch_list", "expect": {"branches": ["main", "b"]}},
        {"op": "branch_list", "expect": {"error": {"code": "*"}}},
        {"op": "branch_delete", "name": "b", "expect": {"error": {"code": "bad_request"}}},
        {"op": "branch_delete", "name": "b",
         "expect": {"error": {"code": "branch_not_found", "branch": "x"}}},
        {"op": "commits", "expect": {"count": 3}},
        {"op": "commits", "expect": {"list": [{"actor_id": "ada"}]}},
        {"op": "commits", "expect": {"list": [{}, {}, {}]}},
        {"op": "commits", "expect": {"each": {"actor_id": "<any>"}}},
        {"op": "snapshot", "expect": {"id": "<int>"}},
        {"op": "snapshot", "expect": {"tables": {"node:Item": {"row_count": 2}}}},
        {"op": "lose", "table": "node:Item", "table_version": 2},
    ],
)  # fmt: skip
def test_steps_that_are_not_met(step):
    with pytest.raises((AssertionError, Failed)):
        run(step)


def test_a_step_without_an_expected_error_must_succeed():
    with pytest.raises(errors.BranchNotFound):
        run({"op": "branch_delete", "name": "b"})


def test_a_version_is_lost():
    run(
        {"op": "snapshot", "save": "old"},
        SET,
        {"op": "lose", "table": "node:Item", "table_version": "${old.tables.node:Item.version}"},
        {**ALL, "expect": {"rows": [{"name": "a", "n": 2}]}},
        {**ALL, "snapshot": "${old.id}", "expect": {"error": {"code": "history_reclaimed"}}},
    )


def test_a_prepared_write_is_invisible_until_it_is_published():
    run(
        PREPARE,
        {**ALL, "expect": {"rows": [{"name": "a", "n": 1}]}},
        {"op": "publish", "of": "w", "save": "w", "expect": {"commit": "<ulid>"}},
        {**ALL, "expect": {"rows": [{"name": "a", "n": 2}]}},
        {"op": "commits", "expect": {"list": [{"graph_commit_id": "${w.commit}"}]}},
    )


def test_two_writes_wait_at_one_point_while_a_third_passes():
    third = {**SET, "params": {"n": 3}}
    lost = {"error": {"code": "expected_version_mismatch"}}
    run(
        PREPARE,
        {**PREPARE, "as": "x", "retries": 5},
        third,
        {"op": "publish", "of": "w", "expect": lost},
        {**ALL, "expect": {"rows": [{"name": "a", "n": 3}]}},
        {"op": "publish", "of": "x"},
        {**ALL, "expect": {"rows": [{"name": "a", "n": 2}]}},
    )


@pytest.mark.parametrize(
    "steps",
    [
        [PREPARE, {**ALL, "expect": {"rows": []}}],
        [PREPARE],
        [{**PREPARE, "params": {"n": "no number"}}, {"op": "publish", "of": "w"}],
    ],
    ids=["fails-later", "never-published", "fails-at-once"],
)
def test_no_prepared_write_is_left_behind(steps):
    before = set(threading.enumerate())
    try:
        run(*steps)
    except (AssertionError, Failed, errors.OmniGraphError):
        assert steps != [PREPARE], "a case that is met failed"
    assert set(threading.enumerate()) <= before
    # The point is free again.
    failpoints.arm("mutation.before_locks").disarm()


def test_unknown_keys_fail():
    for step in (
        {"op": "snapshot", "colour": 1},
        {"op": "snapshot", "expect": {"colour": 1}},
        {"op": "colour"},
        {"op": "feed", "filter": {"colour": []}},
    ):
        with pytest.raises(Failed, match="colour"):
            run(step)


CONFLICT = {"kind": "divergent_update", "table_key": "node:Item", "row_id": "a", "message": "m"}


@pytest.mark.parametrize(
    ("result", "expect"),
    [
        ({"changes": [{"id": "a", "op": "insert"}]}, {"changes": []}),
        ({"changes": [{"id": "a", "op": "insert"}]}, {"changes": [{"id": "b"}]}),
        ({"changes": [{"id": "a", "before": {}}]}, {"no": ["before"]}),
        ({"stats": {"inserts": 1, "types_affected": ["A"]}}, {"stats": {"types_affected": []}}),
        ({"block_commits": ["a", "b"]}, {"block_commits_last": "a"}),
        ({"blocks": [{"cause": {"a": 1}}]}, {"blocks_contain": [{"cause": {"a": 2}}]}),
        ({"why_kept": {"node:Item": {"keep"}}}, {"why_kept": {"node:Item": ["tag:x"]}}),
        ({"lines": [1, 2]}, {"lines": [2, 1]}),
        ({"tables": {"n": {"version": 2, "table_branch": None}}},
         {"tables_same_as": {"tables": {"n": {"version": 1, "table_branch": None}}}}),
    ],
)  # fmt: skip
def test_results_that_differ(result, expect):
    with pytest.raises((AssertionError, Failed)):
        check_result(result, expect, "here")


def test_conflicts_are_compared_in_order_unless_some_are_asked_for():
    other = {**CONFLICT, "row_id": "b"}
    raised = errors.MergeConflicts("two", conflicts=[CONFLICT, other])
    named = [{"row_id": "a"}, {"row_id": "b"}]
    check_failure(raised, {"code": "merge_conflicts", "conflicts": named}, "here")
    for wrong in (named[:1], named[::-1]):
        with pytest.raises(AssertionError):
            check_failure(raised, {"code": "merge_conflicts", "conflicts": wrong}, "here")
        check_failure(
            raised, {"code": "merge_conflicts", "conflicts": wrong, "match": "subset"}, "here"
        )
    with pytest.raises(AssertionError):
        check_failure(
            raised,
            {"code": "merge_conflicts", "conflicts": [{"row_id": "c"}], "match": "subset"},
            "here",
        )


def test_lists_are_compared_in_full_and_objects_by_the_listed_keys():
    assert alike({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]})
    assert not alike({"a": [{"b": 1}, {"b": 1}]}, {"a": [{"b": 1}]})
    assert alike("01ARZ3NDEKTSV4RRFFQ69G5FAV", "<ulid>")
    assert not alike(None, "<any>")
