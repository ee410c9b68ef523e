"""JSON schemas of requests and answers, and the parameters of operations, from their types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from omnigraph.server.openapi.examples import COMMIT_ID, GRAPH_ID, OPERATION_ID, Example
from omnigraph.server.openapi.meanings import MEANINGS
from omnigraph.service.answers import answer_type
from omnigraph.service.graph_urls import GRAPH_ID_PATTERN
from omnigraph.service.operations import OPERATIONS, Operation
from omnigraph.service.wire import WITH_COMMAS

Json = dict[str, Any]
ANSWERS_OF_SERVER: Final = ("HealthAnswer", "GraphsAnswer", "ErrorAnswer")

_HEADERS: Final = {
    "Omnigraph-Operation-Id": (
        (
            "an id of the caller's choice; a second write with the same id has no effect and gets the "
            "answer of the first"
        ),
        {"type": "string", "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"},
        OPERATION_ID,
    ),
    "Omnigraph-If-Graph-Commit": (
        "the commit that the branch must be at; otherwise nothing is done (412)",
        {"type": "string", "pattern": "^[0-9A-Za-z]+$"},
        COMMIT_ID,
    ),
    "If-Match": ("the ETag that the blob must have", {"type": "string"}, '"5d41402abc4b2a76"'),
    "If-None-Match": (
        "an ETag that the answer need not repeat; `*` on a write: only where there is none",
        {"type": "string"},
        '"5d41402abc4b2a76"',
    ),
    "Range": ("one range of bytes", {"type": "string"}, "bytes=0-1023"),
    "If-Range": ("the ETag for which the range is meant", {"type": "string"}, '"5d41402abc4b2a76"'),
}


def components() -> dict[str, Json]:
    """Return the schemas of all JSON bodies and answers, by name."""
    operations = OPERATIONS.values()
    bodies = {operation.request for operation in operations if operation.content == "json"}
    names = {*(operation.answer for operation in operations), *ANSWERS_OF_SERVER}
    types = [*bodies, *(answer_type(name) for name in names)]
    _, parts = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for body in bodies:
        _explain(parts[body.__name__])
    return {name: parts[name] for name in sorted(parts)}


def reference(name: str) -> Json:
    """Return how other parts of the document name a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def _explain(schema: Json) -> None:
    for name, member in schema["properties"].items():
        member["description"] = MEANINGS[name]


def parameters(operation: Operation, example: Example) -> list[Json]:
    """Return everything of a request that is not its body: in the path, behind `?`, in the head."""
    return [
        *_in_path(operation, example),
        *_in_query(operation, example),
        *(_header(name) for name in _header_names(operation)),
    ]


def graph_parameter() -> Json:
    """Return what stands in every path of a graph: its id."""
    schema = {"type": "string", "pattern": f"^{GRAPH_ID_PATTERN}$"}
    return _parameter("graph_id", "path", schema, GRAPH_ID)


def _in_path(operation: Operation, example: Example) -> Iterator[Json]:
    yield graph_parameter()
    for name in operation.names_in_path:
        yield _parameter(name, "path", {"type": "string", "minLength": 1}, example.path[name])


def _in_query(operation: Operation, example: Example) -> Iterator[Json]:
    if operation.content == "json":
        return
    _, parts = msgspec.json.schema_components([operation.request])
    schema = parts[operation.request.__name__]
    for name, member in schema["properties"].items():
        shown = _parameter(name, "query", _given(member), example.parameters.get(name))
        shown["required"] = name in schema.get("required", ())
        if name in WITH_COMMAS:
            shown |= {"style": "form", "explode": False}
        yield shown


def _given(member: Json) -> Json:
    """Return the schema of a parameter that is there: it cannot be null."""
    if "anyOf" not in member:
        return member
    (only,) = (one for one in member["anyOf"] if one != {"type": "null"})
    return dict(only)


_IN_PATH: Final = {
    "graph_id": "the name of a graph on this server",
    "branch": "the name of a branch; a `/` in it is written `%2F`",
    "tag": "the name of a tag; a `/` in it is written `%2F`",
    "graph_commit_id": "the id of a commit",
    "name": "the name of a stored query",
}


def _parameter(name: str, place: str, schema: Json, example: Any) -> Json:
    shown: Json = {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": _IN_PATH[name] if place == "path" else MEANINGS[name],
        "schema": schema,
    }
    return shown if example is None else {**shown, "example": example}


def _header_names(operation: Operation) -> Iterator[str]:
    if operation.identified:
        yield "Omnigraph-Operation-Id"
    if operation.conditional:
        yield "Omnigraph-If-Graph-Commit"
    if operation.name in {"blob", "put_blob", "clear_blob"}:
        yield "If-Match"
    if operation.name in {"blob", "put_blob", "catalog"}:
        yield "If-None-Match"
    if operation.name == "blob":
        yield from ("Range", "If-Range")


def _header(name: str) -> Json:
    text, schema, example = _HEADERS[name]
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": text,
        "schema": schema,
        "example": example,
    }
