"""Requests as they travel: the JSON bodies and query parameters of the HTTP interface.

Each is a struct of plain values. Decoding refuses unknown fields and wrong types, so that no typing
mistake goes unnoticed:

    msgspec.json.decode(b'{"query": "query q() { … }", "tag": "v1"}', type=QueryBody)

A field that is not given is None or has the default of the engine. Names are those of the interface;
``from_`` travels as `from`. Names ending in ``Body`` are JSON, in ``Parameters`` query strings; a route
without either takes ``NoParameters``.

Ids and conditions that stand in headers are not part of these: they are in ``operations.Call``.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from omnigraph.service.documents import NamesState, SeesWhatHolds

Kind = Literal["node", "edge"]
Change = Literal["insert", "update", "delete"]
Mode = Literal["merge", "append", "overwrite", "patch"]
Granularity = Literal["entity", "property"]
AtLeastOne = Annotated[int, Meta(ge=1)]
Resolutions = Literal["ours", "theirs"] | list[dict[str, Any]]
"""How conflicts are decided: all for one side, or entity by entity."""
SchemaResolutions = Literal["ours", "theirs"] | dict[str, Literal["ours", "theirs"]]
"""How schemas in conflict are decided: all for one side, or element by element (`node:Ship.flag`)."""
WITH_COMMAS: Final = frozenset({"kinds", "types", "ops", "names"})
"""Lists that are one query parameter; the values of others may have commas, and each is one."""


class Wire(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all requests."""


class NoParameters(Wire, kw_only=True, frozen=True):
    """A request that says nothing but its path."""


class TargetFields(NamesState, Wire, kw_only=True, frozen=True):
    """One state of the graph, the head of `main` unless it names another.

    At most one of: ``branch``, alone or with ``version`` or ``time``; ``snapshot``, a commit id; ``tag``.
    """

    branch: str | None = None
    snapshot: str | None = None
    tag: str | None = None
    version: int | None = None
    time: str | None = None


class TargetObject(TargetFields, kw_only=True, frozen=True):
    """A state of the graph inside a request that names several, or one beside a branch."""


StateName = str | TargetObject
"""A state of the graph: a branch, `BRANCH@VERSION`, `commit:ID` or `tag:NAME`, or an object."""


class SeenFields(SeesWhatHolds, TargetFields, kw_only=True, frozen=True):
    """One state of the graph, and the moment at which things are seen that hold: ``as_of``, a date, a date and
    time, or `ever` for all that is stored. By default it is now at the head of a branch, else the time of the state.
    """

    as_of: str | None = None


class TargetParameters(TargetFields, kw_only=True, frozen=True):
    """The state to look at."""


class QueryBody(SeenFields, kw_only=True, frozen=True):
    """A read query: its text, the name of one query where it has several, and parameters."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    max_rows: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    timeout_ms: AtLeastOne | None = None


class ExplainBody(SeenFields, kw_only=True, frozen=True):
    """A read query to explain; with ``profile`` it is run, too."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    profile: bool = False
    timeout_ms: AtLeastOne | None = None


class InvokeBody(SeenFields, kw_only=True, frozen=True):
    """Parameters of a stored query, and the state it reads, or the branch it writes."""

    params: dict[str, Any] | None = None
    max_rows: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    expect_mutation: bool | None = None
    message: str | None = None


class MutateBody(Wire, kw_only=True, frozen=True):
    """A query that writes."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    message: str | None = None


class LintBody(Wire, kw_only=True, frozen=True):
    """Queries to check, and the file they come from."""

    source: str
    query_path: str | None = None


class EntityParameters(TargetFields, kw_only=True, frozen=True):
    """One node or edge; ``full`` with all bytes of its blobs and vectors."""

    kind: Kind
    type: str
    id: str
    full: bool = False


class EntityHistoryParameters(TargetFields, kw_only=True, frozen=True):
    """A node or edge, and which page of its changes is shown; ``edges`` with those of the edges of a node."""

    kind: Kind
    type: str
    id: str
    edges: bool = False
    images: bool = True
    short: bool = False
    limit: AtLeastOne | None = None
    before: str | None = None


class EntityBlameParameters(TargetFields, kw_only=True, frozen=True):
    """A node or edge; ``edges`` with the edges of a node."""

    kind: Kind
    type: str
    id: str
    edges: bool = False


class NeighborsBody(SeenFields, kw_only=True, frozen=True):
    """A node, and which of its edges are followed."""

    type: str
    id: str
    direction: Literal["out", "in", "both"] = "both"
    edges: list[str] | None = None
    properties: dict[str, list[str]] | None = None
    limit: AtLeastOne | None = None
    after: str | None = None


class NodeName(Wire, kw_only=True, frozen=True):
    """A node."""

    type: str
    id: str


class SubgraphBody(SeenFields, kw_only=True, frozen=True):
    """Nodes, or a query that finds them, whose edges among each other are wanted."""

    nodes: list[NodeName] | None = None
    query: str | None = None
    name: str | None = None
    params: dict[str, Any] | None = None
    edges: list[str] | None = None
    properties: dict[str, list[str]] | None = None
    limit: AtLeastOne | None = None


class HistoryParameters(Wire, kw_only=True, frozen=True):
    """A page of the commit graph: of all branches if none is named."""

    branch: list[str] = field(default_factory=list)
    limit: AtLeastOne | None = None
    before: str | None = None


class CommitsParameters(Wire, kw_only=True, frozen=True):
    """A part of the chain of one branch; a filter is a text such as ``actor=ada``."""

    branch: str | None = None
    before: str | None = None
    limit: AtLeastOne | None = None
    filter: list[str] = field(default_factory=list)
    actor: str | None = None
    operation_id: str | None = None
    operation: str | None = None


class ChangeFields(Wire, kw_only=True, frozen=True):
    """Which changes are wanted, and whether with the values of properties."""

    kinds: list[Kind] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    ops: list[Change] = field(default_factory=list)
    images: bool = True
    limit: int | None = None
    page_token: str | None = None


class DiffBody(ChangeFields, kw_only=True, frozen=True):
    """Two states to compare; ``short`` without long values."""

    from_: StateName = field(name="from")
    to: StateName
    short: bool = False


class CommitChangesParameters(ChangeFields, kw_only=True, frozen=True):
    """A page of what one commit changed; ``short`` without long values."""

    short: bool = False


class FeedParameters(ChangeFields, kw_only=True, frozen=True):
    """A page of the change feed, from one of ``start``, ``cursor`` and ``page_token``."""

    branch: str | None = None
    start: str | None = None
    cursor: str | None = None
    max_commits: int | None = None


class BaselineBody(Wire, kw_only=True, frozen=True):
    """The newest state of a branch, and the cursor after it."""

    branch: str | None = None
    kinds: list[Kind] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    ops: list[Change] = field(default_factory=list)


class LoadFields(Wire, kw_only=True, frozen=True):
    """How records meet what is there. ``rejects`` is how many bad records the answer lists."""

    branch: str | None = None
    from_: str | None = field(name="from", default=None)
    mode: Mode = "merge"
    check: bool = False
    on_bad: Literal["fail", "skip"] = "fail"
    embed: bool = False
    rejects: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    message: str | None = None


class LoadBody(LoadFields, kw_only=True, frozen=True):
    """Records as a text of JSON lines."""

    data: str


class LoadParameters(LoadFields, kw_only=True, frozen=True):
    """Records that are the body of the request, as JSON lines."""


class TableParameters(LoadFields, kw_only=True, frozen=True):
    """Columns of one type that are the body of the request."""

    kind: Kind
    type: str
    format: Literal["parquet", "csv", "arrow"]
    from_col: str | None = None
    to_col: str | None = None
    map: list[str] = field(default_factory=list)
    ignore_extra: bool = False
    delimiter: str | None = None
    header: bool = True
    names: list[str] | None = None
    null: list[str] = field(default_factory=list)
    encoding: str | None = None


class EmbedBody(Wire, kw_only=True, frozen=True):
    """The node types whose vectors are filled, all by default, and at most how many vectors."""

    branch: str | None = None
    types: list[str] | None = None
    limit: AtLeastOne | None = None
    message: str | None = None


class ExportBody(TargetFields, kw_only=True, frozen=True):
    """What to export: the types that are named, or all of them."""

    type_names: list[str] | None = None


class BlobParameters(TargetFields, kw_only=True, frozen=True):
    """One Blob property of a node or edge."""

    kind: Kind
    type: str
    id: str
    property: str


class BlobWriteParameters(Wire, kw_only=True, frozen=True):
    """One Blob property of a node or edge, to be written."""

    kind: Kind
    type: str
    id: str
    property: str
    branch: str | None = None
    message: str | None = None


class NewBranchBody(Wire, kw_only=True, frozen=True):
    """A new branch, and where it begins; at the head of `main` by default."""

    name: str
    from_: StateName | None = field(name="from", default=None)


class NewTagBody(TargetFields, kw_only=True, frozen=True):
    """A name for the commit of one state of the graph."""

    name: str


class ConflictFields(Wire, kw_only=True, frozen=True):
    """How a merge or a revert finds, decides and shows conflicts."""

    resolve: Resolutions | None = None
    resolve_schema: SchemaResolutions | None = None
    granularity: Granularity = "entity"
    short: bool = False


class MergeBody(ConflictFields, kw_only=True, frozen=True):
    """A branch whose changes another one gets; `main` by default."""

    source: str
    target: str | None = None
    delete_branch: bool = False
    dry_run: bool = False
    images: bool = False
    limit: AtLeastOne | None = None
    message: str | None = None


class MergePlanBody(ConflictFields, kw_only=True, frozen=True):
    """A merge of which only the plan is wanted."""

    source: str
    target: str | None = None
    images: bool = True
    limit: AtLeastOne | None = None


class RevertBody(ConflictFields, kw_only=True, frozen=True):
    """The branch on which a commit is undone; `main` by default."""

    branch: str | None = None
    dry_run: bool = False
    images: bool = False
    limit: AtLeastOne | None = None
    message: str | None = None


class PurgeBody(Wire, kw_only=True, frozen=True):
    """Entities to remove for good: ids by type. With ``dry_run`` nothing goes."""

    entities: dict[str, list[str]]
    reason: str | None = None
    dry_run: bool = False


class SchemaDiffBody(Wire, kw_only=True, frozen=True):
    """Two states of the graph, whose schemas are compared."""

    from_: StateName = field(name="from")
    to: StateName


class _NewSchema(Wire, kw_only=True, frozen=True):
    """A new schema of a branch, `main` by default. With ``allow_data_loss`` what it drops is removed from disk."""

    schema_source: str
    allow_data_loss: bool = False
    branch: str | None = None


class SchemaPlanBody(_NewSchema, kw_only=True, frozen=True):
    """A new schema, which is only planned. With ``check`` all stored rows are judged by its new rules."""

    check: bool = False


class SchemaApplyBody(_NewSchema, kw_only=True, frozen=True):
    """A new schema, which a branch gets."""

    message: str | None = None


class PermissionCheck(Wire, kw_only=True, frozen=True):
    """Something that the caller would like to do."""

    action: str
    branch: str | None = None
    target_branch: str | None = None


class PermissionsBody(Wire, kw_only=True, frozen=True):
    """What the caller would like to do."""

    checks: Annotated[list[PermissionCheck], Meta(max_length=64)]
