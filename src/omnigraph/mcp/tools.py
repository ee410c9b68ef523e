"""Which tools there are, and how arguments become requests.

A tool is an operation of the table under the name that agents see, or a stored query:

    tool = BUILT_IN["branches_create"]
    tool.input_schema                       # {"type": "object", "properties": {"name": …}, …}
    tool.request({"name": "try-1"})         # the wire request of `create_branch`

Arguments are checked against the types of requests, as those of HTTP are; the SDK checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import msgspec

from omnigraph.errors import BadRequest
from omnigraph.policy.checker import Action
from omnigraph.service import wire
from omnigraph.service.answers import answer_type
from omnigraph.service.operations import OPERATIONS, Operation
from omnigraph.spelling import did_you_mean

ROWS: Final = 200
"""How many rows a tool gives unless it is asked for more."""
_NAMES: Final[Mapping[str, str]] = {
    "schema": "schema",
    "query": "query",
    "explain": "explain",
    "lint": "lint",
    "mutate": "mutate",
    "load": "load",
    "branches_list": "branches",
    "branches_create": "create_branch",
    "branches_delete": "delete_branch",
    "branches_merge": "merge",
    "merge_plan": "merge_plan",
    "commits_list": "commits",
    "commit_show": "commit",
    "diff": "diff",
    "snapshot": "snapshot",
    "entity": "entity",
    "entity_history": "entity_history",
    "entity_blame": "entity_blame",
    "neighbors": "neighbors",
    "status": "status",
}
_HARMLESS: Final = frozenset({"create_branch"})
"""Writes that destroy nothing."""
_OF_THE_GRAPH: Final = frozenset({"schema", "lint", "branches", "status"})
"""Reads that are about no branch, so that rules about some branches do not allow them."""
_COPIES: Final = frozenset({"create_branch", "merge"})
"""Writes for which what they copy must be readable, too."""
_KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": "string", "pattern": r"^-?\d+$"},
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "blob": {"type": "string", "contentEncoding": "base64"},
}
"""The JSON schema of each kind of parameter."""


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """What a tool call asks for: an operation, its request, and what HTTP has in paths and headers."""

    operation: Operation
    request: wire.Wire
    path: tuple[str, ...] = ()
    operation_id: str | None = None
    if_commit: str | None = None
    reads_only: bool = True


@dataclass(frozen=True, slots=True)
class Tool:
    """An operation, or a stored query, as agents see it."""

    name: str
    operation: Operation
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    stored: str | None = None
    reads_only: bool = True
    parameters: frozenset[str] = frozenset()
    """The parameters of a stored query."""

    @property
    def destroys(self) -> bool:
        """Whether it may change or remove what is there."""
        return not self.reads_only and self.operation.name not in _HARMLESS

    @property
    def actions(self) -> tuple[Action, ...]:
        """What a policy is asked, each of which must be allowed somewhere for the tool to be of use."""
        if self.stored is not None:
            return Action.INVOKE_QUERY, Action.READ if self.reads_only else Action.CHANGE
        copies = self.operation.name in _COPIES
        return (self.operation.action, Action.READ) if copies else (self.operation.action,)

    @property
    def is_of_the_graph(self) -> bool:
        """Whether a policy is asked about no branch."""
        return self.operation.name in _OF_THE_GRAPH

    def request(self, arguments: object) -> ToolRequest:
        """Return what these arguments ask for; refuse those that the tool does not take."""
        given = _object(self.name, arguments)
        known = self.input_schema["properties"]
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known) or f"it takes {', '.join(known) or 'nothing'}"
                raise BadRequest(f"the tool `{self.name}` has no argument `{name}`; {hint}")
        if self.stored is not None:
            return self._stored_request(given)
        path = tuple(_text(self.name, given, name) for name in self.operation.names_in_path)
        special = {name: given.pop(name, None) for name in ("operation_id", "if_commit")}
        if "max_rows" in known:
            given.setdefault("max_rows", ROWS)
        request = _decoded(self, given)
        return ToolRequest(self.operation, request, path, **special, reads_only=self.reads_only)

    def _stored_request(self, given: dict[str, Any]) -> ToolRequest:
        assert self.stored is not None
        around: dict[str, Any] = {
            name: given.pop(name)
            for name in ("branch", "max_rows", "as_of")
            if name in given and name not in self.parameters
        }
        if self.reads_only:
            around.setdefault("max_rows", ROWS)
        body = {"params": given, "expect_mutation": not self.reads_only, **around}
        request = _decoded(self, body)
        return ToolRequest(self.operation, request, (self.stored,), reads_only=self.reads_only)


def _object(tool: str, arguments: object) -> dict[str, Any]:
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise BadRequest(f"the arguments of `{tool}` are no JSON object; give names and values")
    return dict(arguments)


def _text(tool: str, given: dict[str, Any], name: str) -> str:
    if name not in given:
        raise BadRequest(f"the tool `{tool}` needs the argument `{name}`; give it")
    value = given.pop(name)
    if not isinstance(value, str):
        raise BadRequest(f"the argument `{name}` of `{tool}` is no text; give one")
    return value


def _decoded(tool: Tool, given: Mapping[str, Any]) -> wire.Wire:
    try:
        return msgspec.convert(given, tool.operation.request)
    except msgspec.ValidationError as error:
        raise BadRequest(f"the arguments of `{tool.name}` are not what it takes: {error}") from None
    except RecursionError:
        raise BadRequest(
            f"the arguments of `{tool.name}` are nested too deeply; flatten them"
        ) from None


@cache
def _schema_of(kind: Any) -> Mapping[str, Any]:
    """Return the JSON schema of a type, complete in itself."""
    schema = msgspec.json.schema(kind)
    if "$ref" in schema:  # the type itself stands among its own parts
        parts = dict(schema["$defs"])
        own = parts.pop(schema["$ref"].rpartition("/")[2])
        return {**own, "$defs": parts} if parts else own
    return schema


def _input_schema(operation: Operation) -> Mapping[str, Any]:
    schema = dict(_schema_of(operation.request))
    properties = {name: {"type": "string"} for name in operation.names_in_path}
    properties |= schema.get("properties", {})
    if operation.identified:
        properties["operation_id"] = {
            "type": "string",
            "description": "A ULID of yours: a second call with it has no second effect.",
        }
    if operation.conditional:
        properties["if_commit"] = {
            "type": "string",
            "description": "Only if the branch is at this commit.",
        }
    required = [*operation.names_in_path, *schema.get("required", ())]
    return {
        **{key: value for key, value in schema.items() if key not in {"title", "description"}},
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _built_in(name: str, operation: Operation) -> Tool:
    return Tool(
        name,
        operation,
        operation.summary,
        _input_schema(operation),
        _schema_of(answer_type(operation.answer)),
        reads_only=not operation.admitted,
    )


@cache
def built_in() -> Mapping[str, Tool]:
    """Return the tools that every graph has, by name."""
    return {name: _built_in(name, OPERATIONS[target]) for name, target in _NAMES.items()}


PROPOSAL: Final = "proposal"


@cache
def proposal_tool() -> Tool:
    """Return the tool that shows what the session proposes (``proposals``); no operation stands behind it."""
    operation = replace(OPERATIONS["merge_plan"], name=PROPOSAL, request=wire.NoParameters)
    return Tool(
        PROPOSAL,
        operation,
        "The branch of this session, what differs on it from `main`, and what merging it would do.",
        _input_schema(operation),
        _schema_of(answer_type("ProposalAnswer")),
    )


BUILT_IN_NAMES: Final = frozenset({*_NAMES, PROPOSAL})
"""Names that no stored query may take as a tool."""


def stored_tool(entry: Mapping[str, Any]) -> Tool:
    """Return the tool of a stored query, from its entry in the catalogue."""
    writes = bool(entry["mutation"])
    properties = {param["name"]: _parameter_schema(param) for param in entry["params"]}
    parameters = frozenset(properties)
    # A parameter of the same name goes first: the tool then has only that.
    properties.setdefault(
        "branch", {"type": "string", "description": "The branch, main by default."}
    )
    if not writes:
        rows = {
            "type": "integer",
            "minimum": 1,
            "description": f"At most this many rows, {ROWS} by default.",
        }
        properties.setdefault("max_rows", rows)
        moment = (
            "The moment at which things hold: a date, a date and time, or `ever`; now by default."
        )
        properties.setdefault("as_of", {"type": "string", "description": moment})
    texts = (entry.get("description"), entry.get("instruction"))
    return Tool(
        entry["tool_name"],
        OPERATIONS["invoke"],
        " ".join(text for text in texts if text) or f"The stored query `{entry['name']}`.",
        {
            "type": "object",
            "properties": properties,
            "required": [param["name"] for param in entry["params"] if not param["nullable"]],
            "additionalProperties": False,
        },
        _schema_of(answer_type("MutationAnswer" if writes else "QueryAnswer")),
        stored=entry["name"],
        reads_only=not writes,
        parameters=parameters,
    )


def _parameter_schema(param: Mapping[str, Any]) -> dict[str, Any]:
    kind = param["kind"]
    if kind == "vector":
        size = param["vector_dim"]
        schema: dict[str, Any] = {
            "type": "array",
            "items": {"type": "number"},
            "minItems": size,
            "maxItems": size,
        }
    elif kind == "list":
        schema = {"type": "array", "items": dict(_KINDS[param["item_kind"]])}
    else:
        schema = dict(_KINDS[kind])
    return {"anyOf": [schema, {"type": "null"}]} if param["nullable"] else schema
