"""One function per operation: from a ``Call`` and a request that travelled to a document.

The functions turn requests of ``wire`` into those of the service and call it. The table in ``operations``
names them, so that a server, the client's other side and the command line all run the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec

from omnigraph.cancel import within
from omnigraph.errors import ResourceLimit
from omnigraph.manifest.branch_names import MAIN
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.service import wire
from omnigraph.service.documents import Document, Streamed

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.facets.blobs import BlobStat
    from omnigraph.graph.session import Session
    from omnigraph.lang.query.registry import Registry
    from omnigraph.manifest.snapshot import Target
    from omnigraph.service.history import DiffRequest
    from omnigraph.service.query import QueryRequest

T = TypeVar("T")

MOST_VECTORS = 10_000
"""How many vectors one request fills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Who asks, and all of a request that is not in its body, parameters or path.

    ``uri`` is how the caller knows the graph, ``limits`` are those of a server. ``received`` is the file
    that holds a raw body; operations that give bytes write them to ``out``, and tell ``on_pinned`` the
    commit that they read, before. ``stored`` are the queries that can be invoked by name.
    """

    session: Session
    uri: str
    limits: ReadLimits = NO_LIMITS
    if_commit: str | None = None
    operation_id: str | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    received: Path | None = None
    out: BinaryIO | None = None
    on_pinned: Callable[[str], object] | None = None
    stored: Registry | None = None

    @property
    def identity(self) -> dict[str, str | None]:
        """The id of the caller's choice, for a write that takes no condition."""
        return {"operation_id": self.operation_id}

    @property
    def conditions(self) -> dict[str, str | None]:
        """The id of the caller's choice, and the head that the branch must have."""
        return {"operation_id": self.operation_id, "if_commit": self.if_commit}


def _as(kind: type[T], request: wire.Wire, *without: str, **more: Any) -> T:
    """Return a request of the service with all fields of one that travelled; lists become tuples.

    A field that the service does not have is an error unless it is at its default, so that nothing is
    silently dropped; those named in ``without`` are used by the caller.
    """
    values = {}
    service: Any = kind
    for name, is_known, default in _common(service, type(request), without):
        value = getattr(request, name)
        if is_known or value != default:
            values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values | more)


@cache
def _common(
    kind: type[Any], request: type[wire.Wire], without: tuple[str, ...]
) -> tuple[tuple[str, bool, Any], ...]:
    """Return each field of a request, whether the service has it, and its default if it is optional."""
    known = {field.name for field in fields(kind)}
    names = request.__struct_fields__
    defaults = dict(zip(reversed(names), reversed(request.__struct_defaults__), strict=False))
    return tuple((name, name in known, defaults.get(name)) for name in names if name not in without)


def snapshot(call: Call, request: wire.TargetParameters) -> Document:
    """Return the version of every table at one state of the graph."""
    from omnigraph.service import states as service

    return service.snapshot(call.session, _as(service.SnapshotRequest, request))


def query(call: Call, request: wire.QueryBody) -> Streamed:
    """Run a read query and return its rows."""
    from omnigraph.service import query as service

    with within(_seconds(request.timeout_ms), None):
        return service.query(call.session, _question(request), call.limits)


def query_lines(call: Call, request: wire.QueryBody) -> Iterator[bytes]:
    """Run a read query and return its rows as lines of JSON, after a line about them."""
    from omnigraph.service import query as service

    with within(_seconds(request.timeout_ms), None):
        return service.query_lines(call.session, _question(request), call.limits)


def query_arrow(call: Call, request: wire.QueryBody) -> Iterator[bytes]:
    """Run a read query and return its rows as an Arrow stream."""
    from omnigraph.service import query as service

    with within(_seconds(request.timeout_ms), None):
        return service.query_arrow(call.session, _question(request), call.limits)


def _question(request: wire.QueryBody) -> QueryRequest:
    from omnigraph.service.query import QueryRequest

    return _as(QueryRequest, request, "timeout_ms")


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def explain(call: Call, request: wire.ExplainBody) -> Document:
    """Return what a read query would do; with a profile also what it did and how long that took."""
    from omnigraph.service import query as service

    with within(_seconds(request.timeout_ms), None):
        return service.explain(call.session, _as(service.ExplainRequest, request, "timeout_ms"))


def mutate(call: Call, request: wire.MutateBody) -> Document:
    """Run a mutation as one commit; `commit` is null if nothing changed."""
    from omnigraph.service import query as service

    return service.mutate(call.session, _as(service.MutateRequest, request, **call.conditions))


def list_queries(call: Call, _: wire.NoParameters) -> Document:
    """Return the stored queries that clients may see, with their parameters."""
    from omnigraph.service import stored as service

    return service.list_queries(call.session, call.stored or service.NO_QUERIES)


def invoke(call: Call, request: wire.InvokeBody, name: str) -> Document | Streamed:
    """Run a stored query; the answer is that of the query or mutation it is."""
    from omnigraph.service import stored as service

    asked = _as(service.InvokeRequest, request, **call.conditions)
    return service.invoke(call.session, call.stored or service.NO_QUERIES, name, asked, call.limits)


def lint(call: Call, request: wire.LintBody) -> Document:
    """Check queries against the accepted schema of the graph."""
    from omnigraph.service import query as service

    return service.lint(call.session, _as(service.LintRequest, request), call.uri)


def catalog(call: Call, _: wire.NoParameters) -> Document:
    """Return the types of the graph and their properties, for a program that draws or completes them."""
    from omnigraph.service import states as service

    return service.catalog(call.session)


def status(call: Call, _: wire.NoParameters) -> Document:
    """Return how the graph stands and what it needs."""
    from omnigraph.service import states as service

    return service.status(call.session, call.uri)


def entity(call: Call, request: wire.EntityParameters) -> Document:
    """Return one node or edge."""
    from omnigraph.service import states as service

    return service.entity(call.session, _as(service.EntityRequest, request))


def entity_history(call: Call, request: wire.EntityHistoryParameters) -> Document:
    """Return the changes of one node or edge, newest first: what changed, in which commit, by whom."""
    from omnigraph.service import history as service

    return service.entity_history(call.session, _as(service.EntityHistoryRequest, request))


def entity_blame(call: Call, request: wire.EntityBlameParameters) -> Document:
    """Return for each property of a node or edge the commit that gave it its value, and its actor."""
    from omnigraph.service import history as service

    return service.entity_blame(call.session, _as(service.EntityBlameRequest, request))


def neighbors(call: Call, request: wire.NeighborsBody) -> Document:
    """Return the edges of a node and the nodes at their other ends, a page at a time."""
    from omnigraph.service import states as service

    return service.neighbors(call.session, _as(service.NeighborsRequest, request))


def subgraph(call: Call, request: wire.SubgraphBody) -> Document:
    """Return nodes, or those that a query finds, and the edges among them."""
    from omnigraph.service import states as service

    nodes = None if request.nodes is None else tuple((node.type, node.id) for node in request.nodes)
    return service.subgraph(
        call.session, _as(service.SubgraphRequest, request, "nodes", nodes=nodes)
    )


def show_history(call: Call, request: wire.HistoryParameters) -> Document:
    """Return the commits that branches reach over both parents, with heads and tags."""
    from omnigraph.service import history as service

    branches = tuple(request.branch)
    asked = _as(service.HistoryRequest, request, "branch", branches=branches)
    return service.history(call.session, asked)


def list_commits(call: Call, request: wire.CommitsParameters) -> Document:
    """Return the commits of a branch, newest first."""
    from omnigraph.service import history as service

    short = ("actor", "operation_id", "operation")
    given = [f"{name}={value}" for name in short if (value := getattr(request, name)) is not None]
    filters = (*request.filter, *given)
    asked = _as(service.CommitsRequest, request, "filter", *short, filters=filters)
    return service.list_commits(call.session, asked)


def show_commit(call: Call, _: wire.NoParameters, graph_commit_id: str) -> Document:
    """Return one commit, from whichever branch holds it."""
    from omnigraph.service import history as service

    return service.show_commit(call.session, graph_commit_id)


def diff(call: Call, request: wire.DiffBody) -> Document:
    """Return a page of what changed, net, from one state of the graph to another."""
    from omnigraph.service import history as service

    return service.diff_page(call.session, diff_request(request))


def diff_request(request: wire.DiffBody) -> DiffRequest:
    """Return the request of the service for one that travelled."""
    from omnigraph.service.history import DiffRequest

    sides = {"from_": _state(request.from_), "to": _state(request.to)}
    return _as(DiffRequest, request, **sides)


def _state(name: wire.StateName) -> Target:
    """Return the state of the graph that a request names."""
    from omnigraph.manifest.snapshot import Target

    return Target.of_text(name) if isinstance(name, str) else Target.of(**name.target)


def commit_changes(
    call: Call, request: wire.CommitChangesParameters, graph_commit_id: str
) -> Document:
    """Return a page of what a commit changed against its first parent."""
    from omnigraph.service import history as service

    asked = _as(service.CommitChangesRequest, request, graph_commit_id=graph_commit_id)
    return service.commit_changes_page(call.session, asked)


def poll_changes(call: Call, request: wire.FeedParameters) -> Document:
    """Return the next commits of a branch with what each changed, and the cursor after them."""
    from omnigraph.service import history as service

    asked = _as(service.FeedRequest, request, "max_commits")
    return service.poll_page(call.session, asked, max_commits=request.max_commits)


def baseline(call: Call, request: wire.BaselineBody) -> Document:
    """Write the newest state of a branch as JSON lines, the last of which has the cursor after it."""
    from omnigraph.service import history as service

    out = _out(call)
    asked = _as(service.BaselineRequest, request)
    document = service.baseline(call.session, asked, out, on_pinned=call.on_pinned)
    cursor = {name: document[name] for name in ("snapshot_commit_id", "resume_cursor")}
    out.write(msgspec.json.encode({"baseline": cursor}) + b"\n")
    return document


def export(call: Call, request: wire.ExportBody) -> Document:
    """Write the records of one state of the graph as JSON lines, which can be loaded again."""
    from omnigraph.service import loads as service

    asked = _as(service.ExportRequest, request)
    return service.export(call.session, asked, _out(call), on_pinned=call.on_pinned)


def load(call: Call, request: wire.LoadBody) -> Document:
    """Load records as one commit, or nothing."""
    from omnigraph.service import loads as service

    # As bytes: a text could be taken for the path of a file.
    return service.load(
        call.session, _load_request(call, request, data=(request.data.encode(),)), call.uri
    )


def load_lines(call: Call, request: wire.LoadParameters) -> Document:
    """Load the JSON lines of the body as one commit, or nothing."""
    from omnigraph.service import loads as service

    asked = _load_request(call, request, data=(service.STREAM,))
    # The file itself: an open one would be copied first.
    return service.load(call.session, asked, call.uri, stream=_received(call), stream_name="body")


def load_table(call: Call, request: wire.TableParameters) -> Document:
    """Load the columns of the body, all of one type, as one commit, or nothing."""
    from omnigraph.service import loads as service

    received = service.ReceivedColumns(request.kind, request.type, request.format, _received(call))
    asked = _load_request(call, request, columns=service.renames(request.map), received=received)
    return service.load(call.session, asked, call.uri)


def _load_request(call: Call, request: wire.LoadFields, **sources: Any) -> Any:
    """Return the request of a load. A server has no other engine than the local one."""
    from omnigraph.service.loads import LoadRequest

    elsewhere = ("data", "kind", "type", "format", "map", "rejects")
    more = {"first_bad": request.rejects, "engine": "local", **call.conditions, **sources}
    return _as(LoadRequest, request, *elsewhere, **more)


def embed(call: Call, request: wire.EmbedBody) -> Document:
    """Fill vectors that are missing, a commit for every 1,000 rows; the caller repeats while some are."""
    from omnigraph.service import loads as service

    limit = MOST_VECTORS if request.limit is None else request.limit
    if limit > MOST_VECTORS:
        raise ResourceLimit(
            f"limit is {limit:,}, and one request fills at most {MOST_VECTORS:,} vectors; ask for fewer, "
            "and again while some are pending",
            resource="embed_vectors",
            limit=MOST_VECTORS,
            actual=limit,
        )
    asked = _as(service.FillRequest, request, **call.conditions | {"limit": limit})
    return service.embed(call.session, asked, call.uri)


def open_blob(call: Call, request: wire.BlobParameters) -> Any:
    """Return the bytes of a blob, or a range of them."""
    from omnigraph.service import blobs as service

    return service.open_blob(call.session, _as(service.BlobRequest, request))


def look_at_blob(call: Call, request: wire.BlobParameters) -> BlobStat:
    """Return what is known of a blob whose bytes are not wanted."""
    from omnigraph.service import blobs as service

    return service.look_at_blob(call.session, _as(service.BlobRequest, request))


def put_blob(call: Call, request: wire.BlobWriteParameters) -> Document:
    """Replace a blob with the bytes of the body, as one commit."""
    return _write_blob(call, request, _received(call))


def clear_blob(call: Call, request: wire.BlobWriteParameters) -> Document:
    """Make a blob null, as one commit."""
    return _write_blob(call, request, None)


def _write_blob(call: Call, request: wire.BlobWriteParameters, source: Path | None) -> Document:
    from omnigraph.service import blobs as service

    validators = {"if_match": call.if_match, "if_none_match": call.if_none_match}
    asked = _as(service.PutBlobRequest, request, **validators, **call.conditions)
    return service.put_blob(call.session, asked, source)


def list_branches(call: Call, _: wire.NoParameters) -> Document:
    """Return the names of the branches, `main` first, then by name."""
    from omnigraph.service import branches as service

    return service.list_branches(call.session)


def create_branch(call: Call, request: wire.NewBranchBody) -> Document:
    """Make a branch."""
    from omnigraph.service import branches as service

    begin = None if request.from_ is None else _state(request.from_)
    asked = service.CreateBranchRequest(name=request.name, from_=begin)
    return service.create_branch(call.session, asked, call.uri)


def delete_branch(call: Call, _: wire.NoParameters, branch: str) -> Document:
    """Delete a branch and its commits."""
    from omnigraph.service import branches as service

    return service.delete_branch(call.session, branch, call.uri)


def merge(call: Call, request: wire.MergeBody) -> Document:
    """Merge a branch into another as one commit, or refuse with all conflicts."""
    from omnigraph.service import branches as service
    from omnigraph.service.schema import guarded

    session = guarded(call.session, call.stored)
    return service.merge(session, _as(service.MergeRequest, request, **call.conditions))


def merge_plan(call: Call, request: wire.MergePlanBody) -> Document:
    """Return what a merge would do; nothing is changed."""
    from omnigraph.service import branches as service
    from omnigraph.service.schema import guarded

    session = guarded(call.session, call.stored)
    return service.merge(session, _as(service.MergeRequest, request, dry_run=True))


def revert(call: Call, request: wire.RevertBody, graph_commit_id: str) -> Document:
    """Undo a commit on a branch as a new commit, or refuse with all conflicts."""
    from omnigraph.service import branches as service
    from omnigraph.service.schema import guarded

    more = {"graph_commit_id": graph_commit_id, **call.conditions}
    session = guarded(call.session, call.stored)
    return service.revert(session, _as(service.RevertRequest, request, **more))


def purge(call: Call, request: wire.PurgeBody) -> Document:
    """Remove nodes with their edges, and edges, for good, or say what stands in the way."""
    from omnigraph.service import maintenance as service

    return service.purge(call.session, _as(service.PurgeRequest, request, **call.identity))


def list_tags(call: Call, _: wire.NoParameters) -> Document:
    """Return the tags by name."""
    from omnigraph.service import branches as service

    return service.list_tags(call.session)


def create_tag(call: Call, request: wire.NewTagBody) -> Document:
    """Name a commit; a tag never moves."""
    from omnigraph.manifest.snapshot import Target
    from omnigraph.service import branches as service

    target = Target.of(**request.target)
    asked = service.CreateTagRequest(name=request.name, target=target)
    return service.create_tag(call.session, asked)


def delete_tag(call: Call, _: wire.NoParameters, tag: str) -> Document:
    """Delete a tag and say which commit it named."""
    from omnigraph.service import branches as service

    return service.delete_tag(call.session, tag)


def show_schema(call: Call, request: wire.TargetParameters) -> Document:
    """Return the accepted schema of a state as it was written."""
    from omnigraph.service import schema as service

    return service.show_schema(call.session, _as(service.ShowRequest, request))


def diff_schemas(call: Call, request: wire.SchemaDiffBody) -> Document:
    """Return the steps from the schema of one state to that of another."""
    from omnigraph.service import schema as service

    return service.diff_schemas(call.session, _state(request.from_), _state(request.to))


def plan_schema(call: Call, request: wire.SchemaPlanBody) -> Document:
    """Return the steps to a new schema; nothing is changed."""
    from omnigraph.service import schema as service

    return service.plan_schema(call.session, _as(service.PlanRequest, request), call.uri)


def apply_schema(call: Call, request: wire.SchemaApplyBody) -> Document:
    """Give a branch a new schema as one commit."""
    from omnigraph.service import schema as service

    service.refuse_in_cluster(call.session, request.branch or MAIN)
    # Stored queries are checked against the branch of each invocation; they hold up changes of `main` alone.
    if call.stored is not None and (request.branch or MAIN).strip() == MAIN:
        from omnigraph.service.stored import check_new_schema

        check_new_schema(call.session, call.stored, request.schema_source)
    asked = _as(service.ApplyRequest, request, **call.identity)
    return service.apply_schema(call.session, asked, call.uri)


def permissions(call: Call, request: wire.PermissionsBody) -> Document:
    """Say what the caller may do; about itself alone."""
    from omnigraph.service import permissions as service

    return service.permissions(call.session, request.checks)


def _out(call: Call) -> BinaryIO:
    assert call.out is not None, "an operation that writes bytes is called with a place for them"
    return call.out


def _received(call: Call) -> Path:
    assert call.received is not None, "an operation with a raw body is called with its file"
    return call.received
