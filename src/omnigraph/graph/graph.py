"""`Graph`: one open graph, and the calls users make on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from omnigraph.graph import loads, reads
from omnigraph.graph.arguments import (
    check_flag,
    check_limit,
    check_progress,
    check_retries,
    check_types,
)
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.checks import check_graph, verify_mirrors
from omnigraph.graph.facets import Branches, Commits, Schema, Tags
from omnigraph.graph.history import diffs, exports
from omnigraph.graph.history.changes import Changes
from omnigraph.graph.state import GraphState, Mode
from omnigraph.lang.query.params import bind, named_or_given
from omnigraph.language import read_source
from omnigraph.maintenance.upkeep.keeper import UpkeepMode
from omnigraph.manifest.actors import check_operation_id
from omnigraph.manifest.branch_names import MAIN, trim_branch_name
from omnigraph.manifest.history.resolve import resolve
from omnigraph.manifest.migrations import read_internal_version
from omnigraph.manifest.snapshot import Snapshot, Target, TargetKeywords, TargetLike
from omnigraph.storage.blob_policy import NO_POLICY, BlobPolicy
from omnigraph.storage.uris import Root

# Writes import what they need inside their methods, so that a process that only reads stays light.
if TYPE_CHECKING:
    from omnigraph.changes.change_filter import Kind
    from omnigraph.changes.diff_result import DiffResult
    from omnigraph.changes.export.export import ExportResult
    from omnigraph.changes.export.output import Out
    from omnigraph.embeddings.embedder import Embedder
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.maintenance.cleanup.report import CleanupReport
    from omnigraph.maintenance.optimize_report import OptimizeReport
    from omnigraph.maintenance.repair_report import RepairReport
    from omnigraph.maintenance.status import Status
    from omnigraph.manifest.manifest import BranchState
    from omnigraph.pipeline.frame_options import FrameKeywords
    from omnigraph.pipeline.load_options import EngineName, LoadKeywords
    from omnigraph.pipeline.request import LoadResult
    from omnigraph.pipeline.sources.sources import SourceLike
    from omnigraph.read.explain import Explanation
    from omnigraph.read.output.query_result import QueryResult
    from omnigraph.read.profile import Profiled
    from omnigraph.write.embed import EmbedResult
    from omnigraph.write.index_builds import IndexReport
    from omnigraph.write.mutate import MutationResult


class Graph:
    """One open graph. Every call sees the newest published state, unless it names another."""

    def __init__(
        self,
        root: Root,
        mode: Mode,
        actor: str | None = None,
        embedder: Embedder | None = None,
        blobs: BlobPolicy = NO_POLICY,
        upkeep: UpkeepMode = "inline",
    ) -> None:
        self._state = GraphState(root, mode, actor, embedder, blobs, upkeep)
        self.blobs = Blobs(self._state)
        self.branches = Branches(self._state)
        self.changes = Changes(self._state)
        self.commits = Commits(self._state)
        self.schema = Schema(self._state)
        self.tags = Tags(self._state)

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
        """The actor that commits record if a call names none."""
        return self._state.actor

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that turns texts into vectors, or None."""
        return self._state.embedder

    @property
    def upkeep(self) -> UpkeepMode:
        """Who waits while tables are put in shape: the writer, a thread, or nobody because it is off."""
        return self._state.keeper.mode

    @property
    def internal_schema_version(self) -> int:
        """The version of the on-disk format, as stamped on the manifest."""
        self._state.ensure_open()
        return read_internal_version(self._state.workspace.manifest.state(MAIN).table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._state.is_closed else ""
        return f"<omnigraph.Graph {self.uri} ({self.mode}{closed})>"

    def close(self) -> None:
        """Let upkeep in the background finish, drop all caches; later calls are refused."""
        self._state.close()

    def refresh(self) -> None:
        """Check the graph again and finish what dead writers left. Reads are fresh without this."""
        from omnigraph.commit.heal import heal

        self._state.ensure_open()
        check_graph(self._state.workspace, self.mode)
        if self.mode == "rw":
            heal(self._state.workspace)
            verify_mirrors(self._state.workspace, self._state.schemas.of(MAIN).row)

    def snapshot(self, **target: Unpack[TargetKeywords]) -> Snapshot:
        """Return the pinned state that a target names, the head of `main` by default.

        Every reading call takes these: ``branch``, alone or with ``version`` or ``time``;
        ``snapshot``, a commit id; ``tag``; or ``at``, a value of ``og.at``, a ``Snapshot`` or a
        commit.
        """
        self._state.ensure_open()
        return resolve(self._state.workspace.manifest, Target.of(**target))

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **target: Unpack[TargetKeywords],
    ) -> QueryResult:
        """Run a read query on one snapshot: the head of `main`, or what the target names.

        ``source`` is query text, or a ``Path`` to a file. ``name`` chooses one query if it has
        several.
        """
        self._state.ensure_open()
        return reads.query(self._state, source, name, params, Target.of(**target))

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **target: Unpack[TargetKeywords],
    ) -> Explanation:
        """Describe what ``query`` would do: the plan, the tables it reads, and their indexes."""
        self._state.ensure_open()
        return reads.explain_query(self._state, source, name, params, Target.of(**target))

    def profile(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        **target: Unpack[TargetKeywords],
    ) -> Profiled:
        """Run ``query`` and measure rows and milliseconds of each phase."""
        self._state.ensure_open()
        return reads.profile_query(self._state, source, name, params, Target.of(**target))

    def entity(
        self, kind: Kind, type: str, id: str, **target: Unpack[TargetKeywords]
    ) -> dict[str, Any] | None:
        """Return one node or edge as plain data; None if there is no such type or id at the target.

        It has ``kind``, ``type``, ``id``, ``properties`` in the values of an export, the
        ``endpoints`` of an edge, and ``graph_commit_id``, the commit that was read.
        """
        from omnigraph.graph.entities import find_entity

        self._state.ensure_open()
        return find_entity(self._state, kind, type, id, Target.of(**target))

    def diff(
        self,
        from_: TargetLike,
        to: TargetLike,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        images: bool = True,
        engine: EngineName = "auto",
    ) -> DiffResult:
        """Return what changed, net, from one state of the graph to another, on whichever branches.

        A side is the name of a branch, a target of ``og.at``, a snapshot or a commit. ``kinds``,
        ``types`` and ``ops`` choose what is shown; without ``images``, no values are.
        With ``engine="spark"`` executors compare what must be read as a whole; ``auto`` does so for large
        tables if a session is running or a master is configured.
        """
        from omnigraph.changes.change_filter import ChangeFilter

        self._state.ensure_open()
        return diffs.diff(
            self._state,
            from_,
            to,
            ChangeFilter.of(kinds, types, ops),
            images=check_flag("images", images),
            engine=engine,
        )

    def load(
        self, source: SourceLike | Iterable[SourceLike], **options: Unpack[LoadKeywords]
    ) -> LoadResult:
        """Load records as one commit, or change nothing.

        ``source`` is a path, glob, directory or address of JSON lines, a list of them, bytes of JSON
        lines, or records as dicts. The options are those of ``LoadOptions``.
        """
        asked = loads.load_options(self._state, options)
        with loads.load_input(self._state, asked.branch, asked.from_branch) as inputs:
            return loads.run_load(self._state, inputs.json(source), asked)

    def load_nodes(self, type: str, frame: Any, **options: Unpack[FrameKeywords]) -> LoadResult:
        """Load a frame of one node type: Arrow, pandas, polars, Spark; Parquet, CSV, Arrow files.

        The options are those of ``load``, and those of ``FrameOptions``: ``columns`` to rename columns,
        ``ignore_extra``, and for CSV files ``delimiter``, ``header``, ``names``, ``null``, ``encoding``.
        """
        asked, shape = loads.frame_options(self._state, options)
        with loads.load_input(self._state, asked.branch, asked.from_branch) as inputs:
            return loads.run_load(self._state, inputs.nodes(type, frame, shape), asked)

    def load_edges(
        self,
        type: str,
        frame: Any,
        from_col: str = "from",
        to_col: str = "to",
        **options: Unpack[FrameKeywords],
    ) -> LoadResult:
        """Load a frame of one edge type; the two columns hold the ids of its ends.

        The options are those of ``load_nodes``.
        """
        asked, shape = loads.frame_options(self._state, options)
        with loads.load_input(self._state, asked.branch, asked.from_branch) as inputs:
            inputs.edges(type, frame, from_col, to_col, shape)
            return loads.run_load(self._state, inputs, asked)

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
    ) -> MutationResult:
        """Run a mutation as one commit, or change nothing.

        ``if_commit``: refuse unless the branch is at that commit. ``retries``: how often a lost
        race is run again; None means until the waiting time for locks is used up, 0 means never.
        ``operation_id``: a ULID of the caller's choice by which the commit can be found.
        """
        from omnigraph.write.mutate import CheckedMutation, Request, mutate

        self._state.ensure_writable()
        name, params = named_or_given(name, params)
        text, filename = read_source(source)
        target = trim_branch_name(branch)

        def check(state: BranchState) -> CheckedMutation:
            accepted = self._state.schemas.at(state)
            plan = self._state.plans.mutation(accepted.catalog, text, name, filename)
            return CheckedMutation(
                accepted.catalog, accepted.ir_hash, plan, bind(plan.params, params)
            )

        request = Request(
            check,
            target,
            self._state.choose_actor(actor),
            if_commit,
            check_retries(retries),
            self.embedder,
            self._state.blob_policy,
            check_operation_id(operation_id),
        )
        return mutate(self._state.workspace, request)

    def embed(
        self,
        branch: str = MAIN,
        types: Iterable[str] | None = None,
        limit: int | None = None,
        actor: str | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> EmbedResult:
        """Fill the vectors of `@embed` properties that are null although their text is there.

        Every 1,000 rows are a commit, so a job that is stopped goes on where it was. ``types`` names
        node types, all by default; ``limit`` fills at most that many vectors. ``progress`` is called
        with the vectors filled and failed so far.
        """
        from omnigraph.write.embed import EmbedRequest, embed

        self._state.ensure_writable()
        target = trim_branch_name(branch)
        asked = EmbedRequest(
            target,
            check_types(types),
            check_limit(limit),
            self._state.choose_actor(actor),
            self.embedder,
            check_progress(progress),
        )

        def accepted() -> tuple[str, Catalog]:
            schema = self._state.schemas.of(target)
            return schema.ir_hash, schema.catalog

        return embed(self._state.workspace, accepted, asked)

    def export(
        self,
        out: Out,
        *,
        types: Iterable[str] | None = None,
        engine: EngineName = "auto",
        progress: Callable[[int, int], object] | None = None,
        **target: Unpack[TargetKeywords],
    ) -> ExportResult:
        """Write every node and edge of one snapshot as JSON lines, which ``load`` takes back.

        ``out`` is the path of a file, which appears when it is complete, or a file that is open for
        writing bytes or text. ``types`` names node and edge types, all by default. ``progress`` is
        called with the records written so far and those there are in all.
        """
        self._state.ensure_open()
        names, told = check_types(types), check_progress(progress)
        return exports.export(self._state, out, Target.of(**target), names, engine, told)

    def ensure_indices(
        self,
        branch: str = MAIN,
        actor: str | None = None,
        engine: EngineName = "auto",
    ) -> IndexReport:
        """Build every declared index that is missing on a table with rows, and complete the others.

        With ``engine="spark"`` executors build the parts; ``auto`` does so for large tables if a
        session is running or a master is configured.
        """
        from omnigraph.maintenance.ensure_indices import ensure_indices
        from omnigraph.maintenance.workers import Workers

        self._state.ensure_writable()
        return ensure_indices(
            self._state.workspace,
            lambda at: self._state.schemas.at(at).catalog,
            trim_branch_name(branch),
            self._state.choose_actor(actor),
            Workers(engine),
        )

    def optimize(
        self,
        branch: str = MAIN,
        engine: EngineName = "auto",
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> OptimizeReport:
        """Merge small fragments, complete indexes and build missing ones; rows and answers stay.

        On a branch only the tables that it wrote to are looked at. ``engine`` as for
        ``ensure_indices``. ``progress`` is called with how much is done and how much there is to do.
        """
        from omnigraph.maintenance.optimize import optimize
        from omnigraph.maintenance.workers import Workers

        self._state.ensure_writable()
        return optimize(
            self._state.workspace,
            lambda at: self._state.schemas.at(at).catalog,
            trim_branch_name(branch),
            Workers(engine),
            check_progress(progress) or (lambda _done, _total: None),
        )

    def cleanup(
        self,
        keep_versions: int | None = None,
        older_than: timedelta | float | None = None,
        dry_run: bool = False,
    ) -> CleanupReport:
        """Remove versions of tables that nothing needs: no branch, merge, tag or running export.

        Besides those, the newest ``keep_versions`` of each table stay, and what was current within
        ``older_than`` (a timedelta, or seconds); give at least one. With ``dry_run`` nothing goes.
        """
        from omnigraph.maintenance.cleanup.cleanup import check_policy, cleanup

        if dry_run:
            self._state.ensure_open()
        else:
            self._state.ensure_writable()
        report = cleanup(
            self._state.workspace, check_policy(keep_versions, older_than), dry_run=dry_run
        )
        if not dry_run:
            self._state.forget_reads()
        return report

    def repair(self, confirm: bool = False, force: bool = False) -> RepairReport:
        """Pin again the newest versions of tables that another program committed to.

        Without ``confirm`` nothing changes, and the rows say what was found. With it, tables on which
        only maintenance happened are repaired, and with ``force`` all others too. No row is written.
        """
        from omnigraph.maintenance.repair import check_repair, repair

        check_repair(confirm, force)
        if confirm:
            self._state.ensure_writable()
        else:
            self._state.ensure_open()
        return repair(self._state.workspace, confirm=confirm, force=force)

    def status(self) -> Status:
        """Return how the graph stands: branches, head, the tables of `main`, and what they need."""
        from omnigraph.maintenance.status import graph_status

        self._state.ensure_open()
        schemas = self._state.schemas
        return graph_status(self._state.workspace, lambda at: schemas.at(at).catalog)


def state_of(graph: Graph) -> GraphState:
    """Return the internals of a handle, for other modules of the package and for tests."""
    return graph._state  # noqa: SLF001
