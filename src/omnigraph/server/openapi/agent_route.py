"""What the OpenAPI document says of `POST /graphs/{graph_id}/mcp`, whose messages are another protocol's."""

from __future__ import annotations

from typing import Any, Final

from omnigraph.server.openapi.failures import failure_reference
from omnigraph.server.openapi.json_schemas import graph_parameter, reference
from omnigraph.server.openapi.response_headers import response_headers
from omnigraph.service.operations import JSON

_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer", "null"]},
        "method": {"type": "string"},
        "params": {"type": "object"},
        "result": {"type": "object"},
        "error": {"type": "object"},
    },
}
_REFUSED_BY_PROTOCOL: Final = {
    400: "The message is none of the protocol, or says what no tool takes.",
    406: "`Accept` does not name `application/json` and `text/event-stream`.",
    413: "The message has more than 1 MiB.",
    415: "The message is not `application/json`.",
}


def agent_route(*, tokens: bool) -> dict[str, Any]:
    """Describe the route of tools for agents; the tools themselves are listed by the protocol."""
    message = {JSON: {"schema": _MESSAGE}}
    either = {JSON: {"schema": {"anyOf": [reference("ErrorAnswer"), _MESSAGE]}}}
    refused = (401, 403, 404, 405, 429, 431, 500) if tokens else (403, 404, 405, 421, 429, 431, 500)
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    return {
        "operationId": "mcp",
        "summary": "Answer one message of the Model Context Protocol, without a session.",
        "tags": ["agents"],
        "parameters": [graph_parameter()],
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": _MESSAGE, "example": listed}},
        },
        "responses": {
            "200": {
                "description": "The answer; a tool that failed is one, too.",
                "headers": response_headers(),
                "content": message,
            },
            "202": {"description": "A notification was taken.", "headers": response_headers()},
            **{
                str(status): {"description": text, "headers": response_headers(), "content": either}
                for status, text in _REFUSED_BY_PROTOCOL.items()
            },
            **{str(status): failure_reference(status) for status in refused},
        },
    }
