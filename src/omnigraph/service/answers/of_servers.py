"""Answers of a server that belong to no graph, and the body of every error."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from omnigraph.service.answers.shared import BadRecords, ConflictOutput, SpanOutput


class HealthAnswer(TypedDict):
    """That the server is there, and what it is; while it ends, only that it is `draining`."""

    status: Literal["ok", "draining"]
    version: NotRequired[str]
    internal_schema_version: NotRequired[int]


class ServedGraphOutput(TypedDict):
    """A graph that the server has, and its address there."""

    graph_id: str
    uri: str


class QuarantinedGraphOutput(TypedDict):
    """A graph of a cluster that is not served, and why."""

    graph_id: str
    reason: str


class GraphsAnswer(TypedDict):
    """The graphs that are ready, by id; and those of a cluster that are not."""

    graphs: list[ServedGraphOutput]
    quarantined: NotRequired[list[QuarantinedGraphOutput]]


class ErrorAnswer(TypedDict):
    """Why a request failed, and what to do. Decide by `kind`, then by `code`, never by the text.

    `kind` may grow; `code` may not. The other members are facts about errors of some kinds.
    """

    error: str
    kind: str
    code: NotRequired[
        Literal[
            "unauthorized",
            "forbidden",
            "bad_request",
            "not_found",
            "method_not_allowed",
            "conflict",
            "too_many_requests",
            "internal",
        ]
    ]
    span: NotRequired[SpanOutput]
    hint: NotRequired[str]
    rule: NotRequired[str]
    query: NotRequired[str]
    param: NotRequired[str]
    bad_records: NotRequired[BadRecords]
    merge_conflicts: NotRequired[list[ConflictOutput]]
    schema_violation: NotRequired[list[dict[str, Any]]]
    not_found: NotRequired[dict[str, Any]]
    conflict: NotRequired[dict[str, Any]]
    manifest_conflict: NotRequired[dict[str, Any]]
    key_conflict: NotRequired[dict[str, Any]]
    purge_blocked: NotRequired[dict[str, Any]]
    resource_limit: NotRequired[dict[str, Any]]
    precondition_failure: NotRequired[dict[str, Any]]
    recovery_required: NotRequired[dict[str, Any]]
    blob_range: NotRequired[dict[str, Any]]
    external_blob_source: NotRequired[dict[str, Any]]
    change_feed_gap: NotRequired[dict[str, Any]]
    history_reclaimed: NotRequired[dict[str, Any]]
    change_diff_refusal: NotRequired[dict[str, Any]]
