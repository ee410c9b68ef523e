"""Objects that several answers share: commits, targets, changes, conflicts, tables.

They describe documents that are made elsewhere, mostly by ``to_json`` of a result, and are checked
against every document that the tests of the service and the server see. A member that is not always
there is ``NotRequired``; one that may be null says so.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from omnigraph.service.wire import Change, Kind


class CommitOutput(TypedDict):
    """One commit of the graph. `branch` is null for `main`, times are Unix microseconds.

    `facts` is what else the operation has to say; `recovery` is there if it finished a write that stopped.
    """

    graph_commit_id: str
    branch: str | None
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    operation: str
    operation_id: str | None
    facts: dict[str, Any]
    recovery: NotRequired[dict[str, Any]]


class TargetOutput(TypedDict):
    """The state of the graph that was read, as it was asked for."""

    branch: str | None
    snapshot: str | None
    tag: NotRequired[str]
    version: NotRequired[int]
    time: NotRequired[int]


class TableOutput(TypedDict):
    """One table at a state of the graph; its path is relative to the graph."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int


class EntityOutput(TypedDict):
    """Which nodes the ids of a column name."""

    kind: Literal["node"]
    type: str


class ColumnOutput(TypedDict):
    """One column of the answer to a query, or a field of the objects in it.

    A list says what its items are, an object or a list of objects also which fields these have.
    """

    name: str
    type: str
    nullable: bool
    item_kind: NotRequired[str]
    fields: NotRequired[list[ColumnOutput]]
    entity: NotRequired[EntityOutput]


class NamedNode(TypedDict):
    """A node by its type and id."""

    type: str
    id: str


EndsOutput = TypedDict("EndsOutput", {"from": NamedNode, "to": NamedNode})
"""The nodes that an edge connects."""

EndIds = TypedDict("EndIds", {"from": str, "to": str})
"""The ids of the nodes that an edge connects."""


class ImageOutput(TypedDict):
    """An entity at one side of a change; an edge has ends. Without images `properties` is left out."""

    properties: NotRequired[dict[str, Any]]
    endpoints: NotRequired[EndIds]


class ChangeOutput(TypedDict):
    """One entity that differs: an insert has no `before`, a delete no `after`."""

    kind: Kind
    type: str
    id: str
    op: Change
    before: NotRequired[ImageOutput]
    after: NotRequired[ImageOutput]


class SideOutput(TypedDict):
    """One of two states that were compared."""

    graph_commit_id: str
    branch: str | None
    version: int


class StatsOutput(TypedDict):
    """What an operation did and what it cost. The first three count entities, net."""

    inserts: int
    updates: int
    deletes: int
    candidates: int
    rows_read: int
    bytes_read: int
    tables_skipped: int
    tables_adopted: int
    ms: int


class MergeStatsOutput(StatsOutput):
    """What a merge or a revert did and cost; `resolved` counts conflicts that the caller decided."""

    resolved: int
    embeddings_pending: int


class DiffStatsOutput(StatsOutput):
    """What a diff found and cost."""

    types_affected: list[str]


class ExportStatsOutput(StatsOutput):
    """What an export wrote and cost."""

    records: int
    bytes_written: int


class GroupMemberOutput(TypedDict):
    """One of several mutations that share a commit: who made it, and the first ids it changed of each table."""

    operation_id: NotRequired[str]
    actor_id: str | None
    message: NotRequired[str]
    statements: int
    ids: dict[str, list[str]]


class CauseOutput(TypedDict):
    """The commit that made changes: who, when, on top of what, and with which message, if any."""

    graph_commit_id: str
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    authored_branch: str
    actor_id: str | None
    authored_at: int
    message: NotRequired[str]
    members: NotRequired[list[GroupMemberOutput]]


class ConstraintOutput(TypedDict):
    """A constraint that a step adds or drops; which members it has depends on its kind."""

    kind: Literal["index", "unique", "range", "check"]
    properties: NotRequired[list[str]]
    property: NotRequired[str]
    min: NotRequired[int | float | None]
    max: NotRequired[int | float | None]
    pattern: NotRequired[str]


class BindingOutput(TypedDict):
    """What vectors are made of."""

    source: str
    model: str | None


_Renamed = TypedDict("_Renamed", {"from": NotRequired[str | BindingOutput]})


class StepOutput(_Renamed):
    """One step from a schema to another; which members it has depends on its kind."""

    kind: str
    type_kind: NotRequired[Literal["node", "edge", "interface"]]
    name: NotRequired[str]
    to: NotRequired[str | BindingOutput]
    type_name: NotRequired[str]
    property_name: NotRequired[str]
    property_type: NotRequired[str]
    default: NotRequired[Any]
    constraint: NotRequired[ConstraintOutput]
    added_values: NotRequired[list[str]]
    removed_values: NotRequired[list[str]]
    annotations: NotRequired[list[dict[str, Any]]]
    mode: NotRequired[Literal["soft", "hard"]]
    warnings: NotRequired[list[str]]
    entity: NotRequired[str]
    reason: NotRequired[str]
    code: NotRequired[str]


class SchemaChangeOutput(TypedDict):
    """What differs between two schemas: how a commit, a merge or a diff changes the schema."""

    from_hash: str
    to_hash: str
    steps: list[StepOutput]


class BlockOutput(TypedDict):
    """The changes of one commit, or the part of them that fits on a page."""

    cause: CauseOutput
    changes: list[ChangeOutput]
    schema: NotRequired[SchemaChangeOutput]


class ConflictOutput(TypedDict):
    """What a merge or a revert cannot decide by itself."""

    kind: Literal[
        "divergent_insert",
        "divergent_update",
        "delete_vs_update",
        "orphan_edge",
        "unique_violation",
        "cardinality_violation",
        "value_constraint_violation",
        "divergent_schema",
        "schema_name_clash",
        "schema_drop_vs_change",
        "schema_invalid",
    ]
    table_key: str
    entity_kind: Literal["node", "edge", "interface"]
    type_name: str
    row_id: str | None
    message: str
    detail: NotRequired[dict[str, Any]]


class BlobName(TypedDict):
    """One Blob property of a node or edge."""

    kind: Kind
    type: str
    id: str
    property: str


class SpanOutput(TypedDict):
    """A place in a text; offsets count code points from 0, lines and columns from 1."""

    start: int
    end: int
    line: int
    column: int


class DiagnosticOutput(TypedDict):
    """What an editor shows beside a message."""

    kind: str
    rule: NotRequired[str]
    hint: NotRequired[str]
    span: NotRequired[SpanOutput]


class NodeOutput(TypedDict):
    """A node as it is drawn: its caption, and the properties that were asked for."""

    type: str
    id: str
    caption: str
    properties: NotRequired[dict[str, Any]]


_EdgeEnds = TypedDict("_EdgeEnds", {"from": NamedNode, "to": NamedNode})


class EdgeOutput(_EdgeEnds):
    """An edge as it is drawn, with the properties that were asked for."""

    type: str
    id: str
    properties: NotRequired[dict[str, Any]]


class AdviceOutput(TypedDict):
    """What to do, why, and the command that does it; null if no command can."""

    code: str
    message: str
    command: str | None


class BadRecord(TypedDict):
    """A record that was refused: the number of its line or row, and why."""

    source: str
    line: NotRequired[int]
    row: NotRequired[int]
    reason: str
    property: str | None


class BadRecords(TypedDict):
    """How many records were refused, and the first of them."""

    total: int
    first: list[BadRecord]
