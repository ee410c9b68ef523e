"""Answers about what a graph holds at one state, and about how it stands.

Of an operation that gives lines or bytes over HTTP it is the document that the service returns beside them.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from omnigraph.service.answers.shared import (
    AdviceOutput,
    BlobName,
    ColumnOutput,
    CommitOutput,
    DiagnosticOutput,
    EdgeOutput,
    EndsOutput,
    ExportStatsOutput,
    NamedNode,
    NodeOutput,
    TableOutput,
    TargetOutput,
)
from omnigraph.service.wire import Kind


class SnapshotAnswer(TypedDict):
    """The version of every table at one state of the graph."""

    branch: str | None
    graph_commit_id: str
    manifest_version: int
    internal_schema_version: int
    schema_hash: str
    tables: list[TableOutput]


class QueryAnswer(TypedDict):
    """Rows. Whole numbers that JavaScript cannot hold are texts in them.

    With `max_rows`, `truncated` and `total_rows` are there, and `row_count` is what was sent. `as_of` is the
    moment at which things were seen that hold, where the text does not say, or `ever`; null if no type that was
    read has a period.
    """

    query_name: str | None
    target: TargetOutput
    as_of: NotRequired[str | None]
    row_count: int
    columns: list[str]
    schema: list[ColumnOutput]
    rows: list[dict[str, Any]]
    graph_commit_id: str
    truncated: NotRequired[bool]
    total_rows: NotRequired[int]


class ParameterOutput(TypedDict):
    """A parameter of a stored query; of a list also the kind of its items, of a vector its length.

    A list of objects says which fields these have.
    """

    name: str
    kind: str
    nullable: bool
    item_kind: NotRequired[str]
    vector_dim: NotRequired[int]
    fields: NotRequired[list[ParameterOutput]]


class StoredQueryOutput(TypedDict):
    """A stored query: the name to invoke it by, and the one that it has as a tool of agents."""

    name: str
    tool_name: str
    mutation: bool
    params: list[ParameterOutput]
    description: NotRequired[str]
    instruction: NotRequired[str]


class QueriesAnswer(TypedDict):
    """The stored queries that clients may see, by name."""

    queries: list[StoredQueryOutput]


class IndexUseOutput(TypedDict):
    """An index that could serve a step: coverage is `indexed`, `degraded` or `none`."""

    table_key: str
    column: str
    kind: str
    coverage: str


class PlanStepOutput(TypedDict):
    """One line of a plan, and what is known of its table."""

    text: str
    table_key: str | None
    rows: int | None
    cached: bool | None
    indexes: list[IndexUseOutput]


class OrderOutput(TypedDict):
    """A step of a match as it will run."""

    op: str
    text: str
    estimated_rows: int


class PhaseOutput(TypedDict):
    """A phase of a query that ran."""

    name: str
    rows: int | None
    milliseconds: float
    op: str | None
    estimated_rows: int | None
    bytes: int | None
    phases: list[PhaseOutput]


class ExplainAnswer(TypedDict):
    """What a query would do; `profile` and `row_count` are there if it was run."""

    query_name: str | None
    target: TargetOutput
    graph_commit_id: str
    steps: list[PlanStepOutput]
    order: list[OrderOutput] | None
    order_unknown: str | None
    summed_away: list[str] | None
    path: Literal["indexed", "csr"]
    as_of: NotRequired[str | None]
    profile: NotRequired[list[PhaseOutput]]
    row_count: NotRequired[int]


class SchemaSourceOutput(TypedDict):
    """The schema that queries were checked against."""

    kind: Literal["file", "graph"]
    path: NotRequired[str]
    uri: NotRequired[str]


class LintResultOutput(TypedDict):
    """What was found about one query."""

    name: str
    kind: Literal["read", "mutation"]
    status: Literal["ok", "error"]
    warnings: NotRequired[list[str]]
    error: NotRequired[str]
    diagnostic: NotRequired[DiagnosticOutput]
    operation: NotRequired[dict[str, Any]]


class FindingOutput(TypedDict):
    """What was found about the text as a whole."""

    severity: str
    code: str
    message: str
    type_name: NotRequired[str]
    property: NotRequired[str | None]
    queries: NotRequired[list[str]]
    diagnostic: NotRequired[DiagnosticOutput]


class LintAnswer(TypedDict):
    """What is wrong with queries, if anything."""

    status: Literal["ok", "error"]
    schema_source: SchemaSourceOutput
    query_path: str | None
    queries_processed: int
    errors: int
    warnings: int
    infos: int
    results: list[LintResultOutput]
    findings: list[FindingOutput]


class EmbedSourceOutput(TypedDict):
    """Where the values of a vector come from."""

    source: str
    model: str | None


# In a class of its own, because there the name would hide the type.
class _Several(TypedDict):
    list: bool


class PropertyOutput(_Several):
    """One property of a type."""

    name: str
    type: str
    nullable: bool
    enum: NotRequired[list[str]]
    vector_dim: NotRequired[int]
    metric: NotRequired[Literal["l2", "cosine", "dot"]]
    index: NotRequired[Literal["btree", "text", "vector"]]
    unique: bool
    embed: NotRequired[EmbedSourceOutput]
    default: NotRequired[Any]
    constraints: list[str]
    description: NotRequired[str]


class CardinalityOutput(TypedDict):
    """How many edges may leave a node."""

    min: int
    max: NotRequired[int]


class NodeTypeOutput(TypedDict):
    """A type of nodes."""

    name: str
    key: list[str]
    implements: list[str]
    description: NotRequired[str]
    properties: list[PropertyOutput]


_EdgeTypeEnds = TypedDict("_EdgeTypeEnds", {"from": str, "to": str})


class EdgeTypeOutput(_EdgeTypeEnds):
    """A type of edges, and the word that queries use for it."""

    name: str
    word: str
    card: CardinalityOutput
    description: NotRequired[str]
    properties: list[PropertyOutput]


class InterfaceOutput(TypedDict):
    """Properties that several types of nodes share."""

    name: str
    description: NotRequired[str]
    properties: list[PropertyOutput]


class CatalogAnswer(TypedDict):
    """The types of the graph."""

    schema_hash: str
    nodes: list[NodeTypeOutput]
    edges: list[EdgeTypeOutput]
    interfaces: list[InterfaceOutput]


class IndexOutput(TypedDict):
    """An index of a table, and how much of the table it covers."""

    column: str
    kind: str | None
    coverage: str
    uncovered_fragments: int


class TableStatusOutput(TableOutput):
    """One table of `main`: how it is stored, and what it needs."""

    head_version: int
    versions: int
    fragments: int | None
    manifest_bytes: int
    indexes: list[IndexOutput]
    advice: list[AdviceOutput]


class ManifestOutput(TypedDict):
    """The table of all tables."""

    version: int
    fragments: int


class PurgeOutput(TypedDict):
    """Versions of a table that have still to go: those before one, of a purge from a first one on."""

    table_key: str
    table_path: str
    below_version: int | None
    table_branch: NotRequired[str | None]
    first_version: NotRequired[int | None]


class StatusAnswer(TypedDict):
    """How the graph stands and what it needs."""

    uri: str
    graph_id: str
    omnigraph: str
    internal_schema_version: int
    branches: list[str]
    head: CommitOutput
    manifest: ManifestOutput
    pending_recoveries: int
    stray_files: list[str]
    bytes_by_branch: dict[str, int]
    purges_owed: list[PurgeOutput]
    last_optimize: int | None
    advice: list[AdviceOutput]
    tables: list[TableStatusOutput]


class EntityAnswer(TypedDict):
    """One node or edge; a vector is `{"$vector": 3}` and a blob `{"$blob": {…}}` unless all was asked for."""

    kind: Kind
    type: str
    id: str
    properties: dict[str, Any]
    endpoints: NotRequired[EndsOutput]
    graph_commit_id: str


class EdgeCountOutput(TypedDict):
    """How many edges of a type a node has in one direction."""

    edge: str
    direction: Literal["out", "in"]
    total: int


class NeighborsAnswer(TypedDict):
    """A page of the edges of a node and of the nodes at their other ends."""

    center: NodeOutput
    nodes: list[NodeOutput]
    edges: list[EdgeOutput]
    counts: list[EdgeCountOutput]
    next: NotRequired[str]
    graph_commit_id: str
    as_of: NotRequired[str | None]


class SubgraphAnswer(TypedDict):
    """Nodes, those of them that are not there, and the edges among them."""

    nodes: list[NodeOutput]
    missing: list[NamedNode]
    edges: list[EdgeOutput]
    truncated: bool
    total_nodes: NotRequired[int]
    graph_commit_id: str
    as_of: NotRequired[str | None]


class AllowedOutput(TypedDict):
    """Whether something is allowed, and why."""

    allowed: bool
    message: str


class PermissionsAnswer(TypedDict):
    """What the caller may do, in the order of the questions."""

    actor_id: str | None
    mode: Literal["open", "default_deny", "policy"]
    results: list[AllowedOutput]


class ExportAnswer(TypedDict):
    """What an export wrote."""

    graph_commit_id: str
    branch: str | None
    stats: ExportStatsOutput
    engine: str
    leased: bool
    note: str | None


class BlobTargetOutput(TypedDict):
    """The state that a blob was read from, as it was asked for, and the commit of it."""

    branch: NotRequired[str]
    snapshot: NotRequired[str]
    tag: NotRequired[str]
    version: NotRequired[int]
    time: NotRequired[int]
    resolved_snapshot: str


class BlobAnswer(TypedDict):
    """What is known of a blob without its bytes."""

    selector: BlobName
    kind: Literal["managed", "external"]
    size: NotRequired[int]
    etag: NotRequired[str]
    uri: NotRequired[str]
    target: BlobTargetOutput
