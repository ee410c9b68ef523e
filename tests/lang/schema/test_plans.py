import json

import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.lang.schema import compile_schema, create, plan
from omnigraph.lang.schema.read_ir import read_ir
from tests.lang.schema.fixtures import cases

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def accepted(text):
    return create(compile_schema(text).shape, DOMAIN)


def outcome(case):
    """The lines a fixture expects: a step each, or the error."""
    old, new = case.given.split("\n>>>\n")
    try:
        planned = plan(accepted(old), new, allow_data_loss="(allow data loss)" in case.title)
    except OmniGraphError as error:
        return str(error)
    assert planned.supported == ("unsupported_change" not in case.expected)
    assert read_ir(planned.target_ir.to_json()) == planned.target_ir
    return "\n".join(json.dumps(step.to_json()) for step in planned.steps)


@pytest.mark.parametrize("case", cases("plans"))
def test_plan(case):
    assert outcome(case) == case.expected
