"""One snapshot opened for reading, and what a graph handle keeps between reads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Final

from omnigraph import settings
from omnigraph.errors import HistoryReclaimed, NotFound, StorageError
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType
from omnigraph.manifest.history.equal_content import has_rows_of
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.workspace import Workspace
from omnigraph.read.kept.kept_files import KeptFiles
from omnigraph.read.thresholds import DEFAULTS, Thresholds
from omnigraph.read.view.byte_cache import (
    ByteCache,
    NodesKey,
    UnionKey,
    drop_outdated,
    edges_key,
    nodes_key,
)
from omnigraph.read.view.edges import EdgeList
from omnigraph.read.view.kept_states import KeptStates
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.numbering import (
    edge_list,
    edge_list_bytes,
    has_older_state,
    node_ids,
    numbered_states,
)
from omnigraph.read.view.overlay import (
    KnownCodes,
    OverlaidEdges,
    OverlaidNodes,
    edge_changes,
    is_too_much,
    node_changes,
)
from omnigraph.read.view.pinned_table import Identity, Lineage, PinnedTable, pin_table
from omnigraph.read.view.row_changes import rows_identity, same_states
from omnigraph.read.view.topology import OR, EdgeSpace, Topology, union, union_list

Types = tuple[frozenset[str], frozenset[str]]
"""The names of node types, and of edge types."""

# About what a node takes on disk, and an edge in one direction.
_NODE_BYTES: Final = 24
_EDGE_BYTES: Final = 4


class Reader:
    """What one graph handle keeps between reads: a cache bounded by bytes, and the newest views."""

    def __init__(self, workspace: Workspace, thresholds: Thresholds = DEFAULTS) -> None:
        self.workspace = workspace
        self.thresholds = thresholds
        self.cache = ByteCache(settings.CACHE_MB.get() * 2**20)
        self.kept = KeptStates(KeptFiles.of_settings(), self.cache, thresholds.view)
        # By branch and commit, both in the order of use.
        self._views: OrderedDict[str, OrderedDict[str, View]] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, snapshot: Snapshot, catalog: Catalog) -> View:
        """The snapshot opened for reading under this catalog. A commit id is unique for ever."""
        key = snapshot.graph_commit_id
        with self._lock:
            views = self._views.setdefault(snapshot.branch, OrderedDict())
            self._views.move_to_end(snapshot.branch)
            view = views.get(key)
            is_new = view is None or view.catalog is not catalog
            if view is None or view.catalog is not catalog:
                # What look-ups have cost on the last used state of the branch is carried over a commit.
                last = next((one for name, one in reversed(views.items()) if name != key), None)
                view = views[key] = View(self, snapshot, catalog)
                view.spent = 0.0 if last is None else last.spent
            views.move_to_end(key)
            view.is_past = view.is_past or any(
                one.snapshot.manifest_version > snapshot.manifest_version for one in views.values()
            )
            if is_new:
                self._drop_oldest()
                drop_outdated(self.cache, self._needed())
            return view

    def _drop_oldest(self) -> None:
        """Drop the views over the limit, beginning with the least recently used branches.

        The last one of a branch stays while there are not too many branches: where many of them are read
        in turn, each finds what it had.
        """
        limits = self.thresholds.view
        while len(self._views) > limits.branches:
            self._views.popitem(last=False)
        surplus = sum(map(len, self._views.values())) - limits.views
        for views in self._views.values():
            while surplus > 0 and len(views) > 1:
                views.popitem(last=False)
                surplus -= 1

    def _needed(self) -> Iterator[Identity]:
        """Yield the states of tables that open snapshots need.

        Those are the newest two of each branch, since a read of the last but one may be under way, and
        those that were asked for when there was a newer one already.
        """
        for kept in self._views.values():
            views = sorted(kept.values(), key=lambda one: one.snapshot.manifest_version)
            for view in [*views[-2:], *(one for one in views[:-2] if one.is_past)]:
                yield from view.needed()

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._views.clear()
        self.cache.forget()


class View:
    """One snapshot opened for reading. Tables open, and spaces are built, when they are asked for."""

    def __init__(self, reader: Reader, snapshot: Snapshot, catalog: Catalog) -> None:
        self.snapshot = snapshot
        self.catalog = catalog
        self._workspace = reader.workspace
        self._cache = reader.cache
        self._kept = reader.kept
        self.thresholds = reader.thresholds
        self._states = {
            (key.partition(":")[0], state.incarnation): state
            for key, state in snapshot.tables.items()
        }
        self._pinned: dict[str, PinnedTable] = {}
        self._bases: dict[tuple[str, Identity], PinnedTable] = {}
        self._derivable: set[str] = set()
        self._in_memory: dict[Types, int] = {}
        self._lock = threading.Lock()
        self.is_past = False
        """Whether it was asked for when a newer snapshot of its branch was open."""
        self.spent = 0.0
        """Seconds in which tables were looked up in, on this snapshot and those before it on its branch, less
        what was paid for numbering (``match.access_path``)."""
        self.look_ups = 0
        """How many matches on this snapshot were answered by look-ups, in tables or in memory."""
        self._looking_up = 0
        self._counted_until = 0.0

    @contextmanager
    def looking_up(self) -> Iterator[None]:
        """Count the time of a look-up. Simultaneous look-ups are counted once: they share the cores."""
        with self._lock:
            if not self._looking_up:
                self._counted_until = perf_counter()
            self._looking_up += 1
        try:
            yield
        finally:
            with self._lock:
                now = perf_counter()
                self.spent += now - self._counted_until
                self._counted_until = now
                self._looking_up -= 1

    def pay(self, seconds: float) -> None:
        """Spend time of look-ups on a numbering."""
        with self._lock:
            self.spent = max(0.0, self.spent - seconds)

    @property
    def cache(self) -> ByteCache:
        """What the graph handle keeps in memory."""
        return self._cache

    def table(self, entity: Entity) -> PinnedTable:
        """The table of a type as this snapshot pins it, whatever the type was called then."""
        with self._lock:
            return self._table(entity)

    def _table(self, entity: Entity) -> PinnedTable:
        pinned = self._pinned.get(entity.table_key)
        if pinned is None:
            pinned = self._pinned[entity.table_key] = self._pin(entity)
        return pinned

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn the error of a missing file into one that says which branch or version was deleted."""
        try:
            yield
        except StorageError:
            with self._lock:
                tables = list(self._pinned.values())
            for pinned in tables:
                pinned.check()
            raise

    def nodes(self, type_name: str) -> NodeSpace:
        """The nodes of a type, numbered."""
        type_ = self.catalog.nodes[type_name]
        pinned = self.table(type_)
        thresholds = self.thresholds.view
        ids = node_ids(self._cache, self._kept, pinned, thresholds)
        return NodeSpace(type_, pinned, ids, self._cache, thresholds)

    def topology(self, edge_types: str) -> Topology:
        """The stored edges of a type between numbered nodes; of several types, with ``OR`` between, as one."""
        names = edge_types.split(OR)
        parts = [self._topology(name) for name in names]
        if len(parts) == 1:
            return parts[0]
        keys = (
            edges_key(
                self.table(part.edge),
                self.table(self.catalog.nodes[part.edge.from_type]),
                self.table(self.catalog.nodes[part.edge.to_type]),
            )
            for part in parts
        )
        edges = self._cache.get(UnionKey(tuple(keys)), lambda: union_list(parts), edge_list_bytes)
        return union(parts, edges)

    def _topology(self, edge_type_name: str) -> Topology:
        edge = self.catalog.edges[edge_type_name]
        pinned = self.table(edge)
        sources = self.nodes(edge.from_type)
        targets = sources if edge.to_type == edge.from_type else self.nodes(edge.to_type)
        thresholds = self.thresholds.view
        edges = edge_list(self._cache, self._kept, pinned, sources, targets, thresholds)
        ends = None if edges.complete else (sources.pinned.identity, targets.pinned.identity)
        space = EdgeSpace(pinned, edges, (pinned.identity, ends), self._cache, thresholds)
        return Topology(edge, sources, targets, edges, space)

    def has_nodes(self, type_name: str) -> bool:
        """Whether the nodes of a type are numbered already."""
        pinned = self.table(self.catalog.nodes[type_name])
        return self._cache.peek(nodes_key(pinned)) is not None

    def has_topology(self, edge_type_name: str) -> bool:
        """Whether the topology of an edge type is there already."""
        edge = self.catalog.edges[edge_type_name]
        ends = (self.table(self.catalog.nodes[name]) for name in (edge.from_type, edge.to_type))
        return self._cache.peek(edges_key(self.table(edge), *ends)) is not None

    def found_in_memory(self, types: Types) -> None:
        """Remember that these types are numbered and loaded."""
        self._in_memory[types] = self._cache.dropped

    def is_in_memory(self, types: Types) -> bool:
        """Whether that was found of these types, and nothing was dropped since."""
        return self._in_memory.get(types) == self._cache.dropped

    def unloaded_bytes(self, entity: Entity) -> int | None:
        """About the bytes of a numbered table that its first use loads from disk; None when it is not numbered."""
        if isinstance(entity, NodeType):
            ids: NodeIds | None = self._cache.peek(nodes_key(self.table(entity)))
            if ids is None:
                return None
            return 0 if ids.is_loaded else _NODE_BYTES * ids.size
        ends = (self.table(self.catalog.nodes[name]) for name in (entity.from_type, entity.to_type))
        edges: EdgeList | None = self._cache.peek(edges_key(self.table(entity), *ends))
        if edges is None:
            return None
        return 0 if edges.is_loaded else _EDGE_BYTES * edges.size

    def has_older_state(self, entity: Entity) -> bool:
        """Whether the cache holds an older state from which this one can be derived."""
        if entity.table_key not in self._derivable:
            if not has_older_state(self._cache, self.table(entity), self.thresholds.view):
                return False
            self._derivable.add(entity.table_key)
        return True

    def overlaid_nodes(
        self, type_name: str, codes: Mapping[Identity, KnownCodes]
    ) -> OverlaidNodes | None:
        """The nodes of a type as a numbered state and what changed since, if the cache holds that.

        ``codes`` are what a match knows of numbered states; it creates what is missing.
        """
        type_ = self.catalog.nodes[type_name]
        pinned, thresholds = self.table(type_), self.thresholds.view
        changes = node_changes(self._cache, pinned, thresholds)
        if changes is None:
            return None
        ids: NodeIds | None = self._cache.use(NodesKey(changes.base))
        if ids is None:
            return None
        base = NodeSpace(type_, self._base(pinned, changes.base), ids, self._cache, thresholds)
        is_due = is_too_much(changes, pinned, thresholds)
        return OverlaidNodes(pinned, changes, base, codes[changes.base], is_due=is_due)

    def overlaid_edges(
        self, edge_type_name: str, codes: Mapping[Identity, KnownCodes]
    ) -> OverlaidEdges | None:
        """The edges of a type as a numbered state and what changed since, if the cache holds that."""
        pinned = self.table(self.catalog.edges[edge_type_name])
        changes = edge_changes(self._cache, pinned, self.thresholds.view)
        if changes is None:
            return None
        base = changes.base
        edges: EdgeList | None = self._cache.use(base)
        sources: NodeIds | None = self._cache.use(NodesKey(base.sources))
        targets: NodeIds | None = self._cache.use(NodesKey(base.targets))
        if edges is None or sources is None or targets is None:
            return None
        known = codes[base.sources], codes[base.targets]
        is_due = is_too_much(changes, pinned, self.thresholds.view)
        return OverlaidEdges(changes, edges, (sources, targets), known, is_due=is_due)

    def needed(self) -> Iterator[Identity]:
        """Yield the states of tables that reads of this snapshot use."""
        for state in self.snapshot.tables.values():
            branch, identifier = state.table_branch, state.table_branch_id
            lineage = Lineage(self.snapshot.graph_id, state.location, branch, identifier)
            yield from same_states(self._cache, Identity(lineage, state.table_version))
        # Without the lock, which is held while a table is opened. One that is pinned meanwhile is named above.
        for one in tuple(self._pinned.values()):
            yield from (one.exact, one.identity)

    def _base(self, pinned: PinnedTable, state: Identity) -> PinnedTable:
        """The table at the numbered state that look-ups start from; mostly it need not be opened."""
        key = pinned.entity.table_key, state
        base = self._bases.get(key)
        if base is None:
            base = self._bases[key] = pinned.at(state)
        return base

    def _pin(self, entity: Entity) -> PinnedTable:
        kind = "node" if isinstance(entity, NodeType) else "edge"
        states = (self._states.get((kind, number)) for number in entity.incarnations)
        state = next((one for one in states if one is not None), None)
        if state is None:
            raise NotFound(
                f"there was no {kind} type `{entity.name}` in snapshot "
                f"{self.snapshot.graph_commit_id} yet; read a newer one, or leave the type out",
                type=entity.name,
                snapshot=self.snapshot.graph_commit_id,
            )
        pinned = pin_table(self._workspace, self.snapshot, entity, state)
        self._offer_kept(pinned)
        pinned.identity = rows_identity(
            self._cache,
            pinned,
            lambda: numbered_states(self._cache),
            lambda version: self._has_rows_of(state, version),
            self.thresholds.view.derived_versions,
        )
        return pinned

    def _offer_kept(self, pinned: PinnedTable) -> None:
        """Put what other processes kept of a table into the cache."""
        if isinstance(pinned.entity, NodeType):
            self._kept.offer_nodes(pinned)
            return
        # Without its nodes the edges cannot be read either, and reading them will say so.
        with suppress(NotFound):
            ends = (pinned.entity.from_type, pinned.entity.to_type)
            nodes = (self._table(self.catalog.nodes[name]) for name in ends)
            self._kept.offer_edges(pinned, *nodes)

    def _has_rows_of(self, state: TableState, version: int) -> bool:
        """Whether only commits that change no row came after that version of a table."""
        try:
            return has_rows_of(self._workspace.manifest, self.snapshot, state, version)
        except (StorageError, NotFound, HistoryReclaimed):
            # The branch, or the past of the manifest, is gone.
            return False
