"""`Graph`: one open graph, and what can be asked of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from omnigraph.errors import BadRequest
from omnigraph.graph import reads
from omnigraph.graph.arguments import checked_load, checked_retries
from omnigraph.graph.checks import check_format, check_place, verify_mirrors
from omnigraph.graph.facets import Branches, Commits, Schema
from omnigraph.graph.plan_cache import Plans
from omnigraph.lang.query.params import bind, named_or_given
from omnigraph.language import read_source
from omnigraph.manifest import commits
from omnigraph.manifest.actors import checked_actor
from omnigraph.manifest.branch_names import MAIN, trimmed
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.migrations import stamp_of
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.manifest.workspace import Workspace
from omnigraph.storage.locks.locks import LockManager
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.uris import Root

# What only writes need is imported by them: a process that asks one question loads none of it.
if TYPE_CHECKING:
    from omnigraph.embeddings.provider import Embedder
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.load_options import EngineName, LoadKeywords, LoadOptions
    from omnigraph.pipeline.request import LoadResult
    from omnigraph.pipeline.sources.sources import SourceLike
    from omnigraph.read.explain import Explanation
    from omnigraph.read.output.query_result import QueryResult
    from omnigraph.read.profile import Profiled
    from omnigraph.read.view.view import Reader
    from omnigraph.write.ensure_indices import IndexReport
    from omnigraph.write.mutate import MutationResult

Mode = Literal["rw", "r"]


class Graph:
    """One open graph. Every call sees the newest published state unless told otherwise."""

    def __init__(
        self,
        root: Root,
        mode: Mode,
        actor: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.root = root
        self.mode = mode
        self.actor = checked_actor(actor)
        self.embedder = embedder
        self.store = ObjectStore.open(root)
        self.locks = LockManager(root)
        self.manifest = Manifest(root, self.store)
        self.workspace = Workspace(root, self.store, self.locks, self.manifest)
        self.branches = Branches(self)
        self.commits = Commits(self)
        self.schema = Schema(self)
        self.plans = Plans()
        self._reader: Reader | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def reader(self) -> Reader:
        """What reads share: tables opened at a snapshot, and what was read of them."""
        from omnigraph.read.view.view import Reader

        with self._lock:
            if self._reader is None:
                self._reader = Reader(self.workspace)
            return self._reader

    @property
    def uri(self) -> str:
        """Where the graph is, in its one spelling."""
        return self.root.canonical

    @property
    def internal_schema_version(self) -> int:
        """The version of the on-disk format, as the manifest is stamped with it."""
        self.ensure_open()
        return stamp_of(self.manifest.state(MAIN).table)

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
        return f"<omnigraph.Graph {self.uri} ({self.mode}{', closed' if self._closed else ''})>"

    def close(self) -> None:
        """Drop what the handle remembers; further calls are refused."""
        self._closed = True
        self.manifest.forget()
        with self._lock:
            if self._reader is not None:
                self._reader.forget()

    def refresh(self) -> None:
        """Check the graph again and finish what dead writers left; reads are fresh without this."""
        from omnigraph.commit.heal import heal

        self.check()
        if self.mode == "rw":
            heal(self.workspace)
            self.verify_mirrors()

    def check(self) -> None:
        """Refuse a graph that moved or is newer; raise an older one to the current format."""
        self.ensure_open()
        check_place(self.workspace)
        if self.mode == "rw":
            check_format(self.workspace)

    def verify_mirrors(self) -> None:
        """Rewrite stale files that mirror the schema; refuse edited ones."""
        verify_mirrors(self.workspace, self.schema.row())

    def ensure_open(self) -> None:
        """Refuse the call on a closed handle."""
        if self._closed:
            raise BadRequest("this graph handle is closed; open the graph again")

    def ensure_writable(self) -> None:
        """Refuse the call on a closed or read-only handle."""
        self.ensure_open()
        if self.mode != "rw":
            raise BadRequest('this graph handle is read-only; open the graph with mode="rw"')

    def _who(self, actor: object) -> str | None:
        """Who asks: the call's actor, else the handle's."""
        return self.actor if actor is None else checked_actor(actor)

    def snapshot(
        self,
        *,
        branch: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> Snapshot:
        """The pinned state of a branch head, a commit id, or a version of a branch."""
        self.ensure_open()
        return commits.resolve(self.manifest, Target.of(branch, snapshot, version))

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> QueryResult:
        """Run a read query on one snapshot: the head of `main`, or what the target names.

        ``source`` is query text, or a ``Path`` to a file; ``name`` chooses where it has several.
        """
        self.ensure_open()
        return reads.query(self, source, name, params, Target.of(branch, snapshot, version))

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> Explanation:
        """What ``query`` would do: the plan, the tables it reads, and how their indexes are."""
        self.ensure_open()
        target = Target.of(branch, snapshot, version)
        return reads.explain_query(self, source, name, params, target)

    def profile(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> Profiled:
        """Run ``query``, and say how many rows and milliseconds each phase took."""
        self.ensure_open()
        target = Target.of(branch, snapshot, version)
        return reads.profile_query(self, source, name, params, target)

    def load(
        self, source: SourceLike | Iterable[SourceLike], **options: Unpack[LoadKeywords]
    ) -> LoadResult:
        """Load records as one commit, or change nothing.

        ``source`` is a path, glob, directory or address of JSON lines, a list of them, bytes of JSON
        lines, or records as dicts. The options are those of ``LoadOptions``.
        """
        asked = self._load_options(options)
        with self.load_input() as inputs:
            return self._load(inputs.json(source), asked)

    def load_nodes(self, type: str, frame: Any, **options: Unpack[LoadKeywords]) -> LoadResult:
        """Load a frame of one node type: Arrow, pandas, polars, Spark; Parquet, CSV, Arrow files."""
        asked = self._load_options(options)
        with self.load_input() as inputs:
            return self._load(inputs.nodes(type, frame), asked)

    def load_edges(
        self,
        type: str,
        frame: Any,
        from_col: str = "from",
        to_col: str = "to",
        **options: Unpack[LoadKeywords],
    ) -> LoadResult:
        """Load a frame of one edge type; the two columns name the ids of its ends."""
        asked = self._load_options(options)
        with self.load_input() as inputs:
            return self._load(inputs.edges(type, frame, from_col, to_col), asked)

    def load_input(self) -> LoadInput:
        """An input to be filled inside its ``with`` block, for ``load_inputs``."""
        from omnigraph.pipeline.load_input import LoadInput

        return LoadInput(self.schema.catalog)

    def load_inputs(self, inputs: LoadInput, **options: Unpack[LoadKeywords]) -> LoadResult:
        """Load JSON lines and frames together, as one commit."""
        return self._load(inputs, self._load_options(options))

    def _load_options(self, options: LoadKeywords) -> LoadOptions:
        self.ensure_writable()
        return checked_load(options, self.actor)

    def _load(self, inputs: LoadInput, options: LoadOptions) -> LoadResult:
        from omnigraph.pipeline.load import load
        from omnigraph.pipeline.request import LoadRequest

        request = LoadRequest(inputs, options, self.embedder)
        return load(self.workspace, self.schema.pinned, request)

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int | None = None,
    ) -> MutationResult:
        """Run a mutation as one commit, or change nothing.

        ``if_commit`` refuses unless the branch is at that commit. A lost race is run again: ``retries``
        None as long as locks are waited for, a number at most so often, 0 never.
        """
        from omnigraph.write.mutate import Checked, Request, mutate

        self.ensure_writable()
        name, params = named_or_given(name, params)
        text, filename = read_source(source)
        target = trimmed(branch)

        def check() -> Checked:
            ir_hash, catalog = self.schema.pinned()
            plan = self.plans.mutation(catalog, text, name, filename)
            return Checked(catalog, ir_hash, plan, bind(plan.params, params))

        request = Request(
            check, target, self._who(actor), if_commit, checked_retries(retries), self.embedder
        )
        return mutate(self.workspace, request)

    def ensure_indices(
        self,
        branch: str = MAIN,
        actor: str | None = None,
        engine: EngineName = "auto",
    ) -> IndexReport:
        """Build every declared index that is missing on a table with rows.

        On ``engine="spark"`` executors build the parts; ``auto`` does so for large tables when a
        session is running or a master is configured.
        """
        from omnigraph.pipeline.spark.maintenance_jobs import ensure_indices_on

        self.ensure_writable()
        who, catalog = self._who(actor), self.schema.catalog
        return ensure_indices_on(engine, self.workspace, catalog, trimmed(branch), who)

    def status(self) -> dict[str, Any]:
        """Branches, head, and for each table of `main` its versions, fragments and indexes."""
        from omnigraph.graph.status import graph_status

        self.ensure_open()
        return graph_status(self.workspace)
