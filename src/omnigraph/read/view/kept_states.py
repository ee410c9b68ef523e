"""Finding the kept states that a reader may start from, and keeping the ones it numbered.

What is found is put into the reader's cache as it was kept, even if it is of an older version. Bringing it up
to date is left to the reader, as for states that this process numbered itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple

from omnigraph.errors import HistoryReclaimed, StorageError
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.read.kept.kept_file import Facts, KeptFile, Untrusted, sizes_of
from omnigraph.read.kept.kept_files import KeptFiles, KeptName
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import ByteCache, EdgesKey, NodesKey
from omnigraph.read.view.edges import ENDS, EdgeList
from omnigraph.read.view.ends import Ends, write_ends
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.state_files import (
    NODES,
    Disk,
    EdgeFiles,
    State,
    ends_sizes,
    folder_of,
    is_of_edges,
    is_of_nodes,
    key_of,
    lineage_digest,
    main_of,
    name_of,
    node_arrays,
    node_ids,
    read_states,
    whole_node_ids,
)
from omnigraph.storage.tables.transactions import content_fingerprint

# This many kept states of a table are looked at.
_TRIED: Final = 4


class _NumberedNodes(NamedTuple):
    """Nodes of a kept state, which are not loaded yet."""

    pinned: PinnedTable
    ids: NodeIds

    def space(self, cache: ByteCache, thresholds: ViewThresholds) -> NodeSpace:
        """These nodes as a space, read when they are first used."""
        type_ = self.pinned.entity
        assert isinstance(type_, NodeType)
        return NodeSpace(type_, self.pinned, self.ids, cache, thresholds)


class KeptStates:
    """The states on disk, for the tables of one reader."""

    def __init__(self, files: KeptFiles, cache: ByteCache, thresholds: ViewThresholds) -> None:
        self._disk = Disk(files, cache, thresholds)
        self._files = files
        self._cache = cache
        self._thresholds = thresholds

    # -- finding

    def offer_nodes(self, pinned: PinnedTable) -> None:
        """Put the newest kept state that a node table may start from into the cache."""
        if self._is_known(pinned, NodesKey):
            return
        for name in self._names(pinned, NODES):
            file = self._files.open(folder_of(pinned.exact.lineage), name)
            states = [] if file is None else read_states(file.key, NODES)
            if file is not None and len(states) == 1 and self._offer(pinned, states[0], name, file):
                return

    def offer_edges(self, pinned: PinnedTable, sources: PinnedTable, targets: PinnedTable) -> None:
        """Put the newest kept state that an edge table may start from into the cache, with its nodes."""
        if self._is_known(pinned, EdgesKey):
            return
        for name in self._names(pinned, ENDS):
            file = self._files.open(folder_of(pinned.exact.lineage), name)
            states = [] if file is None else read_states(file.key, ENDS)
            if file is None or len(states) != 3:
                continue
            base = self._verified(pinned, states[0], name)
            near = self._offered_ids(sources, states[1])
            far = near if states[2] == states[1] else self._offered_ids(targets, states[2])
            if base is None or near is None or far is None:
                continue
            if not is_of_edges(file, (near.ids.size, far.ids.size)):
                self._files.remove(folder_of(pinned.exact.lineage), name)
                continue
            files = EdgeFiles(self._disk, base, name, file.key, file.facts, file)
            self._put_edges(base, near, far, files)
            return

    def _put_edges(
        self, base: PinnedTable, near: _NumberedNodes, far: _NumberedNodes, files: EdgeFiles
    ) -> None:
        def read() -> Ends:
            left, right = (one.space(self._cache, self._thresholds) for one in (near, far))
            return self._read_ends(base, left, right)

        files.read_again = read
        facts = files.facts
        rows, columns = facts["shape"]
        edges = EdgeList.later(facts["size"], (rows, columns), files, complete=facts["complete"])
        key = EdgesKey(base.exact, near.pinned.exact, far.pinned.exact)
        self._cache.get(key, lambda: edges, lambda kept: kept.nbytes)

    def _offered_ids(self, pinned: PinnedTable, state: State) -> _NumberedNodes | None:
        """The nodes of a kept state, in the cache from now on."""
        key = NodesKey(state.identity)
        if self._cache.peek(key) is None:
            name = name_of(state.identity, NODES, key_of(NODES, state))
            file = self._files.open(folder_of(state.identity.lineage), name)
            if file is None or not self._offer(pinned, state, name, file):
                return None
        ids: NodeIds | None = self._cache.peek(key)
        base = self._verified(pinned, state, None)
        if ids is None or base is None:
            return None
        return _NumberedNodes(base, ids)

    def _offer(self, pinned: PinnedTable, state: State, name: KeptName, file: KeptFile) -> bool:
        base = self._verified(pinned, state, name)
        if base is None:
            return False
        if not is_of_nodes(file):
            self._files.remove(folder_of(state.identity.lineage), name)
            return False

        def load() -> NodeIds:
            try:
                return node_ids(file)
            except Untrusted:
                self._files.remove(folder_of(state.identity.lineage), name)
                return NodeIds.read(base)

        ids = NodeIds.later(file.facts["size"], load)
        self._cache.get(NodesKey(state.identity), lambda: ids, lambda kept: kept.nbytes)
        return True

    def _is_known(self, pinned: PinnedTable, kind: type[NodesKey | EdgesKey]) -> bool:
        """Whether the cache holds a state of the table already, or nothing is kept at all."""
        if not self._files.max_bytes:
            return True
        here = folder_of(pinned.exact.lineage)
        keys = (key for key in self._cache.kept() if isinstance(key, kind))
        return any(folder_of(key.table.lineage) == here for key in keys)

    def _names(self, pinned: PinnedTable, part: str) -> Iterator[KeptName]:
        """The states of a part that this one may be derived from, the newest first."""
        exact = pinned.exact
        newest = {lineage_digest(exact.lineage): exact.version}
        if pinned.fork is not None and pinned.fork.parent is None:
            newest[lineage_digest(main_of(exact.lineage))] = pinned.fork.parent_version
        oldest = exact.version - self._thresholds.derived_versions
        found = [
            name
            for name in self._files.names(folder_of(exact.lineage))
            if name.part == part and oldest <= name.version <= newest.get(name.lineage, -1)
        ]
        return iter(found[:_TRIED])

    def _verified(
        self, pinned: PinnedTable, state: State, name: KeptName | None
    ) -> PinnedTable | None:
        """The table at a state, if it is there with that content; the file of one that is not is removed."""
        identity, lineage = state.identity, pinned.exact.lineage
        if identity.lineage not in {lineage, main_of(lineage)}:
            return None
        try:
            base = pinned if identity == pinned.exact else pinned.at(identity)
            if content_fingerprint(base.table) == state.fingerprint:
                return base
        except HistoryReclaimed:
            pass
        except StorageError:
            return None
        if name is not None:
            self._files.remove(folder_of(lineage), name)
        return None

    # -- keeping

    def alone_with_nodes(self, pinned: PinnedTable) -> AbstractContextManager[None]:
        """Number a node table inside, while no other process does."""
        if not self._is_due(pinned, NODES, is_derived=False):
            return nullcontext()
        name = name_of(pinned.exact, NODES, key_of(NODES, State.of(pinned)))
        return self._disk.alone(folder_of(pinned.exact.lineage), name, pinned.row_count)

    def alone_with_edges(
        self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace
    ) -> AbstractContextManager[None]:
        """Number an edge table inside, while no other process does."""
        if not self._is_due(pinned, ENDS, is_derived=False):
            return nullcontext()
        name = name_of(pinned.exact, ENDS, _ends_key(pinned, sources, targets))
        return self._disk.alone(folder_of(pinned.exact.lineage), name, pinned.row_count)

    def found_nodes(self, pinned: PinnedTable) -> NodeIds | None:
        """The ids of a node table, if just this state was kept, maybe by another process a moment ago."""
        if not self._is_due(pinned, NODES, is_derived=False):
            return None
        folder, key = folder_of(pinned.exact.lineage), key_of(NODES, State.of(pinned))
        name = name_of(pinned.exact, NODES, key)
        file = self._files.open(folder, name)
        ids = None
        if file is not None and file.key == key and is_of_nodes(file):
            ids = whole_node_ids(file)
        if file is not None and ids is None:
            self._files.remove(folder, name)
        return ids

    def found_edges(
        self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace
    ) -> EdgeList | None:
        """The edges of a table, if just this state was kept, maybe by another process a moment ago."""
        if not self._is_due(pinned, ENDS, is_derived=False):
            return None
        key = _ends_key(pinned, sources, targets)
        name = name_of(pinned.exact, ENDS, key)
        file = self._files.open(folder_of(pinned.exact.lineage), name)
        shape = sources.size, targets.size
        if file is None or file.key != key or not is_of_edges(file, shape):
            return None
        files = EdgeFiles(self._disk, pinned, name, key, file.facts, file)
        files.read_again = lambda: self._read_ends(pinned, sources, targets)
        facts = file.facts
        return EdgeList.later(facts["size"], shape, files, complete=facts["complete"])

    def keep_nodes(self, pinned: PinnedTable, ids: NodeIds, *, is_derived: bool) -> NodeIds:
        """Keep the ids of a node table that was just numbered. Returns those to use from now on."""
        if not self._is_due(pinned, NODES, is_derived=is_derived):
            return ids
        return self._keep_nodes(pinned, ids) or ids

    def _keep_nodes(self, pinned: PinnedTable, ids: NodeIds) -> NodeIds | None:
        key = key_of(NODES, State.of(pinned))
        name = name_of(pinned.exact, NODES, key)
        folder = folder_of(pinned.exact.lineage)
        if name in self._files.names(folder):
            return None
        arrays, is_wide = node_arrays(ids)
        facts = {"size": ids.size, "is_wide": is_wide}
        is_kept = self._files.write(folder, name, key, facts, arrays)
        if not is_kept or not self._disk.is_large(sizes_of(arrays)):
            return None
        file = self._files.open(folder, name)
        return None if file is None or ids.origin is not None else whole_node_ids(file)

    def number_edges(
        self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace
    ) -> EdgeList | None:
        """Number a large edge table straight into its file, without holding all of it in memory.

        None where it is not large enough for that, or cannot be kept.
        """
        size = pinned.row_count
        most = ends_sizes(size)
        if not self._is_due(pinned, ENDS, is_derived=False) or not self._disk.is_large(most):
            return None
        facts = {"size": size, "shape": [sources.size, targets.size], "complete": True}
        files = self._files_of(pinned, sources, targets, facts)
        if not files.fill_ends(
            most, lambda writer: write_ends(pinned, sources, targets, self._thresholds, writer)
        ):
            return None
        files.read_again = lambda: self._read_ends(pinned, sources, targets)
        return EdgeList.later(size, (sources.size, targets.size), files, complete=True)

    def _read_ends(self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace) -> Ends:
        edges = EdgeList.read(pinned, sources, targets, self._thresholds)
        return Ends(edges.src, edges.dst, edges.rows.row_ids)

    def keep_edges(
        self,
        pinned: PinnedTable,
        sources: NodeSpace,
        targets: NodeSpace,
        edges: EdgeList,
        *,
        is_derived: bool,
    ) -> None:
        """Keep an edge list that was just made, and the nodes it is between."""
        # A large one is not held in memory: where it is not kept, every query would derive it again.
        is_large = self._disk.is_large(ends_sizes(edges.size))
        if not self._is_due(pinned, ENDS, is_derived=is_derived and not is_large):
            return
        facts = {"size": edges.size, "shape": list(edges.shape), "complete": edges.complete}
        edges.keep(self._files_of(pinned, sources, targets, facts))

    def _files_of(
        self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace, facts: Facts
    ) -> EdgeFiles:
        """The place of an edge list that was just made; the nodes it is between are kept, too."""
        for space in (sources, targets):
            self._keep_nodes(space.pinned, space.node_ids)
        key = _ends_key(pinned, sources, targets)
        name = name_of(pinned.exact, ENDS, key)
        return EdgeFiles(self._disk, pinned, name, key, facts, None)

    def _is_due(self, pinned: PinnedTable, part: str, *, is_derived: bool) -> bool:
        thresholds, exact = self._thresholds, pinned.exact
        if not self._files.max_bytes or pinned.row_count < thresholds.kept_rows:
            return False
        if not is_derived:
            return True
        here, since = lineage_digest(exact.lineage), exact.version - thresholds.kept_versions
        names = self._files.names(folder_of(exact.lineage))
        return not any(
            name.part == part and name.lineage == here and since < name.version <= exact.version
            for name in names
        )


def _ends_key(pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace) -> str:
    states = (State.of(table) for table in (pinned, sources.pinned, targets.pinned))
    return key_of(ENDS, *states)
