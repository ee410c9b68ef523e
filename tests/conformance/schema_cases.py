"""Schema cases: compile a source, or plan the way from one source to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema import Ir, MigrationPlan, compile_schema, create, plan
from tests.conformance.case_files import Case
from tests.conformance.data_cases import run_data_case
from tests.conformance.descriptions import DESCRIPTIONS, describes
from tests.conformance.expectations import check_error, matches, only_known
from tests.conformance.overtaken import expected_of

CASE_KEYS = {
    *("id", "kind", "decision", "tags", "note"),
    *("schema", "new_schema", "data", "load_mode", "branches", "options", "expect"),
    *("files", "provider"),
}
ERROR_KEYS = {"error_kind", "error_contains", "has_span"}
SHAPE_KEYS = {*DESCRIPTIONS, "counts", "edge_lookup", "same_shape_as", "ids", "next_identity_id"}
PLAN_KEYS = {"supported", "steps", "steps_exact"}
APPLY_KEYS = {
    *("applied", "load_error_kind", "load_error_contains", "rows", "row_ids", "edges_endpoints"),
    *("values", "columns", "tables", "graph_version", "table_version", "location", "was"),
    *("prior_snapshot", "identity", "index_kinds", "pending_indexes", "then"),
    *("embedded", "embeddings_pending"),
}
EXPECT_KEYS = {
    "parse_ok": {*SHAPE_KEYS, "diagnostics"},
    "parse_error": ERROR_KEYS,
    "plan": {*ERROR_KEYS, *SHAPE_KEYS, *PLAN_KEYS, "diagnostics"},
    "apply": {*ERROR_KEYS, *SHAPE_KEYS, *PLAN_KEYS, *APPLY_KEYS, "diagnostics"},
}


def run_schema_case(case: Case) -> None:
    """Judge one case."""
    body, kind = case.body, case.body["kind"]
    only_known("case", body, CASE_KEYS)
    if kind not in EXPECT_KEYS:
        pytest.fail(f"the runner knows no case of kind {kind}", pytrace=False)
    expect = expected_of(case.id, body["expect"])
    only_known(f"expect of {kind}", expect, EXPECT_KEYS[kind])
    only_known("options", body.get("options") or {}, {"allow_data_loss"})
    match kind:
        case "parse_error":
            _expect_failure(lambda: compile_schema(body["schema"]), expect)
        case "parse_ok":
            _check_shape(body["schema"], expect)
        case "plan":
            _judge_plan(body, expect)
        case _:
            _judge_static_part_of_apply(body, expect)
            run_data_case(body)


def _expect_failure(attempt: Callable[[], Any], expect: Mapping[str, Any]) -> None:
    try:
        outcome = attempt()
    except OmniGraphError as error:
        check_error(error, expect)
    else:
        pytest.fail(f"accepted where an error was expected: {outcome}", pytrace=False)


def _judge_plan(body: Mapping[str, Any], expect: Mapping[str, Any]) -> None:
    only_shape = {key: value for key, value in expect.items() if key in SHAPE_KEYS}
    _check_shape(body["schema"], only_shape)
    if expect.keys() & ERROR_KEYS:
        _expect_failure(lambda: _plan(body), expect)
    else:
        _check_plan(_plan(body), expect)


def _judge_static_part_of_apply(body: Mapping[str, Any], expect: Mapping[str, Any]) -> None:
    """What an apply case says about its sources and its plan needs no graph."""
    compile_schema(body["schema"])
    if "new_schema" in body and expect.keys() & PLAN_KEYS:
        _check_plan(_plan(body), expect)


def _plan(body: Mapping[str, Any]) -> MigrationPlan:
    accepted = create(compile_schema(body["schema"]).shape)
    return plan(accepted, body["new_schema"], **(body.get("options") or {}))


def _check_plan(found: MigrationPlan, expect: Mapping[str, Any]) -> None:
    steps = [step.to_json() for step in found.steps]
    shown = "\n".join(map(str, steps))
    if "supported" in expect:
        assert found.supported is expect["supported"], shown
    if "steps" in expect:
        _check_steps(steps, expect["steps"], shown)
    if expect.get("steps_exact"):
        assert len(steps) == len(expect["steps"]), shown
    if "diagnostics" in expect:
        assert len(found.diagnostics) == expect["diagnostics"], found.diagnostics


def _check_steps(steps: Sequence[Any], want: Sequence[Any], shown: str) -> None:
    """The wanted steps occur in this relative order."""
    rest = iter(steps)
    for step in want:
        if not any(matches(other, step) for other in rest):
            pytest.fail(f"no step {step}, or not in this order, in\n{shown}", pytrace=False)


def _check_shape(source: str, expect: Mapping[str, Any]) -> None:
    compiled = compile_schema(source)
    catalog = compiled.catalog
    for section in DESCRIPTIONS:
        for name, wanted in (expect.get(section) or {}).items():
            entities: Mapping[str, Any] = getattr(catalog, section)
            assert name in entities, f"{section} has no {name}"
            describes(entities[name], wanted, section)
    for section, count in (expect.get("counts") or {}).items():
        assert len(getattr(catalog, section)) == count, section
    for spelling, name in (expect.get("edge_lookup") or {}).items():
        edge = catalog.edge(spelling)
        assert (edge and edge.name) == name, spelling
    if "same_shape_as" in expect:
        other = compile_schema(expect["same_shape_as"])
        assert other.shape.shape_hash == compiled.shape.shape_hash
    if "diagnostics" in expect:
        assert len(compiled.diagnostics) == expect["diagnostics"], compiled.diagnostics
    _check_identity(create(compiled.shape), expect)


def _check_identity(ir: Ir, expect: Mapping[str, Any]) -> None:
    for entity, number in (expect.get("ids") or {}).items():
        assert _identity(ir, entity) == number, entity
    if "next_identity_id" in expect:
        assert ir.next_identity_id == expect["next_identity_id"]


def _identity(ir: Ir, entity: str) -> int:
    """The number behind `node:Port` or `node:Port.code`."""
    owner, _, prop = entity.partition(".")
    found = next((type_ for type_ in ir if f"{type_.kind}:{type_.name}" == owner), None)
    assert found is not None, f"there is no {entity}"
    return found.property_ids[prop] if prop else found.type_id
