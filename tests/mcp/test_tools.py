"""Tools: what they take is what the operations take, and arguments that do not fit are refused."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.mcp.tools import ROWS, built_in, stored_tool
from omnigraph.service import wire
from omnigraph.service.operations import OPERATIONS

BY_NAME = {
    "name": "by_name",
    "tool_name": "find",
    "description": "People by name.",
    "instruction": "Give the full name.",
    "mutation": False,
    "params": [
        {"name": "n", "kind": "string", "nullable": False},
        {"name": "min", "kind": "bigint", "nullable": True},
        {"name": "tags", "kind": "list", "item_kind": "date", "nullable": False},
        {"name": "v", "kind": "vector", "vector_dim": 3, "nullable": False},
        {"name": "at", "kind": "datetime", "nullable": False},
        {"name": "photo", "kind": "blob", "nullable": False},
    ],
}


@pytest.mark.parametrize("tool", built_in().values(), ids=built_in())
def test_a_tool_has_the_fields_of_its_operation(tool):
    operation = tool.operation
    fields = {*operation.request.__struct_encode_fields__, *operation.names_in_path}
    fields |= {"operation_id"} if operation.identified else set()
    fields |= {"if_commit"} if operation.conditional else set()
    assert set(tool.input_schema["properties"]) == fields
    assert set(tool.input_schema["required"]) <= fields
    assert tool.output_schema["type"] == "object"
    assert tool.description
    assert (tool.reads_only, tool.destroys) == (
        not operation.admitted,
        operation.admitted and operation.name != "create_branch",
    )


def test_arguments_become_a_request():
    asked = built_in()["branches_create"].request({"name": "try-1", "from": {"tag": "v1"}})
    assert asked.operation is OPERATIONS["create_branch"]
    assert asked.request == wire.NewBranchBody(name="try-1", from_=wire.TargetObject(tag="v1"))


def test_paths_and_headers_are_arguments_too():
    tool = built_in()["branches_delete"]
    assert tool.request({"branch": "side"}).path == ("side",)
    asked = built_in()["mutate"].request({"query": "q", "operation_id": "01A", "if_commit": "01B"})
    assert (asked.operation_id, asked.if_commit) == ("01A", "01B")
    assert asked.request == wire.MutateBody(query="q")


def test_rows_are_cut_unless_more_are_asked_for():
    tool = built_in()["query"]
    assert tool.request({"query": "q"}).request.max_rows == ROWS
    assert tool.request({"query": "q", "max_rows": 5000}).request.max_rows == 5000


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("query", [1, 2], "no JSON object"),
        ("query", {"qery": "x"}, "did you mean `query`"),
        ("query", {"query": 5}, "Expected `str`, got `int`"),
        ("query", {}, "missing required field `query`"),
        ("query", {"query": "q", "max_rows": 0}, ">= 1"),
        ("branches_delete", {}, "needs the argument `branch`"),
        ("branches_delete", {"branch": 5}, "no text"),
        ("branches_list", {"a": 1}, "it takes nothing"),
        ("load", {"data": "x", "engine": "spark"}, "no argument `engine`"),
        ("branches_merge", {"source": nested(1000)}, "not what it takes"),
    ],
)
def test_what_a_tool_does_not_take_is_refused(name, arguments, message):
    with pytest.raises(BadRequest, match=message):
        built_in()[name].request(arguments)


def test_a_stored_query_is_a_tool():
    tool = stored_tool(BY_NAME)
    assert (tool.name, tool.description) == ("find", "People by name. Give the full name.")
    properties = tool.input_schema["properties"]
    assert properties["min"] == {
        "anyOf": [{"type": "string", "pattern": r"^-?\d+$"}, {"type": "null"}]
    }
    assert properties["tags"] == {"type": "array", "items": {"type": "string", "format": "date"}}
    assert properties["v"] == {
        "type": "array",
        "items": {"type": "number"},
        "minItems": 3,
        "maxItems": 3,
    }
    assert properties["at"] == {"type": "string", "format": "date-time"}
    assert tool.input_schema["required"] == ["n", "tags", "v", "at", "photo"]
    asked = tool.request({"n": "Ann", "branch": "side"})
    assert asked.path == ("by_name",)
    assert asked.request == wire.InvokeBody(
        params={"n": "Ann"}, branch="side", max_rows=ROWS, expect_mutation=False
    )


def test_a_parameter_called_branch_is_the_querys_own():
    entry = {**BY_NAME, "params": [{"name": "branch", "kind": "string", "nullable": False}]}
    asked = stored_tool(entry).request({"branch": "law"})
    assert asked.request == wire.InvokeBody(
        params={"branch": "law"}, max_rows=ROWS, expect_mutation=False
    )


def test_a_stored_mutation_takes_no_rows():
    tool = stored_tool({**BY_NAME, "mutation": True, "params": []})
    assert not tool.reads_only
    assert tool.request({}).request == wire.InvokeBody(params={}, expect_mutation=True)
    with pytest.raises(BadRequest, match="max_rows"):
        tool.request({"max_rows": 1})
