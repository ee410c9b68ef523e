"""The OpenAPI document: whole, valid, the one that is checked in, and its examples are requests."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import omnigraph as og
from omnigraph import errors
from omnigraph.server.openapi import openapi_document
from omnigraph.server.openapi.examples import COMMIT_ID, EXAMPLES, GRAPH_ID, PEOPLE, RECORDS, SCHEMA
from omnigraph.server.openapi.failures import FAILURES
from omnigraph.server.openapi.links import LINKS
from omnigraph.server.openapi.meanings import MEANINGS
from omnigraph.service.operations import OPERATIONS
from omnigraph.service.stored import read_directory
from tests.answers import answer_faults
from tests.server.http import server_state, threaded

DOCS = Path(__file__).parents[2] / "docs"
OWN = {"health", "health_head", "openapi", "graphs", "blob_head", "mcp"}
#: Operations with answers of 400 and above that are not the body of an error.
BESIDE = {"health", "mcp"}
#: Kinds of the HTTP layer, which no class of errors has.
KINDS_OF_HTTP = {
    "method_not_allowed",
    "media_type",
    "host_not_allowed",
    "http_version",
    "head_too_large",
    "draining",
    "internal",
}


@pytest.fixture(scope="module", params=[True, False], ids=["tokens", "open"])
def document(request) -> dict[str, Any]:
    return openapi_document(tokens=request.param)


def described(document):
    """Every operation with its path and method."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_checked_in_document_is_the_one_that_is_served():
    spec = importlib.util.spec_from_file_location("openapi_writer", DOCS / "openapi.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.FILE.read_text("utf-8") == writer.text(), "write it again with ./dev docs"


def test_it_is_valid(document):
    assert document["openapi"].startswith("3.1.")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_a_fault_in_it_would_be_seen(document):
    broken = json.loads(json.dumps(document))
    broken["paths"]["/healthz"]["get"]["responses"] = []
    assert list(OpenAPIV31SpecValidator(broken).iter_errors()) != []


def test_it_has_every_operation_once(document):
    ids = [operation["operationId"] for *_, operation in described(document)]
    assert len(ids) == len(set(ids))
    assert set(ids) == set(OPERATIONS) | OWN


def test_every_operation_says_what_it_does_and_takes(document):
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, operation in described(document):
        assert operation["summary"].endswith("."), path
        assert set(operation["tags"]) <= tags
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], (path, parameter["name"])
        in_path = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"]
        assert all(f"{{{name}}}" in path for name in in_path)
        assert ("graph_id" in in_path) is path.startswith("/graphs/")
        assert ("requestBody" in operation) is (method in {"post", "put"}), path


def test_no_meaning_is_left_of_a_member_that_is_gone():
    named = {
        field.removesuffix("_") for one in OPERATIONS.values() for field in fields(one.request)
    }
    named |= {"action", "target_branch"}
    assert set(MEANINGS) <= named


def fields(request):
    return request.__struct_fields__


def test_every_operation_may_be_stopped_by_the_end_of_the_server(document):
    for name, path, method in ((o["operationId"], path, m) for path, m, o in described(document)):
        if name in OPERATIONS:
            assert "503" in document["paths"][path][method]["responses"], name


def test_the_route_of_agents_is_there_only_where_it_is_served():
    assert "/graphs/{graph_id}/mcp" in openapi_document(tokens=True, agents=True)["paths"]
    assert "/graphs/{graph_id}/mcp" not in openapi_document(tokens=True, agents=False)["paths"]


def test_tokens_are_asked_for_only_where_there_are_some():
    closed, opened = openapi_document(tokens=True), openapi_document(tokens=False)
    scheme = {"bearer_token": {"type": "http", "scheme": "bearer"}}
    assert closed["components"]["securitySchemes"] == scheme
    assert closed["security"] == [{"bearer_token": []}]
    assert "security" not in opened
    assert "securitySchemes" not in opened["components"]
    for free in ("/healthz", "/openapi.json"):
        assert closed["paths"][free]["get"]["security"] == []
    for (_, _, with_token), (path, _, without) in zip(
        described(closed), described(opened), strict=True
    ):
        assert "401" not in without["responses"], path
        exempt = with_token.get("security") == []
        assert ("401" in with_token["responses"]) is not exempt, path


def test_deprecated_routes_are_marked(document):
    marked = {one["operationId"] for *_, one in described(document) if one.get("deprecated")}
    assert marked == {name for name, one in OPERATIONS.items() if one.successor is not None}


def test_every_operation_has_an_example_that_fits_its_schema(document):
    assert set(EXAMPLES) == set(OPERATIONS)
    schemas = document["components"]["schemas"]
    for path, _, operation in described(document):
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                assert faults(parameter["schema"], parameter["example"], schemas) == [], path
        required = [one for one in operation.get("parameters", ()) if one["required"]]
        assert all("example" in one for one in required), path
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            if kind == "application/json":
                assert faults(content["schema"], content["example"], schemas) == [], path


def test_every_example_gets_its_answer_from_a_server(tmp_path):
    """In their order; what an answer must be, the client of the tests checks."""
    (tmp_path / "people.gq").write_text(PEOPLE)
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load(RECORDS.encode(), mode="append")
        state = server_state({GRAPH_ID: graph}, tmp_path / "spool")
        served = replace(state.graphs[GRAPH_ID], stored=read_directory(tmp_path))
        with threaded(replace(state, graphs={GRAPH_ID: served})) as server:
            followed = set()
            for name, example in EXAMPLES.items():
                answer = send_example(server.http, OPERATIONS[name], example, graph)
                assert answer.status == 200, (name, answer.text)
                followed |= set(follow_links(server.http, name, answer))
    assert set(LINKS) - followed <= {"merge", "revert"}, "their examples change nothing"


def follow_links(http, name, answer):
    """Ask for whatever an answer links to and reads only; of all others the value must be there."""
    for target, given in LINKS.get(name, {}).values():
        values = {key: pointed(answer.json(), pointer) for key, pointer in given.items()}
        if None in values.values():
            continue  # a write that changed nothing made no commit
        operation = OPERATIONS[target]
        if operation.method == "GET":
            in_path = {key: quote(values.pop(key), safe="") for key in operation.names_in_path}
            path = f"/graphs/{GRAPH_ID}/{operation.path.format(**in_path)}"
            linked = http.request("GET", path, params=values)
            assert linked.status == 200, (name, target, linked.text)
        yield name


def pointed(document, expression):
    for step in expression.removeprefix("$response.body#/").split("/"):
        if document is None:
            return None
        document = document[int(step) if step.isdigit() else step]
    return document


def test_links_lead_to_operations_by_parameters_they_have():
    for name, links in LINKS.items():
        for target, given in links.values():
            takes = {*OPERATIONS[target].names_in_path, *fields(OPERATIONS[target].request)}
            assert given.keys() <= takes, (name, target)


def send_example(http, operation, example, graph):
    newest = graph.commits.list("main")[0].graph_commit_id
    path = operation.path.format(**example.path).replace(COMMIT_ID, newest)
    sent = {"params": {key: listed(value) for key, value in example.parameters.items()}}
    if operation.content == "json":
        text = json.dumps(example.body).replace(COMMIT_ID, newest)
        sent |= {"content": text, "headers": {"content-type": "application/json"}}
    elif example.body is not None:
        kind = {"lines": "application/x-ndjson", "columns": "text/csv"}.get(
            operation.content, "*/*"
        )
        sent |= {"content": example.body, "headers": {"content-type": kind}}
    return http.request(operation.method, f"/graphs/{GRAPH_ID}/{path}", **sent)


def listed(value):
    return ",".join(value) if isinstance(value, list) else str(value)


def test_an_example_that_does_not_fit_would_be_seen(document):
    schemas = document["components"]["schemas"]
    schema = {"$ref": "#/components/schemas/QueryBody"}
    assert faults(schema, {"query": 7}, schemas) != []
    assert faults(schema, {"query": "q", "colour": "red"}, schemas) != []


def faults(schema, value, schemas):
    validator = Draft202012Validator({**schema, "components": {"schemas": schemas}})
    return [error.message for error in validator.iter_errors(value)]


def test_every_operation_has_bodies_of_its_failures(document):
    responses = document["components"]["responses"]
    for path, method, operation in described(document):
        for status, response in operation["responses"].items():
            if status < "400" or method == "head" or "$ref" not in response:
                # Whatever the protocol of agents itself refuses; and `draining` is no failure of `/healthz`.
                assert status < "400" or method == "head" or operation["operationId"] in BESIDE
                continue
            name = response["$ref"].rpartition("/")[2]
            body = responses[name]["content"]["application/json"]
            assert body["schema"] == {"$ref": "#/components/schemas/ErrorAnswer"}, path
            assert answer_faults("ErrorAnswer", body["example"]) == []


@pytest.mark.parametrize("status", FAILURES)
def test_the_example_of_a_failure_is_one(status):
    example = FAILURES[status].example
    classes = {one.code: one for one in all_classes(errors.OmniGraphError)}
    if example["kind"] in KINDS_OF_HTTP:
        return
    found = classes[example["kind"]]
    assert found.http_status == status
    assert found.wire_code == example.get("code")
    detail = found.wire_detail
    assert set(example) == {"error", "kind"} | {
        name for name in ("code", detail) if name is not None and name in example
    }
    assert detail is None or detail in example


def all_classes(base):
    return [base, *(one for child in base.__subclasses__() for one in all_classes(child))]
