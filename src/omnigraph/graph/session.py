"""`Session`: a graph as one actor uses it, with everything that a policy decides about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from omnigraph.cancel import Cancel, Timeout, token_of, within
from omnigraph.graph import drawings, entities, exports_and_diffs, reads, writes
from omnigraph.graph.access import Access, target_of
from omnigraph.graph.arguments import (
    check_flag,
    check_limits,
    check_load_options,
    check_progress,
    check_types,
)
from omnigraph.graph.facets import histories
from omnigraph.graph.facets.algorithms import Algorithms
from omnigraph.graph.facets.blobs import Blobs
from omnigraph.graph.facets.branches import Branches, Tags
from omnigraph.graph.facets.commits import Changes, Commits
from omnigraph.graph.facets.schema import Schema
from omnigraph.graph.reads import asked_moment
from omnigraph.graph.state import Mode
from omnigraph.graph.unknown_here import reading_of
from omnigraph.manifest.branch_names import MAIN, trim_written_branch
from omnigraph.manifest.history.resolve import resolve
from omnigraph.manifest.migrations import read_internal_version
from omnigraph.manifest.snapshot import AsOf, Snapshot, Target, TargetKeywords, TargetLike
from omnigraph.policy.checker import Action
from omnigraph.read.limits import NO_LIMITS, ReadLimits

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    import networkx as nx
    from pyspark.sql import DataFrame

    from omnigraph.changes.change_filter import Kind
    from omnigraph.changes.diff_result import DiffResult
    from omnigraph.changes.entity_history.results import EntityBlame, EntityHistory
    from omnigraph.changes.entity_stream import EntityStream
    from omnigraph.changes.export.column_files import ExportFormat
    from omnigraph.changes.export.export_files import Out
    from omnigraph.changes.export.write_export import ExportResult
    from omnigraph.embeddings.embedder import Embedder
    from omnigraph.maintenance.purge.purge_report import PurgeReport
    from omnigraph.maintenance.status import Status
    from omnigraph.pipeline.formats.frame_layout import EndColumns
    from omnigraph.pipeline.frame_options import FrameCommitKeywords, FrameKeywords
    from omnigraph.pipeline.load_options import CommitKeywords, LoadKeywords
    from omnigraph.pipeline.load_plan import CommittedLoad, LoadResult
    from omnigraph.pipeline.sources.sources import SourceLike
    from omnigraph.read.explain import Explanation
    from omnigraph.read.output.query_result import QueryResult
    from omnigraph.read.profile import Profiled
    from omnigraph.runner.executors import EngineName
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.mutate import MutationResult


class Session:
    """A graph as one actor uses it; every call asks the policy first, if the graph has one.

    ``Graph.session`` makes one. It shares all caches with its graph and is open as long as that is.
    Every call sees the newest published state, unless it names another.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._state = access.state
        self.algorithms = Algorithms(access)
        self.blobs = Blobs(access)
        self.branches = Branches(access)
        self.changes = Changes(access)
        self.commits = Commits(access)
        self.schema = Schema(access)
        self.tags = Tags(access)

    @property
    def uri(self) -> str:
        """The address of the graph, in its canonical spelling."""
        return self._state.workspace.root.canonical

    @property
    def mode(self) -> Mode:
        """``"rw"``, or ``"r"`` for a handle that never writes."""
        return self._state.mode

    @property
    def actor(self) -> str | None:
        """Who asks: the policy decides about this actor, and commits record it."""
        return self._access.actor

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that turns texts into vectors, or None."""
        return self._state.embedder

    @property
    def internal_schema_version(self) -> int:
        """The version of the on-disk format, as stamped on the manifest."""
        self._state.ensure_open()
        return read_internal_version(self._state.workspace.manifest.state(MAIN).table)

    def __repr__(self) -> str:
        closed = ", closed" if self._state.is_closed else ""
        return (
            f"<omnigraph.Session of {self.actor or 'nobody'} on {self.uri} ({self.mode}{closed})>"
        )

    def snapshot(self, **target: Unpack[TargetKeywords]) -> Snapshot:
        """Return the pinned state that a target names, the head of `main` by default.

        Every reading call takes these: ``branch``, alone or with ``version`` or ``time``;
        ``snapshot``, a commit id; ``tag``; or ``at``: a text (`BRANCH`, `BRANCH@VERSION`, `commit:ID`,
        `tag:NAME`), a value of ``og.at``, a ``Snapshot``, a commit or a ``datetime``.
        """
        wanted = self._access.reading(**target)
        return resolve(self._state.workspace.manifest, wanted)

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        limits: ReadLimits = NO_LIMITS,
        engine: EngineName = "auto",
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> QueryResult:
        """Run a read query on one snapshot: the head of `main`, or what the target names.

        ``source`` is query text, or a ``Path`` to a file. ``name`` chooses one query if it has
        several; ``params`` are the values of its parameters, which may also stand in second place. The
        target is one of: ``branch``, alone or with ``version`` or ``time``; ``snapshot``, a commit id;
        ``tag``; ``at``, which is a text (`BRANCH`, `BRANCH@VERSION`, `commit:ID`, `tag:NAME`), a value of
        ``og.at``, a ``Snapshot``, a commit or a ``datetime``. After ``timeout``, seconds or a ``timedelta``, the query is stopped with a
        ``ResourceLimit``; ``cancel`` is a token by which another thread can stop it. Every call that may
        read much takes these two. ``limits``, an ``og.ReadLimits``, bound the answer: without them it has every
        row, however many there are. With ``engine="spark"`` executors of Spark answer, for graphs that one machine
        cannot hold: the rows are the same, and a form that needs rounds, such as an open bound, is refused. ``auto``
        is this process, unless the edges do not fit into `OMNIGRAPH_CACHE_MB`, Spark answers the form, and there is a
        session or `OMNIGRAPH_SPARK_MASTER`.
        Of types with a period the query sees what holds ``as_of`` a moment, where its
        text does not say: a ``datetime``, a ``date``, a text such as `2026-05-04`, or `"ever"` for all that is stored.
        By default that is now at the head of a branch, and at any other state its own time. Every call that sees
        what holds takes it.
        """
        with within(timeout, cancel):
            moment = asked_moment(as_of, target_of(**target))
            wanted = self._access.reading(**target)
            return reads.query(
                self._access,
                source,
                name,
                params,
                wanted,
                limits=check_limits(limits),
                engine=engine,
                as_of=moment,
            )

    def frame(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> DataFrame:
        """Return the rows of a read query as a lazy DataFrame of the running Spark session.

        The arguments are those of ``query``. The snapshot is pinned now, and the rows are computed whenever the
        frame is used; if cleanup removed the snapshot by then, that job fails with ``history_reclaimed`` in its
        message. Without a running session one is started. Forms that need rounds are refused, as for
        ``engine="spark"``.
        """
        moment = asked_moment(as_of, target_of(**target))
        wanted = self._access.reading(**target)
        return reads.query_frame(self._access, source, name, params, wanted, moment)

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        engine: EngineName = "auto",
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> Explanation:
        """Describe what ``query`` would do: the plan, the tables it reads, and their indexes.

        With ``engine="spark"`` also the plan of Spark, for which all parameters are needed.
        """
        with within(timeout, cancel):
            moment = asked_moment(as_of, target_of(**target))
            wanted = self._access.reading(**target)
            return reads.explain_query(self._state, source, name, params, wanted, engine, moment)

    def profile(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        limits: ReadLimits = NO_LIMITS,
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> Profiled:
        """Run ``query`` and measure rows and milliseconds of each phase."""
        with within(timeout, cancel):
            moment = asked_moment(as_of, target_of(**target))
            wanted = self._access.reading(**target)
            return reads.profile_query(
                self._access, source, name, params, wanted, check_limits(limits), moment
            )

    def entity(
        self,
        kind: Kind,
        type: str,
        id: str,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        **target: Unpack[TargetKeywords],
    ) -> dict[str, Any] | None:
        """Return one node or edge as plain data; None if there is no such type or id at the target.

        It has ``kind``, ``type``, ``id``, ``properties`` in the values of an export, the
        ``endpoints`` of an edge, and ``graph_commit_id``, the commit that was read.
        """
        with within(timeout, cancel):
            wanted = self._access.reading(**target)
            return entities.find_entity(self._state, kind, type, id, wanted)

    def history(
        self,
        kind: Kind,
        type: str,
        id: str,
        *,
        edges: bool = False,
        images: bool = True,
        short: bool = False,
        limit: int | None = None,
        before: str | None = None,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        **target: Unpack[TargetKeywords],
    ) -> EntityHistory:
        """Return the changes of one node or edge, newest first: what changed, in which commit, by whom.

        Across merges the changes are those of the branch that made them, with the merge beside them. A page
        has ``limit`` entries (100); ``before`` is the ``next`` of the page before. ``edges``: with the
        changes of the edges that the node has at the target. ``images=False`` leaves the values out, and
        ``short`` shows vectors and blobs by their sizes.
        """
        from omnigraph.changes.entity_history.history import HistoryOptions

        with within(timeout, cancel):
            wanted = self._access.reading(**target)
            options = HistoryOptions(
                check_flag("images", images), check_flag("short", short), limit, before
            )
            asked = histories.NamedEntity(kind, type, id, check_flag("edges", edges))
            with reading_of(self._access, wanted):
                return histories.history(self._access, asked, options, wanted)

    def blame(
        self,
        kind: Kind,
        type: str,
        id: str,
        *,
        edges: bool = False,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        **target: Unpack[TargetKeywords],
    ) -> EntityBlame:
        """Return for each property of one node or edge the commit that gave it its value, and its actor.

        A property that was never set has the commit that inserted the entity. ``edges``: with the edges that
        the node has at the target.
        """
        with within(timeout, cancel):
            wanted = self._access.reading(**target)
            asked = histories.NamedEntity(kind, type, id, check_flag("edges", edges))
            with reading_of(self._access, wanted):
                return histories.blame(self._access, asked, wanted)

    def purge(
        self,
        entities: Mapping[str, Iterable[str]],
        *,
        reason: str | None = None,
        dry_run: bool = False,
        actor: str | None = None,
        operation_id: str | None = None,
    ) -> PurgeReport:
        """Remove nodes with their edges, and edges, for good: from every branch, version, index and cache.

        ``entities`` has lists of ids by type, such as ``{"Person": ["ann"], "edge:Said": ["s1"]}``. What was
        there before can not be read any more in any version that held them. Whatever must keep such a version,
        a tag, a branch or a running export, stops the purge: ``PurgeBlocked`` names it, and nothing changes. ``dry_run``
        says what would go and what stands in the way. ``reason`` is kept with the audit of the purge, which has no
        id in it.
        """
        from omnigraph.graph.facets.purging import purge_entities

        dry = check_flag("dry_run", dry_run)
        acting = self._access.acting(actor)
        return purge_entities(acting, entities, reason, operation_id, dry_run=dry)

    def neighbors(
        self,
        type: str,
        id: str,
        direction: str = "both",
        edges: Iterable[str] | None = None,
        properties: Mapping[str, Iterable[str]] | None = None,
        limit: int | None = None,
        after: str | None = None,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> dict[str, Any]:
        """Return a page of the edges of a node and of the nodes at their other ends, as a document.

        ``direction`` is out, in or both; ``edges`` names edge types, all by default. A node has its type, id
        and a caption: the first String property of `name`, `title` and `label` that has a value, else the
        id. ``properties``, by node or edge type, names what else is shown; texts are cut at 1,024 characters.
        A page has ``limit`` (100, at most 1,000) edges in the order of (edge type, out before in, id);
        ``next`` of the document, if there are more, is ``after`` for the next page, at the same
        ``graph_commit_id``. ``counts`` has the number of all edges by type and direction; an edge from the
        node to itself counts once, as going out.
        """
        with within(timeout, cancel):
            moment = asked_moment(as_of, target_of(**target))
            wanted = self._access.reading(**target)
            shown = drawings.ShownParts(
                edges=edges, properties=properties, limit=limit, as_of=moment
            )
            with reading_of(self._access, wanted):
                return drawings.neighbors(self._state, type, id, direction, after, shown, wanted)

    def subgraph(
        self,
        nodes: Iterable[Any] | None = None,
        query: str | Path | None = None,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        edges: Iterable[str] | None = None,
        properties: Mapping[str, Iterable[str]] | None = None,
        limit: int | None = None,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> dict[str, Any]:
        """Return nodes and the edges that have both ends among them, as a document.

        ``nodes`` are (type, id), at most 5,000; those that are not there are ``missing``. Or they are
        the picture of a read ``query``: what its named variables stand for, whatever it returns; the
        first 5,000 in the order of its rows, and ``total_nodes`` counts those of 100,000 rows. ``edges`` and
        ``properties`` are as for ``neighbors``. There are at most ``limit`` (20,000) edges; if something was
        left out, ``truncated`` is true.
        """
        with within(timeout, cancel):
            moment = asked_moment(as_of, target_of(**target))
            wanted = self._access.reading(**target)
            shown = drawings.ShownParts(
                edges=edges, properties=properties, limit=limit, as_of=moment
            )
            with reading_of(self._access, wanted):
                return drawings.subgraph(self._state, nodes, query, (name, params), shown, wanted)

    def catalog_document(self) -> dict[str, Any]:
        """Return the types of the accepted schema with all their properties, as plain data.

        ``schema_hash`` in it changes with the schema.
        """
        from omnigraph.lang.schema.catalog_document import catalog_document

        self._state.ensure_open()
        self._access.ask(Action.READ)
        accepted = self._state.schemas.of(MAIN)
        return catalog_document(accepted.catalog, accepted.ir_hash)

    def nodes(
        self, type: str, columns: Iterable[str] | None = None, **target: Unpack[TargetKeywords]
    ) -> EntityStream:
        """Return all nodes of a type as an Arrow stream that is read when it is asked for rows.

        Its columns are ``id`` and the properties, Blobs left out, or those that ``columns`` names.
        """
        wanted = self._access.reading(**target)
        with reading_of(self._access, wanted):
            return entities.node_stream(self._state, type, columns, wanted)

    def edges(
        self,
        type: str,
        columns: Iterable[str] | None = None,
        from_col: str = "from",
        to_col: str = "to",
        **target: Unpack[TargetKeywords],
    ) -> EntityStream:
        """Return all edges of a type as ``nodes`` does; two columns hold the ids of their ends."""
        wanted = self._access.reading(**target)
        with reading_of(self._access, wanted):
            return entities.edge_stream(self._state, type, columns, (from_col, to_col), wanted)

    def to_networkx(
        self,
        types: Iterable[str] | None = None,
        *,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        as_of: AsOf = None,
        **target: Unpack[TargetKeywords],
    ) -> nx.MultiDiGraph[Any]:
        """Return nodes and edges as a directed multigraph of networkx.

        A node is ``(type, id)``, the key of an edge ``(type, id)``; properties are attributes, those
        without a value, vectors and Blobs left out. ``types`` names node and edge types, all by
        default; an edge type brings the types of its ends.
        """
        with within(timeout, cancel):
            moment = asked_moment(as_of, target_of(**target))
            wanted = self._access.reading(**target)
            with reading_of(self._access, wanted):
                return entities.networkx_graph(self._state, check_types(types), wanted, moment)

    def diff(
        self,
        from_: TargetLike,
        to: TargetLike,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        images: bool = True,
        engine: EngineName = "auto",
        *,
        short: bool = False,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
    ) -> DiffResult:
        """Return what changed, net, from one state of the graph to another, on whichever branches.

        A side is what ``at`` may be: a text that names a state, a target of ``og.at``, a snapshot, a commit
        or a time. ``kinds``,
        ``types`` and ``ops`` choose what is shown; without ``images``, no values are, and with ``short`` vectors and blobs by their
        sizes: ``{"$vector": 3}``, ``{"$blob": {"size": 5}}``, with ``"same": "before"`` where they did not change.
        With ``engine="spark"`` executors compare what must be read as a whole; ``auto`` does so for large
        tables if a session is running or a master is configured. ``timeout`` holds for this call, and
        anew whenever the result is read.
        """
        from omnigraph.changes.change_filter import ChangeFilter

        self._state.ensure_open()
        with within(timeout, cancel):
            before = self._access.ask_read(Target.of_value(from_))
            after = self._access.ask_read(Target.of_value(to))
            return exports_and_diffs.diff(
                self._state,
                before,
                after,
                ChangeFilter.of(kinds, types, ops),
                images=check_flag("images", images),
                short=check_flag("short", short),
                engine=engine,
                token=lambda: token_of(timeout, cancel),
            )

    @overload
    def load(
        self, source: SourceLike | Iterable[SourceLike], **options: Unpack[CommitKeywords]
    ) -> CommittedLoad: ...
    @overload
    def load(
        self, source: SourceLike | Iterable[SourceLike], **options: Unpack[LoadKeywords]
    ) -> LoadResult: ...
    def load(
        self, source: SourceLike | Iterable[SourceLike], **options: Unpack[LoadKeywords]
    ) -> LoadResult:
        """Load records as one commit, or change nothing.

        ``source`` is a path, glob, directory or address of JSON lines, a list of them, bytes of JSON
        lines, or records as dicts. ``mode`` is merge (the default), patch, append or overwrite;
        ``branch`` is written to, and made from ``from_branch`` if it is missing. ``on_bad="skip"``
        leaves bad records out, ``rejects`` names a file for them, ``first_bad`` is how many of them are
        listed (20), and ``check=True`` judges all records and writes nothing. ``if_commit`` refuses unless the branch is at that commit; ``operation_id``
        is an id under which the load can be sent again, and ``message`` says what it is for. The other
        options are ``actor``, ``retries``, ``embed``, ``progress``, ``engine``, ``spark``,
        ``spark_master`` and ``spark_conf``.
        """
        return writes.load_gathered(self._access, lambda inputs: inputs.json(source), **options)

    @overload
    def load_nodes(
        self, type: str, frame: Any, **options: Unpack[FrameCommitKeywords]
    ) -> CommittedLoad: ...
    @overload
    def load_nodes(self, type: str, frame: Any, **options: Unpack[FrameKeywords]) -> LoadResult: ...
    def load_nodes(self, type: str, frame: Any, **options: Unpack[FrameKeywords]) -> LoadResult:
        """Load a frame of one node type: Arrow, pandas, polars, Spark; Parquet, CSV, Arrow files.

        Plain rows are taken too: dicts, in a list or one by one, and files of JSON lines with such rows.
        The options are those of ``load``, and those of ``FrameOptions``: ``columns`` to rename columns,
        ``ignore_extra``, and for CSV files ``delimiter``, ``header``, ``names``, ``null``, ``encoding``.
        """
        return writes.load_frame(
            self._access, lambda inputs, shape: inputs.nodes(type, frame, shape), **options
        )

    @overload
    def load_edges(
        self,
        type: str,
        frame: Any,
        from_col: EndColumns = "from",
        to_col: EndColumns = "to",
        **options: Unpack[FrameCommitKeywords],
    ) -> CommittedLoad: ...
    @overload
    def load_edges(
        self,
        type: str,
        frame: Any,
        from_col: EndColumns = "from",
        to_col: EndColumns = "to",
        **options: Unpack[FrameKeywords],
    ) -> LoadResult: ...
    def load_edges(
        self,
        type: str,
        frame: Any,
        from_col: EndColumns = "from",
        to_col: EndColumns = "to",
        **options: Unpack[FrameKeywords],
    ) -> LoadResult:
        """Load a frame of one edge type; the two columns hold the ids of its ends.

        Where the key of a node has several members, an end may be named by their columns: a list, or
        better a dict from each member to its column. The options are those of ``load_nodes``.
        """
        return writes.load_frame(
            self._access,
            lambda inputs, shape: inputs.edges(type, frame, from_col, to_col, shape),
            **options,
        )

    def may_load(self, branch: str | None = None, from_: str | None = None) -> None:
        """Ask what ``load`` would ask first, and raise ``PolicyDenied`` where it would.

        ``from_`` is its ``from_branch``. A server asks before it takes in the records.
        """
        self._state.ensure_open()
        named = MAIN if branch is None else branch
        options = check_load_options({"branch": named, "from_branch": from_})
        writes.ask_load(self._access, options)

    def may_write(self, branch: str | None = None) -> None:
        """Ask what ``mutate`` and ``blobs.write`` would ask first, and raise ``PolicyDenied`` as they would."""
        self._state.ensure_open()
        self._access.ask(Action.CHANGE, trim_written_branch(MAIN if branch is None else branch))

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int | None = None,
        operation_id: str | None = None,
        *,
        message: str | None = None,
        group: bool = True,
    ) -> MutationResult:
        """Run a mutation as one commit, or change nothing.

        ``source``, ``name`` and ``params`` are those of ``query``. ``if_commit``: refuse unless the branch is at that commit. ``retries``: how often a lost
        race is run again; None means until the waiting time for locks is used up, 0 means never.
        ``operation_id``: a ULID of the caller's choice by which the commit can be found. Sent again
        under the same id, the mutation has no effect, and the answer is the first one, ``replayed``.
        ``message``: what the commit is for, in at most 4 KiB; the log shows it. Every call that commits
        takes one. ``group=False``: make a commit of its own, also where the graph was opened with
        ``group_commit``; so does a call with ``if_commit`` or ``retries``.
        """
        return writes.mutate(
            self._access.acting(actor),
            source,
            name,
            params,
            branch=branch,
            if_commit=if_commit,
            retries=retries,
            operation_id=operation_id,
            message=message,
            group=group,
        )

    def embed(
        self,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        limit: int | None = None,
        actor: str | None = None,
        *,
        if_commit: str | None = None,
        progress: Callable[[int, int], object] | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> EmbedResult:
        """Fill the vectors of `@embed` properties that are null although their text is there.

        Every 1,000 rows are a commit, so a job that is stopped goes on where it was. ``types`` names
        node types, all by default; ``limit`` fills at most that many vectors. ``progress`` is called
        with the vectors filled and failed so far. ``if_commit``: refuse unless the branch is at that
        commit when the job begins. ``operation_id`` and ``message`` as for
        ``mutate``; a job that was stopped goes on under its id.
        """
        acting = self._access.acting(actor)
        return writes.embed(
            acting,
            branch,
            types,
            limit,
            progress,
            if_commit=if_commit,
            operation_id=operation_id,
            message=message,
        )

    def export(
        self,
        out: Out,
        *,
        types: Iterable[str] | None = None,
        format: ExportFormat | None = None,
        engine: EngineName = "auto",
        progress: Callable[[int, int], object] | None = None,
        timeout: Timeout = None,
        cancel: Cancel | None = None,
        **target: Unpack[TargetKeywords],
    ) -> ExportResult:
        """Write every node and edge of one snapshot as JSON lines, which ``load`` takes back.

        ``out`` is the path of a file or an `s3://` address, where it appears when it is complete, or a
        file that is open for writing bytes or text. ``types`` names node and edge types, all by default.
        A file called `.csv`, `.parquet` or `.arrow` holds the columns of one type; a directory, with
        ``format``, gets such a file for each, which ``load_nodes`` and ``load_edges`` take back.
        ``progress`` is called with the records written so far and those there are in all.
        """
        names, told = check_types(types), check_progress(progress)
        with within(timeout, cancel):
            return exports_and_diffs.export(
                self._access, out, target_of(**target), names, engine, told, format=format
            )

    def status(self) -> Status:
        """Return how the graph stands: branches, head, the tables of `main`, and what they need."""
        return status_shown_at(self, self._state.workspace.root.canonical)


def access_of(session: Session) -> Access:
    """Return the internals of a session and who asks, for other modules of the package."""
    return session._access  # noqa: SLF001


def status_shown_at(session: Session, uri: str) -> Status:
    """Return the status of a graph that the caller knows by another address than its storage."""
    from omnigraph.maintenance.status import graph_status

    state = session._state  # noqa: SLF001
    state.ensure_open()
    access_of(session).ask(Action.READ)
    return graph_status(state.workspace, lambda at: state.schemas.at(at).catalog, uri)
