"""The operations that read, as methods; both clients have them.

``D`` is what asking for a document gives: the document itself, or an awaitable of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack

from omnigraph.client.core import Core, PreparedCall
from omnigraph.client.row_lines import whole_numbers
from omnigraph.client.sent_bodies import plain
from omnigraph.client.stat_blob import stat_document
from omnigraph.service import wire

D = TypeVar("D")
State = str | Mapping[str, Any]
"""A state of the graph: a branch, `BRANCH@VERSION`, `commit:ID`, `tag:NAME`, or what ``TargetNames`` has."""


class TargetNames(TypedDict, total=False):
    """One state of the graph, the head of `main` unless it names another.

    ``branch``, alone or with ``version`` or ``time``; ``snapshot``, a commit id; or ``tag``.
    """

    branch: str | None
    snapshot: str | None
    tag: str | None
    version: int | None
    time: str | None


class SeenNames(TargetNames, total=False):
    """One state of the graph, and the moment at which things are seen that hold.

    ``as_of`` is a date, a date and time, or `ever` for all that is stored.
    """

    as_of: str | None


class ShownChanges(TypedDict, total=False):
    """Which changes are shown and how many; ``short`` without long values."""

    kinds: Sequence[wire.Kind]
    types: Sequence[str]
    ops: Sequence[wire.Change]
    images: bool
    limit: int | None
    page_token: str | None


class Asking(Generic[D]):
    """Something that prepares requests and sends them."""

    core: Core

    @abstractmethod
    def send(self, asked: PreparedCall) -> D:
        """Send a request and give the document of its answer; an error is raised."""


class ReadMethods(Asking[D]):
    """Every operation that reads and answers with a document."""

    def query(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        timeout: float | None = None,
        **target: Unpack[SeenNames],
    ) -> D:
        """Run a read query; ``rows`` of the answer are dicts, with every integer as an int.

        ``name`` chooses one query if the text has several. With ``max_rows`` the answer has that many rows
        at most, ``truncated`` and ``total_rows``. After ``timeout`` seconds the query is stopped.
        """
        asked = self.question(query, name, params, max_rows=max_rows, timeout=timeout, **target)
        return self.send(replace(asked, finish=whole_numbers))

    def question(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        timeout: float | None = None,
        **target: Unpack[SeenNames],
    ) -> PreparedCall:
        """Return the request of ``query`` without sending it."""
        body = wire.QueryBody(
            query=query,
            name=name,
            params=sent_params(params),
            max_rows=max_rows,
            timeout_ms=milliseconds(timeout),
            **target,
        )
        return self.core.prepare("query", body, source=query)

    def queries(self) -> D:
        """Return the stored queries of the server, with their parameters."""
        return self.send(self.core.prepare("queries", wire.NoParameters()))

    def invoke(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        expect_mutation: bool | None = None,
        operation_id: str | None = None,
        if_commit: str | None = None,
        message: str | None = None,
        **target: Unpack[SeenNames],
    ) -> D:
        """Run a stored query; the answer is that of ``query``, or of ``mutate`` if it writes.

        With ``expect_mutation`` it is refused unless it writes, or unless it does not.
        """
        body = wire.InvokeBody(
            params=sent_params(params),
            max_rows=max_rows,
            expect_mutation=expect_mutation,
            message=message,
            **target,
        )
        asked = self.core.prepare(
            "invoke", body, name, operation_id=operation_id, if_commit=if_commit
        )
        return self.send(replace(asked, finish=whole_numbers))

    def explain(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        profile: bool = False,
        timeout: float | None = None,
        **target: Unpack[SeenNames],
    ) -> D:
        """Describe what a read query would do; with ``profile`` run it, and measure its phases."""
        body = wire.ExplainBody(
            query=query,
            name=name,
            params=sent_params(params),
            profile=profile,
            timeout_ms=milliseconds(timeout),
            **target,
        )
        return self.send(self.core.prepare("explain", body, source=query))

    def lint(self, source: str, query_path: str | None = None) -> D:
        """Check queries against the schema of the graph, without running them."""
        body = wire.LintBody(source=source, query_path=query_path)
        return self.send(self.core.prepare("lint", body, source=source))

    def snapshot(self, **target: Unpack[TargetNames]) -> D:
        """Return the version of every table at one state of the graph."""
        return self.send(self.core.prepare("snapshot", wire.TargetParameters(**target)))

    def catalog(self) -> D:
        """Return the types of the graph and their properties."""
        return self.send(self.core.prepare("catalog", wire.NoParameters()))

    def status(self) -> D:
        """Return how the graph stands, and what it needs."""
        return self.send(self.core.prepare("status", wire.NoParameters()))

    def entity(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        *,
        full: bool = False,
        **target: Unpack[TargetNames],
    ) -> D:
        """Return one node or edge; ``full`` with all bytes of its blobs and vectors."""
        named = wire.EntityParameters(kind=kind, type=type, id=id, full=full, **target)
        return self.send(self.core.prepare("entity", named))

    def entity_history(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        *,
        edges: bool = False,
        images: bool = True,
        short: bool = False,
        limit: int | None = None,
        before: str | None = None,
        **target: Unpack[TargetNames],
    ) -> D:
        """Return the changes of one node or edge, newest first, a page at a time.

        ``edges`` adds those of the edges of a node, ``images=False`` leaves the values out, and ``short`` shows
        vectors and blobs by their sizes. ``before`` is the ``next`` of the page before.
        """
        asked = wire.EntityHistoryParameters(
            kind=kind,
            type=type,
            id=id,
            edges=edges,
            images=images,
            short=short,
            limit=limit,
            before=before,
            **target,
        )
        return self.send(self.core.prepare("entity_history", asked))

    def blame(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        *,
        edges: bool = False,
        **target: Unpack[TargetNames],
    ) -> D:
        """Return for each property of one node or edge the commit that gave it its value."""
        asked = wire.EntityBlameParameters(kind=kind, type=type, id=id, edges=edges, **target)
        return self.send(self.core.prepare("entity_blame", asked))

    def neighbors(
        self,
        type: str,
        id: str,
        *,
        direction: Literal["out", "in", "both"] = "both",
        edges: Sequence[str] | None = None,
        properties: Mapping[str, Sequence[str]] | None = None,
        limit: int | None = None,
        after: str | None = None,
        **target: Unpack[SeenNames],
    ) -> D:
        """Return the edges of a node and the nodes at their other ends, a page at a time."""
        body = wire.NeighborsBody(
            type=type,
            id=id,
            direction=direction,
            edges=_listed(edges),
            properties=_listed_by_type(properties),
            limit=limit,
            after=after,
            **target,
        )
        return self.send(self.core.prepare("neighbors", body))

    def subgraph(
        self,
        nodes: Iterable[tuple[str, str]] | None = None,
        query: str | None = None,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        edges: Sequence[str] | None = None,
        properties: Mapping[str, Sequence[str]] | None = None,
        limit: int | None = None,
        **target: Unpack[SeenNames],
    ) -> D:
        """Return nodes, or those that a query finds, and the edges among them.

        ``nodes`` are pairs of type and id.
        """
        named = None if nodes is None else [wire.NodeName(type=one[0], id=one[1]) for one in nodes]
        body = wire.SubgraphBody(
            nodes=named,
            query=query,
            name=name,
            params=sent_params(params),
            edges=_listed(edges),
            properties=_listed_by_type(properties),
            limit=limit,
            **target,
        )
        return self.send(self.core.prepare("subgraph", body, source=query))

    def history(
        self, branches: Sequence[str] = (), *, limit: int | None = None, before: str | None = None
    ) -> D:
        """Return the commits that branches reach over both parents, with heads and tags."""
        wanted = wire.HistoryParameters(branch=list(branches), limit=limit, before=before)
        return self.send(self.core.prepare("history", wanted))

    def commits(
        self,
        branch: str | None = None,
        *,
        filter: str | Sequence[str] = (),
        limit: int | None = None,
        before: str | None = None,
    ) -> D:
        """Return the commits of a branch, newest first; a filter is a text such as ``actor=ada``."""
        filters = [filter] if isinstance(filter, str) else list(filter)
        wanted = wire.CommitsParameters(branch=branch, filter=filters, limit=limit, before=before)
        return self.send(self.core.prepare("commits", wanted))

    def commit(self, graph_commit_id: str) -> D:
        """Return one commit, from whichever branch holds it."""
        return self.send(self.core.prepare("commit", wire.NoParameters(), graph_commit_id))

    def commit_changes(
        self, graph_commit_id: str, *, short: bool = False, **shown: Unpack[ShownChanges]
    ) -> D:
        """Return a page of what a commit changed against its first parent."""
        wanted = wire.CommitChangesParameters(short=short, **_listed_changes(shown))
        return self.send(self.core.prepare("commit_changes", wanted, graph_commit_id))

    def diff(
        self, from_: State, to: State, *, short: bool = False, **shown: Unpack[ShownChanges]
    ) -> D:
        """Return a page of what changed, net, from one state of the graph to another."""
        body = wire.DiffBody(
            from_=state_name(from_), to=state_name(to), short=short, **_listed_changes(shown)
        )
        return self.send(self.core.prepare("diff", body))

    def changes(
        self,
        branch: str | None = None,
        *,
        start: str | None = None,
        cursor: str | None = None,
        max_commits: int | None = None,
        **shown: Unpack[ShownChanges],
    ) -> D:
        """Return the next commits of a branch with what each changed, and the cursor after them."""
        wanted = wire.FeedParameters(
            branch=branch,
            start=start,
            cursor=cursor,
            max_commits=max_commits,
            **_listed_changes(shown),
        )
        return self.send(self.core.prepare("changes", wanted))

    def branches(self) -> D:
        """Return the names of the branches, `main` first, then by name."""
        return self.send(self.core.prepare("branches", wire.NoParameters()))

    def tags(self) -> D:
        """Return the tags by name."""
        return self.send(self.core.prepare("tags", wire.NoParameters()))

    def merge_plan(
        self,
        source: str,
        target: str | None = None,
        *,
        resolve: wire.Resolutions | None = None,
        resolve_schema: wire.SchemaResolutions | None = None,
        granularity: wire.Granularity = "entity",
        images: bool = True,
        short: bool = False,
        limit: int | None = None,
    ) -> D:
        """Return what a merge would do, with its conflicts; nothing is changed."""
        body = wire.MergePlanBody(
            source=source,
            target=target,
            resolve=resolve,
            resolve_schema=resolve_schema,
            granularity=granularity,
            images=images,
            short=short,
            limit=limit,
        )
        return self.send(self.core.prepare("merge_plan", body))

    def schema(self, **target: Unpack[TargetNames]) -> D:
        """Return the accepted schema of a state as it was written."""
        return self.send(self.core.prepare("schema", wire.TargetParameters(**target)))

    def schema_diff(self, from_: State, to: State) -> D:
        """Return the steps from the schema of one state to that of another."""
        body = wire.SchemaDiffBody(from_=state_name(from_), to=state_name(to))
        return self.send(self.core.prepare("schema_diff", body))

    def schema_plan(
        self,
        schema_source: str,
        *,
        allow_data_loss: bool = False,
        check: bool = False,
        branch: str | None = None,
    ) -> D:
        """Return the steps to a new schema of a branch; nothing is changed.

        With ``check`` all stored rows are judged by its new rules.
        """
        body = wire.SchemaPlanBody(
            schema_source=schema_source,
            allow_data_loss=allow_data_loss,
            check=check,
            branch=branch,
        )
        return self.send(self.core.prepare("schema_plan", body, source=schema_source))

    def permissions(self, checks: Iterable[Mapping[str, Any]]) -> D:
        """Say what the caller may do: for each check an ``action`` and perhaps its branches."""
        asked = [wire.PermissionCheck(**check) for check in checks]
        return self.send(self.core.prepare("permissions", wire.PermissionsBody(checks=asked)))

    def stat_blob(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        property: str,
        **target: Unpack[TargetNames],
    ) -> D:
        """Describe a blob without reading it: its size and ETag, or where it is kept."""
        named = wire.BlobParameters(kind=kind, type=type, id=id, property=property, **target)
        return self.send(stat_document(self.core, named))

    def graphs(self) -> D:
        """Return the graphs of the server."""
        return self.send(self.core.prepare_plain("graphs", "graphs"))

    def health(self) -> D:
        """Return whether the server works, and its version."""
        return self.send(self.core.prepare_plain("health", "healthz"))


def sent_params(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the parameters of a query as JSON has them."""
    return None if params is None else {str(name): plain(value) for name, value in params.items()}


def milliseconds(timeout: float | None) -> int | None:
    """Return seconds as the whole milliseconds of a request."""
    return None if timeout is None else ceil(timeout * 1000)


def state_name(state: State) -> wire.StateName:
    """Return a state of the graph as a request names it."""
    return state if isinstance(state, str) else wire.TargetObject(**state)


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _listed_by_type(names: Mapping[str, Sequence[str]] | None) -> dict[str, list[str]] | None:
    return None if names is None else {key: list(each) for key, each in names.items()}


def _listed_changes(shown: ShownChanges) -> dict[str, Any]:
    return {
        name: list(value) if name in ("kinds", "types", "ops") else value  # type: ignore[call-overload]
        for name, value in shown.items()
    }
