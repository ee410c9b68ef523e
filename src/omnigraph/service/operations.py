"""The one table of operations: what can be asked of a graph, under which name, route and rules.

Everything that offers operations is made from it: the routes of the server, its OpenAPI document, the
methods of the client, and both sides of the command line. A new operation is one entry of
``OPERATIONS``, a request in ``wire``, an answer in ``answers``, and a function from a ``Call`` and the
request to a document. The entry

    _write("create_tag", "POST", "tags", wire.NewTagBody, calls.create_tag, "TagAnswer", Action.TAG_CREATE)

is ``POST /graphs/{graph_id}/tags``. Values in the path, as in ``tags/{tag}``, are further arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from omnigraph.policy.checker import Action
from omnigraph.service import calls, wire

Method = Literal["GET", "POST", "PUT", "DELETE"]
Lane = Literal["read", "write", "stream"]
"""Which threads of a server do the work: short reads, writes, or answers that are sent as they are made."""
Content = Literal["none", "json", "lines", "columns", "bytes"]
"""What the body of a request is: nothing, a JSON object, or raw records, columns or bytes."""

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
BYTES: Final = "application/octet-stream"


Run = Callable[..., Any]
"""From a ``Call``, a request and the values of the path to a document, a ``Streamed`` one, or pieces of bytes."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked of a graph.

    ``name`` is its id in OpenAPI and the method of the client; ``path`` stands below the graph.
    ``answer`` names a type of ``answers``. ``action`` is what a policy decides about. ``admitted``: it
    counts among the writes of its actor that may run at once. ``identified`` and ``conditional``: it
    takes an operation id, and a condition on the head. ``gives`` is the media type of the answer, and
    ``forms`` are others that a caller may ask for, each with the function that makes it.
    ``successor`` is the operation to use instead of a deprecated one; ``body_optional``: nothing is the same
    as an empty object.
    """

    name: str
    method: Method
    path: str
    request: type[wire.Wire]
    run: Run
    answer: str
    action: Action
    content: Content = "none"
    lane: Lane = "read"
    admitted: bool = False
    identified: bool = False
    conditional: bool = False
    body_optional: bool = False
    gives: str = JSON
    forms: Mapping[str, Run] = field(default_factory=dict)
    successor: str | None = None

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return (self.run.__doc__ or "").partition("\n")[0]

    @property
    def segments(self) -> tuple[str, ...]:
        """The path below the graph, cut at its slashes; a value stands as `{name}`."""
        return tuple(self.path.split("/"))

    @property
    def names_in_path(self) -> tuple[str, ...]:
        """The names of the values in the path."""
        return tuple(part[1:-1] for part in self.segments if part.startswith("{"))


def _read(
    name: str, path: str, request: type[wire.Wire], run: Run, answer: str, **more: Any
) -> Operation:
    """An operation that reads; with a body if its request is one."""
    method: Method = "POST" if request.__name__.endswith("Body") else "GET"
    content: Content = "json" if method == "POST" else "none"
    return Operation(
        name,
        method,
        path,
        request,
        run,
        answer,
        **{"action": Action.READ, "content": content, **more},
    )


def _write(
    name: str,
    method: Method,
    path: str,
    request: type[wire.Wire],
    run: Run,
    answer: str,
    action: Action = Action.CHANGE,
    **more: Any,
) -> Operation:
    """An operation that writes; one that changes records makes a commit, under conditions."""
    commits = action in {Action.CHANGE, Action.BRANCH_MERGE}
    defaults = {
        "content": "json" if request.__name__.endswith("Body") else "none",
        "lane": "write",
        "admitted": True,
        "identified": commits or action is Action.SCHEMA_APPLY,
        "conditional": commits,
    }
    return Operation(name, method, path, request, run, answer, action, **{**defaults, **more})


OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for operation in (
        _read("snapshot", "snapshot", wire.TargetParameters, calls.snapshot, "SnapshotAnswer"),
        _read(
            "query",
            "query",
            wire.QueryBody,
            calls.query,
            "QueryAnswer",
            forms={LINES: calls.query_lines, ARROW: calls.query_arrow},
        ),
        _read("queries", "queries", wire.NoParameters, calls.list_queries, "QueriesAnswer"),
        _read(
            "invoke",
            "queries/{name}",
            wire.InvokeBody,
            calls.invoke,
            "QueryAnswer",
            action=Action.INVOKE_QUERY,
            identified=True,
            conditional=True,
            body_optional=True,
        ),
        _read("explain", "explain", wire.ExplainBody, calls.explain, "ExplainAnswer"),
        _read("lint", "lint", wire.LintBody, calls.lint, "LintAnswer"),
        _read("catalog", "catalog", wire.NoParameters, calls.catalog, "CatalogAnswer"),
        _read("status", "status", wire.NoParameters, calls.status, "StatusAnswer"),
        _read("entity", "entity", wire.EntityParameters, calls.entity, "EntityAnswer"),
        _read(
            "entity_history",
            "entity/history",
            wire.EntityHistoryParameters,
            calls.entity_history,
            "EntityHistoryAnswer",
        ),
        _read(
            "entity_blame",
            "entity/blame",
            wire.EntityBlameParameters,
            calls.entity_blame,
            "EntityBlameAnswer",
        ),
        _read("neighbors", "neighbors", wire.NeighborsBody, calls.neighbors, "NeighborsAnswer"),
        _read("subgraph", "subgraph", wire.SubgraphBody, calls.subgraph, "SubgraphAnswer"),
        _read("history", "history", wire.HistoryParameters, calls.show_history, "HistoryAnswer"),
        _read("diff", "diff", wire.DiffBody, calls.diff, "DiffAnswer"),
        _read(
            "permissions",
            "permissions",
            wire.PermissionsBody,
            calls.permissions,
            "PermissionsAnswer",
        ),
        _write("mutate", "POST", "mutate", wire.MutateBody, calls.mutate, "MutationAnswer"),
        _write("load", "POST", "load", wire.LoadBody, calls.load, "LoadAnswer"),
        _write(
            "load_ndjson",
            "POST",
            "load/ndjson",
            wire.LoadParameters,
            calls.load_lines,
            "LoadAnswer",
            content="lines",
        ),
        _write(
            "load_table",
            "POST",
            "load/table",
            wire.TableParameters,
            calls.load_table,
            "LoadAnswer",
            content="columns",
        ),
        _write(
            "ingest", "POST", "ingest", wire.LoadBody, calls.load, "LoadAnswer", successor="load"
        ),
        _write("embed", "POST", "embed", wire.EmbedBody, calls.embed, "EmbedAnswer"),
        _read(
            "export",
            "export",
            wire.ExportBody,
            calls.export,
            "ExportAnswer",
            action=Action.EXPORT,
            lane="stream",
            gives=LINES,
        ),
        _read("blob", "blob", wire.BlobParameters, calls.open_blob, "BlobAnswer", gives=BYTES),
        _write(
            "put_blob",
            "PUT",
            "blob",
            wire.BlobWriteParameters,
            calls.put_blob,
            "PutBlobAnswer",
            content="bytes",
        ),
        _write(
            "clear_blob",
            "DELETE",
            "blob",
            wire.BlobWriteParameters,
            calls.clear_blob,
            "PutBlobAnswer",
        ),
        _read("branches", "branches", wire.NoParameters, calls.list_branches, "BranchesAnswer"),
        _write(
            "create_branch",
            "POST",
            "branches",
            wire.NewBranchBody,
            calls.create_branch,
            "NewBranchAnswer",
            Action.BRANCH_CREATE,
        ),
        _write(
            "delete_branch",
            "DELETE",
            "branches/{branch}",
            wire.NoParameters,
            calls.delete_branch,
            "DeletedBranchAnswer",
            Action.BRANCH_DELETE,
        ),
        _write(
            "merge",
            "POST",
            "branches/merge",
            wire.MergeBody,
            calls.merge,
            "MergeAnswer",
            Action.BRANCH_MERGE,
        ),
        _read(
            "merge_plan",
            "branches/merge/plan",
            wire.MergePlanBody,
            calls.merge_plan,
            "MergePlanAnswer",
        ),
        _read("tags", "tags", wire.NoParameters, calls.list_tags, "TagsAnswer"),
        _write(
            "create_tag",
            "POST",
            "tags",
            wire.NewTagBody,
            calls.create_tag,
            "TagAnswer",
            Action.TAG_CREATE,
        ),
        _write(
            "delete_tag",
            "DELETE",
            "tags/{tag}",
            wire.NoParameters,
            calls.delete_tag,
            "DeletedTagAnswer",
            Action.TAG_DELETE,
        ),
        _read("commits", "commits", wire.CommitsParameters, calls.list_commits, "CommitsAnswer"),
        _read(
            "commit",
            "commits/{graph_commit_id}",
            wire.NoParameters,
            calls.show_commit,
            "CommitAnswer",
        ),
        _write(
            "revert",
            "POST",
            "commits/{graph_commit_id}/revert",
            wire.RevertBody,
            calls.revert,
            "RevertAnswer",
        ),
        _write(
            "purge",
            "POST",
            "purge",
            wire.PurgeBody,
            calls.purge,
            "PurgeAnswer",
            Action.PURGE,
            identified=True,
        ),
        _read(
            "commit_changes",
            "commits/{graph_commit_id}/changes",
            wire.CommitChangesParameters,
            calls.commit_changes,
            "CommitChangesAnswer",
        ),
        _read("changes", "changes", wire.FeedParameters, calls.poll_changes, "FeedAnswer"),
        _read(
            "baseline",
            "changes/baseline",
            wire.BaselineBody,
            calls.baseline,
            "BaselineAnswer",
            action=Action.EXPORT,
            lane="stream",
            gives=LINES,
        ),
        _read("schema", "schema", wire.TargetParameters, calls.show_schema, "SchemaAnswer"),
        _read(
            "schema_diff",
            "schema/diff",
            wire.SchemaDiffBody,
            calls.diff_schemas,
            "SchemaDiffAnswer",
        ),
        _read(
            "schema_plan", "schema/plan", wire.SchemaPlanBody, calls.plan_schema, "SchemaPlanAnswer"
        ),
        _write(
            "apply_schema",
            "POST",
            "schema/apply",
            wire.SchemaApplyBody,
            calls.apply_schema,
            "SchemaApplyAnswer",
            Action.SCHEMA_APPLY,
        ),
    )
}
"""Every operation on a graph by its name."""
INVOKE_MUTATION: Final = replace(
    OPERATIONS["invoke"], answer="MutationAnswer", lane="write", admitted=True
)
"""`invoke`, where the stored query is a mutation."""
