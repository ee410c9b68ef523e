"""The graph handle: what `init` and `open` return. Short delegations; the rules live below it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import omnigraph
from omnigraph.commit.heal import heal, sweep
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.commit.workspace import Workspace
from omnigraph.embeddings.provider import Embedder
from omnigraph.errors import (
    AlreadyInitialised,
    BadRequest,
    BranchNotFound,
    Contention,
    GraphMoved,
    OmniGraphError,
)
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.language import read_source
from omnigraph.manifest import commits, refs
from omnigraph.manifest.branch_names import MAIN, checked, trimmed
from omnigraph.manifest.create import already_initialised, create_manifest, first_tables
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.migrations import INTERNAL_SCHEMA_VERSION, migrate, refuse_newer, stamp_of
from omnigraph.manifest.rows import GraphCommit, SchemaRow, TableState
from omnigraph.manifest.schema_row import (
    first_schema,
    mirrors_agree,
    read_catalog,
    settle_mirrors,
    write_mirrors,
)
from omnigraph.manifest.snapshot import Snapshot, Target
from omnigraph.pipeline.inputs import LoadInput
from omnigraph.pipeline.load import LoadMode, LoadRequest, LoadResult, load
from omnigraph.pipeline.sources import Given
from omnigraph.storage import layout
from omnigraph.storage.handles import Table, TableRef, open_table, table_exists
from omnigraph.storage.indexes import list_indexes
from omnigraph.storage.locks import HeldLocks, LockManager
from omnigraph.storage.objects import ObjectStore
from omnigraph.storage.probe import probe_compare_and_set, probe_put_if_absent
from omnigraph.storage.uris import Root
from omnigraph.write.ensure_indices import IndexReport, ensure_indices
from omnigraph.write.mutate import MutationResult, Request, mutate

Mode = Literal["rw", "r"]
Engine = Literal["auto", "local"]


def init(
    uri: str | Path, schema: str | Path, *, actor: str | None = None, force: bool = False
) -> Graph:
    """Create a graph and open it read-write. ``schema`` is source text, or a ``Path`` to a file.

    ``force`` replaces schema files that lie at the root without a graph; it never replaces a graph.
    """
    source, filename = read_source(schema)
    compiled = compile_schema(source, filename)
    root = Root.parse(uri)
    _refuse_file(root)
    store = ObjectStore.open(root)
    _refuse_existing(root, store, force)
    _probe(store)
    locks = LockManager(root)
    with locks.acquire(locks.graph_lock()):
        _refuse_existing(root, store, force)
        row, ir = first_schema(source, compiled)
        catalog = Catalog.of(ir)
        create_manifest(root, row, first_tables(catalog))
        write_mirrors(store, row)
    return open(uri, actor=actor)


def _probe(store: ObjectStore) -> None:
    """Prove that the store keeps the promises commits and locks are built on."""
    probe_put_if_absent(store)
    probe_compare_and_set(store)


def _refuse_file(root: Root) -> None:
    if not root.is_local:
        return
    path = Path(root.path)
    there = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
    if not there.is_dir():
        raise BadRequest(
            f"{there} is no directory, so no graph can be made at {root}; choose another root"
        )


def _refuse_existing(root: Root, store: ObjectStore, force: bool) -> None:
    ref = TableRef(root.child(layout.MANIFEST), storage_options=root.lance_options())
    if table_exists(ref):
        raise already_initialised(root)
    strays = [name for name in layout.SCHEMA_MIRRORS if store.exists(name)]
    if strays and not force:
        raise AlreadyInitialised(
            f"there is no graph at {root.canonical}, but {', '.join(strays)} already; remove what "
            "is left there, or replace it with force",
            root=root.canonical,
            files=strays,
        )


def open(
    uri: str | Path,
    mode: Mode = "rw",
    actor: str | None = None,
    policy: object = None,
    embedder: Embedder | None = None,
) -> Graph:
    """Open a graph. ``"rw"`` checks and repairs what it must; ``"r"`` never writes anything."""
    if mode not in ("rw", "r"):
        raise BadRequest(f'mode is {mode!r}; give "rw" or "r"')
    graph = Graph(Root.parse(uri), mode, actor, policy, embedder)
    graph.check()
    if mode == "rw":
        sweep(graph.space)
        graph.verify_mirrors()
    return graph


def at(
    branch: str | None = None, snapshot: str | None = None, version: int | None = None
) -> Target:
    """A read target: a branch head, a commit id, or a version of a branch."""
    return Target.of(branch, snapshot, version)


class Graph:
    """One open graph. Every call sees the newest published state unless told otherwise."""

    def __init__(
        self,
        root: Root,
        mode: Mode,
        actor: str | None = None,
        policy: object = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.root = root
        self.mode = mode
        self.actor = actor
        self.policy = policy
        self.embedder = embedder
        self.store = ObjectStore.open(root)
        self.locks = LockManager(root)
        self.manifest = Manifest(root, self.store)
        self.space = Workspace(root, self.store, self.locks, self.manifest)
        self.branches = Branches(self)
        self.commits = Commits(self)
        self.schema = Schema(self)
        self._closed = False

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

    def refresh(self) -> None:
        """Check the graph again and finish what dead writers left; reads are fresh without this."""
        self.check()
        if self.mode == "rw":
            heal(self.space)
            self.verify_mirrors()

    def check(self) -> None:
        """Refuse a graph that moved or is newer; raise an older one to the current format."""
        self.ensure_open()
        state = self.manifest.state(MAIN)
        self._check_place(state.head.root)
        if self.mode == "rw":
            refuse_newer(state.table)
            if state.head.product != omnigraph.__version__:
                _probe(self.store)
            self._migrate()

    def verify_mirrors(self) -> None:
        """Rewrite stale files that mirror the schema; refuse edited ones.

        Whoever applies a schema holds the graph lock until the files are written.
        """
        if mirrors_agree(self.store, self.schema.row()):
            return
        held = self.locks.try_acquire(self.locks.graph_lock())
        if held is not None:
            with held:
                settle_mirrors(self.store, self.schema.row())

    def _migrate(self) -> None:
        """Raise every branch of the manifest to the current internal version; refuse a newer one."""
        tables = self._manifest_tables()
        for table in tables:
            refuse_newer(table)
        if all(stamp_of(table) == INTERNAL_SCHEMA_VERSION for table in tables):
            return
        with self.locks.acquire(self.locks.graph_lock()):
            for table in self._manifest_tables():
                migrate(table)

    def _manifest_tables(self) -> list[Table]:
        """The manifest on every branch; one that is deleted meanwhile is left out."""
        tables = []
        for branch in self.branches.list():
            with contextlib.suppress(BranchNotFound):
                tables.append(self.manifest.state(branch).table)
        return tables

    def _check_place(self, recorded: str) -> None:
        """Lance branches hold absolute paths: a graph with branches must lie where it was made."""
        if recorded != self.uri and self.manifest.branches():
            raise GraphMoved(
                f"the graph at {self.uri} has branches and was made at {recorded}; move it back, or "
                "copy it by export and load",
                recorded=recorded,
                actual=self.uri,
            )

    def ensure_open(self) -> None:
        """Refuse the call on a closed handle."""
        if self._closed:
            raise BadRequest("this graph handle is closed; open the graph again")

    def ensure_writable(self) -> None:
        """Refuse the call on a closed or read-only handle."""
        self.ensure_open()
        if self.mode != "rw":
            raise BadRequest('this graph handle is read-only; open the graph with mode="rw"')

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

    def load(
        self,
        source: Given | Iterable[Given],
        mode: LoadMode = "merge",
        branch: str = MAIN,
        from_branch: str | None = None,
        engine: Engine = "auto",
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int = 0,
        rejects: str | Path | None = None,
    ) -> LoadResult:
        """Load records as one commit, or change nothing.

        ``source`` is a path, glob, directory or address of JSON lines, a list of them, bytes of JSON
        lines, or records as dicts. ``from_branch`` makes a missing ``branch`` first. ``rejects`` names
        a file that gets every bad record.
        """
        options = (mode, branch, from_branch, engine, actor, if_commit, retries, rejects)
        return self.load_inputs(lambda inputs: inputs.json(source), *options)

    def load_nodes(
        self,
        type: str,
        frame: Any,
        mode: LoadMode = "merge",
        branch: str = MAIN,
        from_branch: str | None = None,
        engine: Engine = "auto",
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int = 0,
        rejects: str | Path | None = None,
    ) -> LoadResult:
        """Load a frame of one node type: Arrow, pandas, polars, or Parquet, CSV and Arrow files."""
        options = (mode, branch, from_branch, engine, actor, if_commit, retries, rejects)
        return self.load_inputs(lambda inputs: inputs.nodes(type, frame), *options)

    def load_edges(
        self,
        type: str,
        frame: Any,
        from_col: str = "from",
        to_col: str = "to",
        mode: LoadMode = "merge",
        branch: str = MAIN,
        from_branch: str | None = None,
        engine: Engine = "auto",
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int = 0,
        rejects: str | Path | None = None,
    ) -> LoadResult:
        """Load a frame of one edge type; the two columns name the ids of its ends."""
        options = (mode, branch, from_branch, engine, actor, if_commit, retries, rejects)
        return self.load_inputs(
            lambda inputs: inputs.edges(type, frame, from_col, to_col), *options
        )

    def load_inputs(
        self,
        gather: Callable[[LoadInput], object],
        mode: LoadMode = "merge",
        branch: str = MAIN,
        from_branch: str | None = None,
        engine: Engine = "auto",
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int = 0,
        rejects: str | Path | None = None,
    ) -> LoadResult:
        """Load JSON lines and frames together: ``gather`` adds what there is to a ``LoadInput``."""
        self.ensure_writable()
        if engine not in ("auto", "local"):
            raise BadRequest(f'engine is {engine!r}; give "auto" or "local"')
        with tempfile.TemporaryDirectory(prefix="omnigraph-") as spool:
            inputs = LoadInput(Path(spool))
            gather(inputs)
            request = LoadRequest(
                inputs,
                mode,
                trimmed(branch),
                actor if actor is not None else self.actor,
                if_commit,
                retries,
                None if rejects is None else Path(rejects),
                self.embedder,
            )
            return self._load(request, from_branch)

    def _load(self, request: LoadRequest, from_branch: str | None) -> LoadResult:
        heal(self.space)
        created = from_branch is not None and request.branch not in self.branches.list()
        if created and from_branch is not None:
            self.branches.create(request.branch, from_branch)
        try:
            result = load(self.space, self.schema.catalog, request)
        except BaseException:
            if created:
                # A refused load leaves the branch list as it was.
                with contextlib.suppress(OmniGraphError):
                    self.branches.delete(request.branch)
            raise
        return replace(result, base_branch=from_branch, branch_created=created)

    def mutate(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
        retries: int = 0,
    ) -> MutationResult:
        """Run a mutation as one commit, or change nothing.

        ``if_commit`` refuses unless the branch is at that commit; ``retries`` tries a lost race again.
        """
        self.ensure_writable()
        text, filename = read_source(source)
        target = trimmed(branch)
        heal(self.space)
        catalog = self.schema.catalog
        plan = compile_query(catalog, text, name, "mutation", filename)
        assert isinstance(plan, MutationPlan)
        request = Request(
            plan,
            bind(plan.params, params),
            target,
            actor if actor is not None else self.actor,
            if_commit,
            retries,
            self.embedder,
        )
        return mutate(self.space, catalog, request)

    def ensure_indices(self, branch: str = MAIN, actor: str | None = None) -> IndexReport:
        """Build every declared index that is missing on a table with rows."""
        self.ensure_writable()
        who = actor if actor is not None else self.actor
        return ensure_indices(self.space, self.schema.catalog, trimmed(branch), who)

    def status(self) -> dict[str, Any]:
        """Branches, head, and for each table of `main` its versions, fragments and indexes."""
        self.ensure_open()
        state = self.manifest.state(MAIN)
        return {
            "uri": self.uri,
            "graph_id": state.head.graph_id,
            "omnigraph": omnigraph.__version__,
            "internal_schema_version": stamp_of(state.table),
            "branches": self.branches.list(),
            "head": state.head.commit.to_json(),
            "manifest": {
                "version": state.table.version,
                "fragments": len(state.table.fragments()),
            },
            "pending_recoveries": len(self.store.list(layout.RECOVERY_DIR)),
            "tables": [self._table_status(pinned) for pinned in state.head.tables.values()],
        }

    def _table_status(self, pinned: TableState) -> dict[str, Any]:
        table = open_table(self.space.pinned(pinned))
        return {
            **pinned.to_json(),
            "head_version": table.head_version(),
            "versions": len(table.versions()),
            "fragments": len(table.fragments()),
            "indexes": [
                {"column": index.column, "kind": index.kind, "coverage": index.coverage}
                for index in list_indexes(table)
            ],
        }


class Branches:
    """`graph.branches`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def create(
        self,
        name: str,
        from_: str | Target = MAIN,
        actor: str | None = None,  # noqa: ARG002 - part of the fixed signature
    ) -> refs.BranchCreated:
        """Make a branch at the head of another one. No data is copied and no commit is made.

        ``actor`` is who asks; a branch records nobody, since it makes no commit.
        """
        self._graph.ensure_writable()
        # A dead writer of a deleted branch of that name is discarded, never left in the way.
        heal(self._graph.space)
        with self._changing(name):
            self._refuse_unsettled(checked(name))
            return refs.create_ref(self._graph.manifest, name, from_)

    def list(self) -> list[str]:
        """`main` first, then the others in code-point order."""
        self._graph.ensure_open()
        return refs.list_refs(self._graph.manifest)

    def delete(
        self,
        name: str,
        actor: str | None = None,  # noqa: ARG002 - part of the fixed signature
    ) -> None:
        """Remove a branch and its commits; not undoable."""
        with self._changing(name):
            refs.delete_ref(self._graph.manifest, name)

    def _refuse_unsettled(self, name: str) -> None:
        """A writer of a deleted branch would publish to the next branch of that name."""
        space = self._graph.space
        graph_id = space.manifest.state(MAIN).head.graph_id
        if name in self.list():
            return
        for sidecar in list_sidecars(space, graph_id):
            if sidecar.branch == name:
                raise Contention(
                    f"an operation on the earlier branch `{name}` is not settled yet; try again, or "
                    "reopen the graph read-write",
                    attempts=1,
                    operation_id=sidecar.operation_id,
                )

    def _changing(self, name: str) -> HeldLocks:
        """The graph lock; what cannot be is refused before it is taken, which writes."""
        self._graph.ensure_writable()
        checked(name)
        self._graph.manifest.state(MAIN)
        locks = self._graph.locks
        return locks.acquire(locks.graph_lock())


class Commits:
    """`graph.commits`."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def list(
        self,
        branch: str = MAIN,
        filter: str | Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """The first-parent chain, newest first. Filters are `actor=<id>` and `branch=<name>`."""
        self._graph.ensure_open()
        return commits.list_commits(self._graph.manifest, trimmed(branch), filter, limit)

    def show(self, graph_commit_id: str) -> GraphCommit:
        """One commit, whichever live branch holds it."""
        self._graph.ensure_open()
        return commits.find_commit(self._graph.manifest, graph_commit_id)


class Schema:
    """`graph.schema`: the accepted schema of the newest commit."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        self._known: tuple[str, SchemaRow, Catalog] | None = None

    def row(self) -> SchemaRow:
        """The accepted schema as the manifest keeps it."""
        return self._current()[1]

    @property
    def source(self) -> str:
        """The accepted source text."""
        return self._current()[1].source

    @property
    def catalog(self) -> Catalog:
        """The accepted types."""
        return self._current()[2]

    def _current(self) -> tuple[str, SchemaRow, Catalog]:
        self._graph.ensure_open()
        state = self._graph.manifest.state(MAIN)
        with self._lock:
            if self._known is None or self._known[0] != state.head.ir_hash:
                row = self._graph.manifest.schema(state)
                self._known = (state.head.ir_hash, row, read_catalog(row))
            return self._known
