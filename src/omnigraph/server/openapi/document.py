"""From the table of operations to the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from omnigraph.server.openapi.agent_route import agent_route
from omnigraph.server.openapi.examples import EXAMPLES, RECORDS, Example
from omnigraph.server.openapi.failures import failed_responses, failure_reference, statuses
from omnigraph.server.openapi.json_schemas import Json, components, parameters, reference
from omnigraph.server.openapi.links import links_of
from omnigraph.server.openapi.response_headers import response_headers
from omnigraph.service.operations import (
    ARROW,
    BYTES,
    INVOKE_MUTATION,
    JSON,
    LINES,
    OPERATIONS,
    Operation,
)
from omnigraph.version import __version__

SCHEME: Final = "bearer_token"
COLUMNS: Final = {
    "text/csv",
    "application/vnd.apache.parquet",
    "application/vnd.apache.arrow.file",
    BYTES,
}
"""Media types of a file of columns."""
_RAW: Final[Json] = {"type": "string", "format": "binary"}


def openapi_document(*, tokens: bool, agents: bool = True) -> Json:
    """Return the OpenAPI document of a server: with tokens or open, with tools for ``agents`` or without."""
    paths: dict[str, Json] = {
        "/healthz": {"get": _health(), "head": _health(head=True)},
        "/openapi.json": {"get": _own_description()},
        "/graphs": {"get": _graphs(tokens=tokens)},
    }
    for operation in OPERATIONS.values():
        there = paths.setdefault(f"/graphs/{{graph_id}}/{operation.path}", {})
        there[operation.method.lower()] = _operation(operation, tokens=tokens)
        if operation.name == "blob":
            there["head"] = _head_of_blob(operation, tokens=tokens)
    if agents:
        paths["/graphs/{graph_id}/mcp"] = {"post": agent_route(tokens=tokens)}
    document: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "OmniGraph",
            "version": __version__,
            "summary": "A typed property graph that branches, merges and travels in time.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "tags": [{"name": tag, "description": text} for tag, text in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": components(), "responses": failed_responses()},
    }
    if tokens:
        document["security"] = [{SCHEME: []}]
        document["components"]["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    return document


_TAGS: Final = {
    "reading": "what a graph holds, at its head or at any state it had",
    "writing": "records and blobs; each call is one commit, or nothing",
    "branches": "branches and tags, and how branches come together",
    "history": "commits, and what they changed",
    "schema": "the types of the graph",
    "agents": "tools for programs that speak the Model Context Protocol",
    "server": "the server itself",
}


def _tag(operation: Operation) -> str:
    first = operation.segments[0]
    if first in {"branches", "tags"}:
        return "branches"
    if first in {"commits", "changes", "history", "diff"}:
        return "history"
    if first in {"schema", "catalog"}:
        return "schema"
    return "writing" if operation.lane == "write" else "reading"


def _operation(operation: Operation, *, tokens: bool) -> Json:
    example = EXAMPLES[operation.name]
    shown: Json = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [_tag(operation)],
        "parameters": parameters(operation, example),
    }
    if (body := _body(operation, example)) is not None:
        shown["requestBody"] = body
    shown["responses"] = _responses(operation, tokens=tokens)
    if operation.successor is not None:
        shown["deprecated"] = True
        shown["description"] = f"Use `{operation.successor}`."
    return shown


def _body(operation: Operation, example: Example) -> Json | None:
    match operation.content:
        case "none":
            return None
        case "json":
            content = {JSON: {"schema": reference(operation.request.__name__)}}
        case "lines":
            content = {LINES: {"schema": dict(_RAW)}}
        case "columns":
            content = {kind: {"schema": dict(_RAW)} for kind in sorted(COLUMNS)}
        case "bytes":
            content = {"*/*": {"schema": dict(_RAW)}}
    if operation.content != "bytes":
        shown = "text/csv" if operation.content == "columns" else next(iter(content))
        content[shown]["example"] = example.body
    return {"required": not operation.body_optional, "content": content}


def _responses(operation: Operation, *, tokens: bool) -> Json:
    found: Json = {"200": _answer(operation)}
    if links := links_of(operation.name):
        found["200"]["links"] = links
    if operation.name == "blob":
        found["206"] = {**_blob("The bytes of the range."), "headers": _BLOB_HEADERS}
    if operation.name in {"blob", "catalog"}:
        found["304"] = {
            "description": "It is what `If-None-Match` says.",
            "headers": response_headers("ETag"),
        }
    return found | {
        str(status): failure_reference(status) for status in statuses(operation, tokens=tokens)
    }


def _answer(operation: Operation) -> Json:
    match operation.gives:
        case "application/octet-stream":
            return {**_blob("The bytes of the blob."), "headers": _BLOB_HEADERS}
        case "application/x-ndjson":
            text = f"Lines of JSON, in pieces. {operation.summary}"
            lines = {"schema": {"type": "string"}, "example": RECORDS}
            headers = response_headers("Omnigraph-Snapshot-Id")
            return {"description": text, "headers": headers, "content": {LINES: lines}}
    content: Json = {JSON: {"schema": _schema(operation)}}
    if LINES in operation.forms:
        content[LINES] = {"schema": {"type": "string"}}
    if ARROW in operation.forms:
        content[ARROW] = {"schema": dict(_RAW)}
    more = ["ETag"] if operation.name == "catalog" else []
    if operation.successor is not None:
        more += ["Deprecation", "Link"]
    return {
        "description": operation.summary,
        "headers": response_headers(*more),
        "content": content,
    }


def _schema(operation: Operation) -> Json:
    """Return what an answer is; a stored query answers as the query or mutation that it is."""
    if operation.name != "invoke":
        return reference(operation.answer)
    return {"anyOf": [reference(operation.answer), reference(INVOKE_MUTATION.answer)]}


_BLOB_HEADERS: Final = response_headers("ETag", "Accept-Ranges", "Omnigraph-Snapshot-Id")


def _blob(text: str) -> Json:
    return {"description": text, "content": {BYTES: {"schema": dict(_RAW)}}}


def _head_of_blob(operation: Operation, *, tokens: bool) -> Json:
    """Describe HEAD: the headers of GET, and nothing else; a failure has no body either."""
    shown = _operation(operation, tokens=tokens)
    shown |= {"operationId": "blob_head", "summary": "Return what is known of a blob."}
    answers: dict[str, Json] = {
        status: {"description": "No body.", "headers": response_headers()}
        for status in shown["responses"]
    }
    answers.pop("206")
    answers.pop("416")
    answers["200"] = {"description": "The blob is there.", "headers": _BLOB_HEADERS}
    return {**shown, "responses": answers}


def _health(*, head: bool = False) -> Json:
    content = {} if head else {"content": {JSON: {"schema": reference("HealthAnswer")}}}
    return {
        "operationId": "health_head" if head else "health",
        "summary": "Say whether the server is there.",
        "tags": ["server"],
        "security": [],
        "responses": {
            "200": {"description": "It takes requests.", "headers": response_headers(), **content},
            "431": failure_reference(431),
            "503": {"description": "It is about to end.", "headers": response_headers(), **content},
        },
    }


def _own_description() -> Json:
    content = {JSON: {"schema": {"type": "object"}}}
    return {
        "operationId": "openapi",
        "summary": "Return this document.",
        "tags": ["server"],
        "security": [],
        "responses": {
            "200": {
                "description": "OpenAPI 3.1.",
                "headers": response_headers(),
                "content": content,
            },
            "431": failure_reference(431),
        },
    }


def _graphs(*, tokens: bool) -> Json:
    content: dict[str, Any] = {JSON: {"schema": reference("GraphsAnswer")}}
    failed = (400, 401, 403, 429, 431, 500) if tokens else (400, 403, 421, 429, 431, 500)
    return {
        "operationId": "graphs",
        "summary": "List the graphs of the server.",
        "tags": ["server"],
        "responses": {
            "200": {
                "description": "The graphs, by id.",
                "headers": response_headers(),
                "content": content,
            },
            **{str(status): failure_reference(status) for status in failed},
        },
    }
