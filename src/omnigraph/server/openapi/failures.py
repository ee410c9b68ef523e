"""What the OpenAPI document says about requests that fail: which statuses, and with which bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from omnigraph.service.operations import JSON, Operation


class Failure(NamedTuple):
    """A status: when it comes, and the body of an example; ``headers`` come with it."""

    name: str
    when: str
    example: Mapping[str, Any]
    headers: Mapping[str, str] = {}


def _example(error: str, kind: str, code: str | None, **more: Any) -> dict[str, Any]:
    return {"error": error, "kind": kind, **({} if code is None else {"code": code}), **more}


FAILURES: Final[Mapping[int, Failure]] = {
    400: Failure(
        "BadRequest",
        "The request is not well-formed, or says what no graph can do.",
        _example(
            "there is no node type `Persn`; did you mean Person?", "bad_request", "bad_request"
        ),
    ),
    401: Failure(
        "Unauthorized",
        "There is no bearer token, or one that the server does not know.",
        _example("missing bearer token", "unauthenticated", "unauthorized"),
        {"WWW-Authenticate": "`Bearer`"},
    ),
    403: Failure(
        "Forbidden",
        "The caller may not do this, or a browser asks for a page of somebody else.",
        _example("act-wim may not change main", "policy_denied", "forbidden"),
    ),
    404: Failure(
        "NotFound",
        "Something that the request names is not there.",
        _example(
            "there is no branch `side`",
            "branch_not_found",
            "not_found",
            not_found={"branch": "side"},
        ),
    ),
    405: Failure(
        "MethodNotAllowed",
        "The path exists, but not with this method; `Allow` names those it has.",
        _example("PATCH is not a method of this path", "method_not_allowed", "method_not_allowed"),
        {"Allow": "the methods of the path"},
    ),
    409: Failure(
        "Conflict",
        "Another writer, or what is there, stands in the way.",
        _example(
            "there is a branch `review` already",
            "branch_exists",
            "conflict",
            conflict={"code": "branch_exists", "branch": "review"},
        ),
    ),
    410: Failure(
        "Gone",
        "The state that was asked for existed once; a cleanup has removed it.",
        _example(
            "version 3 of node:Person was removed",
            "history_reclaimed",
            None,
            history_reclaimed={"table_key": "node:Person", "version": 3},
        ),
    ),
    412: Failure(
        "PreconditionFailed",
        "The branch, or the blob, is no longer what the request expects; nothing was changed.",
        _example(
            "main is at another commit",
            "precondition_failed",
            None,
            precondition_failure={"branch": "main", "expected": "01JZ…", "actual": "01K0…"},
        ),
    ),
    413: Failure(
        "TooLarge",
        "The body, the page or the answer is larger than a limit, or the query took too long.",
        _example(
            "the body has more than 1048576 bytes",
            "resource_limit",
            "bad_request",
            resource_limit={"resource": "request_body_bytes", "limit": 1048576, "actual": 1048577},
        ),
    ),
    415: Failure(
        "MediaType",
        "The body has another media type or encoding than the route takes.",
        _example("send application/json", "media_type", "bad_request"),
    ),
    416: Failure(
        "Range",
        "The range begins behind the end of the blob.",
        _example(
            "the blob has 5 bytes",
            "blob_range",
            "bad_request",
            blob_range={"start": 9, "end": None, "length": 5},
        ),
        {"Content-Range": "`bytes */N`, N being the size of the blob"},
    ),
    421: Failure(
        "Host",
        "A server without tokens is asked for under a name that is not its own.",
        _example("evil.example is not a name of this server", "host_not_allowed", "bad_request"),
    ),
    424: Failure(
        "External",
        "The bytes of the blob are kept elsewhere, and the server does not fetch them.",
        _example(
            "the blob is at https://example.org/a.png",
            "external_blob_source",
            None,
            external_blob_source={"uri": "https://example.org/a.png", "reason": "external"},
        ),
    ),
    426: Failure(
        "HttpVersion",
        "The answer is sent in pieces, which needs HTTP/1.1.",
        _example("this answer needs HTTP/1.1", "http_version", "bad_request"),
    ),
    429: Failure(
        "Busy",
        "Too much is under way; try again after a moment.",
        _example("too many reads are waiting; try again", "too_many_requests", "too_many_requests"),
        {"Retry-After": "seconds to wait"},
    ),
    431: Failure(
        "HeadTooLarge",
        "The head of the request has more than 32 KiB.",
        _example(
            "the head of the request has more than 32768 bytes", "head_too_large", "bad_request"
        ),
    ),
    500: Failure(
        "Internal",
        "The server failed; its log has more under the request id.",
        _example("internal error; request 3f9c0f4a", "internal", "internal"),
    ),
    503: Failure(
        "Draining",
        "The server is about to end, and has stopped the request; nothing was changed.",
        _example("the server is ending; send the request again", "draining", "internal"),
    ),
}


def statuses(operation: Operation, *, tokens: bool) -> Iterator[int]:
    """Return the statuses with which an operation may fail."""
    yield 400
    if tokens:
        yield 401
    yield from (403, 404, 409, 410)
    if operation.conditional or operation.name == "blob":
        yield 412
    yield 413
    if operation.content != "none":
        yield 415
    if operation.name == "blob":
        yield from (416, 424)
    if not tokens:
        yield 421
    if operation.gives != JSON or operation.forms:
        yield 426
    yield from (429, 431, 500, 503)


def failed_responses() -> dict[str, Any]:
    """Return the responses that operations refer to, by name."""
    return {
        failure.name: {
            "description": failure.when,
            "headers": {
                name: {"description": text, "schema": {"type": "string"}}
                for name, text in failure.headers.items()
            },
            "content": {
                JSON: {
                    "schema": {"$ref": "#/components/schemas/ErrorAnswer"},
                    "example": dict(failure.example),
                }
            },
        }
        for failure in FAILURES.values()
    }


def failure_reference(status: int) -> dict[str, str]:
    """Return how an operation names one of them."""
    return {"$ref": f"#/components/responses/{FAILURES[status].name}"}
