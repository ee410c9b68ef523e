"""`init` and `schema`: a graph from a schema, what schemas say, and how a branch gets another one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest, PolicyDenied, SchemaConflict
from omnigraph.manifest.branch_names import MAIN
from omnigraph.policy.checker import Action
from omnigraph.service.documents import Document, TargetRequest

if TYPE_CHECKING:
    from omnigraph.graph.session import Session
    from omnigraph.lang.query.registry import Registry
    from omnigraph.manifest.snapshot import TargetLike

_PUBLISHED = "supported", "step_count", "steps", "applied", "manifest_version", "commit"
_IN_CLUSTER = re.compile(r"(.+)/graphs/[^/]+\.omni")
_LEDGER = "__cluster/state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchemaRequest:
    """A new schema of a branch, `main` by default. With ``allow_data_loss`` what it drops is removed from disk."""

    schema_source: str
    allow_data_loss: bool = False
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRequest(TargetRequest):
    """The state whose schema is shown."""


def show_schema(session: Session, request: ShowRequest) -> Document:
    """Return the accepted schema of a state as it was written, and the hash that names it."""
    is_named = any(value is not None for value in request.target.values())
    shown = session.schema.show(**request.target) if is_named else session.schema.show()
    return {"schema_source": shown.source, "schema_hash": shown.schema_hash}


def diff_schemas(session: Session, before: TargetLike, after: TargetLike) -> Document:
    """Return the steps from the schema of one state to that of another."""
    return session.schema.diff(before, after).to_json()


def without_rename_hints(document: Document) -> Document:
    """Return the answer of ``show_schema`` without the rename hints of its source."""
    from omnigraph.lang.schema.syntax.hints import without_hints

    return {**document, "schema_source": without_hints(document["schema_source"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(NewSchemaRequest):
    """A new schema, which is only planned. With ``check`` all stored rows are judged by its new rules."""

    check: bool = False


def plan_schema(session: Session, request: PlanRequest, uri: str) -> Document:
    """Return the steps to a new schema; nothing is changed.

    ``warnings`` are there if the plan destroys data or has rename hints that do nothing.
    """
    plan = session.schema.plan(
        request.schema_source,
        request.allow_data_loss,
        check=request.check,
        branch=request.branch or MAIN,
    )
    document = {"uri": uri, **plan.to_json()}
    return {**document, "warnings": list(plan.warnings)} if plan.warnings else document


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest(NewSchemaRequest):
    """A new schema, which a branch gets."""

    operation_id: str | None = None
    message: str | None = None


def apply_schema(session: Session, request: ApplyRequest, uri: str) -> Document:
    """Give a branch a new schema as one commit; ``uri`` is how the caller knows the graph.

    ``warnings`` are there if something was destroyed or is left to do.
    """
    branch = request.branch or MAIN
    refuse_in_cluster(session, branch)
    done = session.schema.apply(
        request.schema_source,
        request.allow_data_loss,
        branch=branch,
        operation_id=request.operation_id,
        message=request.message,
    )
    answer = done.to_json()
    document = {"uri": uri, **{name: answer.pop(name) for name in _PUBLISHED}, **answer}
    return {**document, "warnings": list(done.warnings)} if done.warnings else document


def refuse_in_cluster(session: Session, branch: str) -> None:
    """Refuse a schema of `main` of a graph of a cluster; whoever may not change it at all is told that first."""
    from omnigraph.graph.session import access_of

    if branch.strip() == MAIN and cluster_of(session.uri) is not None:
        access_of(session).ask(Action.SCHEMA_APPLY, target=MAIN)
        _refuse_in_cluster(session.uri)


def _refuse_in_cluster(uri: str) -> None:
    """Refuse to change the schema of `main` of a graph of a cluster."""
    cluster = cluster_of(uri)
    if cluster is not None:
        raise SchemaConflict(
            f"the graph belongs to the cluster at {cluster}, which decides its schema; change the "
            "file that its cluster.yaml names, and run `omnigraph cluster apply`",
            root=cluster,
        )


def guarded(session: Session, stored: Registry | None) -> Session:
    """Return a session whose merges and reverts bring no schema into `main` that a cluster or stored queries refuse.

    So are their dry runs. Whoever asks for one and may not change the schema is not told which cluster or queries.
    """
    from omnigraph.graph.session import Session, access_of
    from omnigraph.service.stored import check_new_schema, newly_broken

    def may_change() -> bool:
        try:
            access_of(session).ask(Action.SCHEMA_APPLY, target=MAIN)
        except PolicyDenied:
            return False
        return True

    def guard(branch: str, source: str) -> None:
        if branch != MAIN:
            return
        if may_change():
            _refuse_in_cluster(session.uri)
            if stored is not None:
                check_new_schema(session, stored, source)
        elif cluster_of(session.uri) is not None:
            raise SchemaConflict("the graph belongs to a cluster, which decides its schema")
        elif stored is not None and newly_broken(session, stored, source):
            raise BadRequest("the schema would break stored queries; change them first")

    return Session(replace(access_of(session), guard_schema=guard))


def cluster_of(uri: str) -> str | None:
    """Return the root of the cluster that a storage address is a place of: `ROOT/graphs/NAME.omni`."""
    from omnigraph.storage.objects.stores import open_store
    from omnigraph.storage.uris import Root

    inside = _IN_CLUSTER.fullmatch(Root.parse(uri).canonical)
    if inside is None or not open_store(Root.parse(inside[1])).exists(_LEDGER):
        return None
    return inside[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """The schema of a new graph. ``force`` replaces schema files that lie there without a graph."""

    schema_source: str
    force: bool = False
    actor: str | None = None
    message: str | None = None


def init(request: InitRequest, uri: str) -> Document:
    """Create a graph at a storage address and return its first commit.

    ``warnings`` are there if the schema declares no types, so that nothing can be loaded.
    """
    import omnigraph

    cluster = cluster_of(uri)
    if cluster is not None:
        raise BadRequest(
            f"{uri} is a place in the cluster at {cluster}, which makes its own graphs; declare the "
            "graph in its cluster.yaml and run `omnigraph cluster apply`, or choose another place",
            root=cluster,
        )
    with omnigraph.init(
        uri,
        request.schema_source,
        actor=request.actor,
        force=request.force,
        message=request.message,
    ) as graph:
        document: Document = {
            "uri": uri,
            "graph_commit_id": graph.snapshot().graph_commit_id,
            "internal_schema_version": graph.internal_schema_version,
        }
        if not graph.schema.catalog.nodes:
            document["warnings"] = ["the schema declares no types: nothing can be loaded"]
        return document
