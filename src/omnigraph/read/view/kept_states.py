"""Numbered states of tables on disk: kept once they are numbered, found again by other processes.

A state is kept under the identity of its table *and* a fingerprint of its content, as the table's own
manifest gives it: a table of the same name, branch and version that another graph, a copy or a restored
backup has there is another state. What is found is put into the cache of the reader as it was when it
was kept, be it of an older version; the rest is done there, as for states this process numbered itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.errors import HistoryReclaimed, StorageError
from omnigraph.lang.schema.catalog import NodeType
from omnigraph.read.kept.kept_file import (
    Array,
    Facts,
    KeptFile,
    KeptWriter,
    Sizes,
    Untrusted,
    sizes_of,
)
from omnigraph.read.kept.kept_files import KeptFiles, KeptName, digest
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.edges import ENDS, EdgeList
from omnigraph.read.view.ends import Ends, write_ends
from omnigraph.read.view.nodes import NodeIds, NodeSpace
from omnigraph.read.view.numbered import EdgesKey, NodesKey
from omnigraph.read.view.pinned_table import Identity, Lineage, PinnedTable
from omnigraph.storage.tables.transactions import content_fingerprint

_NODES: Final = "nodes"
_ENDS_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "src": np.dtype(np.int32),
    "dst": np.dtype(np.int32),
    "row_ids": np.dtype(np.uint64),
}
# This many kept states of a table are looked at.
_TRIED: Final = 4


class State(NamedTuple):
    """A version of a table and what makes it that one."""

    identity: Identity
    fingerprint: str

    @staticmethod
    def of(pinned: PinnedTable) -> State:
        """The state that a table is pinned at."""
        return State(pinned.exact, content_fingerprint(pinned.table))


class _NumberedNodes(NamedTuple):
    """Nodes of a kept state, which are not loaded yet."""

    pinned: PinnedTable
    ids: NodeIds

    def space(self, cache: ByteCache, thresholds: ViewThresholds) -> NodeSpace:
        """Them as a space."""
        type_ = self.pinned.entity
        assert isinstance(type_, NodeType)
        return NodeSpace(type_, self.pinned, self.ids, cache, thresholds)


class KeptStates:
    """The states on disk, for the tables of one reader."""

    def __init__(self, files: KeptFiles, cache: ByteCache, thresholds: ViewThresholds) -> None:
        self._files = files
        self._cache = cache
        self._thresholds = thresholds

    # -- finding

    def offer_nodes(self, pinned: PinnedTable) -> None:
        """Put the newest kept state that a node table may start from into the cache."""
        if self._is_known(pinned, NodesKey):
            return
        for name in self._names(pinned, _NODES):
            file = self._files.open(_folder(pinned.exact.lineage), name)
            states = [] if file is None else _read_states(file.key, _NODES)
            if file is not None and len(states) == 1 and self._offer(pinned, states[0], name, file):
                return

    def offer_edges(self, pinned: PinnedTable, sources: PinnedTable, targets: PinnedTable) -> None:
        """Put the newest kept state that an edge table may start from into the cache, with its nodes."""
        if self._is_known(pinned, EdgesKey):
            return
        for name in self._names(pinned, ENDS):
            file = self._files.open(_folder(pinned.exact.lineage), name)
            states = [] if file is None else _read_states(file.key, ENDS)
            if file is None or len(states) != 3:
                continue
            base = self._verified(pinned, states[0], name)
            near = self._offered_ids(sources, states[1])
            far = near if states[2] == states[1] else self._offered_ids(targets, states[2])
            if base is None or near is None or far is None:
                continue
            if not _is_of_edges(file, (near.ids.size, far.ids.size)):
                self._files.remove(_folder(pinned.exact.lineage), name)
                continue
            self._put_edges(base, near, far, _Parts(self, base, name, file.key, file.facts, file))
            return

    def _put_edges(
        self, base: PinnedTable, near: _NumberedNodes, far: _NumberedNodes, parts: _Parts
    ) -> None:
        def read() -> Ends:
            left, right = (one.space(self._cache, self._thresholds) for one in (near, far))
            again = EdgeList.read(base, left, right, self._thresholds)
            return Ends(again.src, again.dst, again.rows.row_ids)

        parts.read_again = read
        rows, columns = parts.facts["shape"]
        edges = EdgeList.later(
            parts.facts["size"], (rows, columns), parts, complete=parts.facts["complete"]
        )
        key = EdgesKey(base.exact, near.pinned.exact, far.pinned.exact)
        self._cache.get(key, lambda: edges, lambda kept: kept.nbytes)

    def _offered_ids(self, pinned: PinnedTable, state: State) -> _NumberedNodes | None:
        """The nodes of a kept state, in the cache from now on."""
        key = NodesKey(state.identity)
        if self._cache.peek(key) is None:
            lineage = state.identity.lineage
            name = KeptName(
                state.identity.version, _lineage(lineage), digest(_key(_NODES, state)), _NODES
            )
            file = self._files.open(_folder(lineage), name)
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
        if not _is_of_nodes(file):
            self._files.remove(_folder(state.identity.lineage), name)
            return False

        def load() -> NodeIds:
            try:
                return _node_ids(file)
            except Untrusted:
                self._files.remove(_folder(state.identity.lineage), name)
                return NodeIds.read(base)

        ids = NodeIds.later(file.facts["size"], load)
        self._cache.get(NodesKey(state.identity), lambda: ids, lambda kept: kept.nbytes)
        return True

    def _is_known(self, pinned: PinnedTable, kind: type[NodesKey | EdgesKey]) -> bool:
        """Whether the cache holds a state of the table already, or nothing is kept at all."""
        if not self._files.max_bytes:
            return True
        here = _folder(pinned.exact.lineage)
        keys = (key for key in self._cache.kept() if isinstance(key, kind))
        return any(_folder(key.table.lineage) == here for key in keys)

    def _names(self, pinned: PinnedTable, part: str) -> Iterator[KeptName]:
        """The states of a part that this one may be derived from, the newest first."""
        exact = pinned.exact
        newest = {_lineage(exact.lineage): exact.version}
        if pinned.fork is not None and pinned.fork.parent is None:
            newest[_lineage(_main(exact.lineage))] = pinned.fork.parent_version
        oldest = exact.version - self._thresholds.derived_versions
        found = [
            name
            for name in self._files.names(_folder(exact.lineage))
            if name.part == part and oldest <= name.version <= newest.get(name.lineage, -1)
        ]
        return iter(found[:_TRIED])

    def _verified(
        self, pinned: PinnedTable, state: State, name: KeptName | None
    ) -> PinnedTable | None:
        """The table at a state, if it is there with that content; the file of one that is not is removed."""
        identity, lineage = state.identity, pinned.exact.lineage
        if identity.lineage not in {lineage, _main(lineage)}:
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
            self._files.remove(_folder(lineage), name)
        return None

    # -- keeping

    def keep_nodes(self, pinned: PinnedTable, ids: NodeIds, *, is_derived: bool) -> NodeIds:
        """Keep the ids of a node table that was just numbered. Returns those to use from now on."""
        if not self._is_due(pinned, _NODES, is_derived=is_derived):
            return ids
        return self._keep_nodes(pinned, ids) or ids

    def _keep_nodes(self, pinned: PinnedTable, ids: NodeIds) -> NodeIds | None:
        state = State.of(pinned)
        key = _key(_NODES, state)
        name = KeptName(pinned.exact.version, _lineage(pinned.exact.lineage), digest(key), _NODES)
        folder = _folder(pinned.exact.lineage)
        if name in self._files.names(folder):
            return None
        arrays, is_wide = _arrays(ids)
        facts = {"size": ids.size, "is_wide": is_wide}
        is_kept = self._files.write(folder, name, key, facts, arrays)
        if not is_kept or not self.is_large(sizes_of(arrays)):
            return None
        file = self._files.open(folder, name)
        return None if file is None or ids.origin is not None else _checked_ids(file)

    def number_edges(
        self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace
    ) -> EdgeList | None:
        """Number a large edge table straight into its file, without holding all of it in memory.

        None where it is not large enough for that, or cannot be kept.
        """
        size = pinned.row_count
        most = _ends_sizes(size)
        if not self._is_due(pinned, ENDS, is_derived=False) or not self.is_large(most):
            return None
        facts = {"size": size, "shape": [sources.size, targets.size], "complete": True}
        parts = self._parts(pinned, sources, targets, facts)
        if not parts.fill_ends(
            most, lambda writer: write_ends(pinned, sources, targets, self._thresholds, writer)
        ):
            return None

        def read() -> Ends:
            again = EdgeList.read(pinned, sources, targets, self._thresholds)
            return Ends(again.src, again.dst, again.rows.row_ids)

        parts.read_again = read
        return EdgeList.later(size, (sources.size, targets.size), parts, complete=True)

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
        is_large = self.is_large(_ends_sizes(edges.size))
        if not self._is_due(pinned, ENDS, is_derived=is_derived and not is_large):
            return
        facts = {"size": edges.size, "shape": list(edges.shape), "complete": edges.complete}
        edges.keep(self._parts(pinned, sources, targets, facts))

    def _parts(
        self, pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace, facts: Facts
    ) -> _Parts:
        """The place of an edge list that was just made; the nodes it is between are kept, too."""
        for space in (sources, targets):
            self._keep_nodes(space.pinned, space.node_ids)
        key = _key(ENDS, State.of(pinned), State.of(sources.pinned), State.of(targets.pinned))
        name = KeptName(pinned.exact.version, _lineage(pinned.exact.lineage), digest(key), ENDS)
        return _Parts(self, pinned, name, key, facts, None)

    def is_large(self, arrays: Sizes) -> bool:
        """Whether arrays should rather be used from disk than held in memory."""
        nbytes = sum(kind.itemsize * items for kind, items in arrays.values())
        return nbytes * self._thresholds.mapped_share > self._cache.budget

    @property
    def part_edges(self) -> int:
        """How many edges of a large table are in memory at a time."""
        return self._thresholds.part_edges

    def _is_due(self, pinned: PinnedTable, part: str, *, is_derived: bool) -> bool:
        thresholds, exact = self._thresholds, pinned.exact
        if not self._files.max_bytes or pinned.row_count < thresholds.kept_rows:
            return False
        if not is_derived:
            return True
        here, since = _lineage(exact.lineage), exact.version - thresholds.kept_versions
        names = self._files.names(_folder(exact.lineage))
        return not any(
            name.part == part and name.lineage == here and since < name.version <= exact.version
            for name in names
        )

    @property
    def files(self) -> KeptFiles:
        """The files on disk."""
        return self._files


class _Parts:
    """The files of one edge list: its ends, and adjacency by name."""

    def __init__(
        self,
        states: KeptStates,
        pinned: PinnedTable,
        name: KeptName,
        key: str,
        facts: Facts,
        ends: KeptFile | None,
    ) -> None:
        self.facts = facts
        self.read_again: Callable[[], Ends] | None = None
        self._states = states
        self._folder = _folder(pinned.exact.lineage)
        self._name = name
        self._key = key
        self._ends = ends

    def fill_ends(self, most: Sizes, write: Callable[[KeptWriter], bool]) -> bool:
        """Have the ends of all edges written to their file; whether that went well."""
        files, name = self._states.files, self._name
        is_kept = files.fill(
            self._folder, name, self._key, most, lambda out: self.facts if write(out) else None
        )
        self._ends = files.open(self._folder, name) if is_kept else None
        return self._ends is not None

    def build(
        self, part: str, most: Sizes, pieces: Callable[[int], Iterator[Csr | MultiCsr]]
    ) -> dict[str, Array] | None:
        """Keep a part that is made piece by piece. None when it is small, or could not be kept."""
        if not self._states.is_large(most):
            return None

        def fill(writer: KeptWriter) -> Facts:
            done = 0
            writer.append("indptr", np.zeros(1, np.int64))
            for piece in pieces(self._states.part_edges):
                look()
                writer.append("indptr", piece.indptr[1:] + done)
                for array in piece.ARRAYS[1:]:
                    writer.append(array, getattr(piece, array))
                done += piece.indices.size
            return self.facts

        name = self._name._replace(part=part)
        is_kept = self._states.files.fill(self._folder, name, self._key, most, fill)
        return self.read(part) if is_kept else None

    def ends(self) -> Ends:
        """The ends of all edges; read from the table again if they cannot be trusted."""
        assert self._ends is not None
        assert self.read_again is not None
        try:
            return Ends(*(self._ends.array(name) for name in Ends._fields))
        except Untrusted:
            self._states.files.remove(self._folder, self._name)
            return self.read_again()

    def read(self, part: str) -> dict[str, Array] | None:
        """The arrays of a part, if it is there and whole."""
        name = self._name._replace(part=part)
        file = self._states.files.open(self._folder, name)
        if file is None or file.key != self._key:
            return None
        try:
            return {array: file.array(array) for array in file.names}
        except Untrusted:
            self._states.files.remove(self._folder, name)
            return None

    def write(self, part: str, arrays: dict[str, Array]) -> dict[str, Array] | None:
        """Keep a part. Returns the arrays to use from now on; None when it could not be kept."""
        name = self._name._replace(part=part)
        if not self._states.files.write(self._folder, name, self._key, self.facts, arrays):
            return None
        return (self.read(part) if self._states.is_large(sizes_of(arrays)) else None) or arrays


def _ends_sizes(edges: int) -> Sizes:
    """The arrays of the ends of so many edges."""
    return {name: (kind, edges) for name, kind in _ENDS_TYPES.items()}


def _main(lineage: Lineage) -> Lineage:
    return lineage._replace(branch=None, identifier=None)


def _folder(lineage: Lineage) -> str:
    return digest(json.dumps([lineage.graph_id, lineage.location]))


def _lineage(lineage: Lineage) -> str:
    return digest(json.dumps([lineage.branch, lineage.identifier]))


def _key(kind: str, *states: State) -> str:
    """What a file says that it holds."""
    listed = [[*one.identity.lineage, one.identity.version, one.fingerprint] for one in states]
    return json.dumps([kind, listed])


def _read_states(key: str, kind: str) -> list[State]:
    """The states that the key of a file of this kind names; none where it is of another kind."""
    try:
        found: Any = json.loads(key)
        if found[0] != kind:
            return []
        return [_read_state(*one) for one in found[1]]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return []


def _read_state(
    graph_id: str,
    location: str,
    branch: str | None,
    identifier: str | None,
    version: int,
    fingerprint: str,
) -> State:
    if not isinstance(version, int):
        raise TypeError(version)
    return State(Identity(Lineage(graph_id, location, branch, identifier), version), fingerprint)


def _arrays(ids: NodeIds) -> tuple[dict[str, Array], bool]:
    """Ids as arrays of numbers, and whether their text has wide offsets."""
    array = ids.id_array
    is_wide = pa.types.is_large_string(array.type)
    _, offsets, text = array.buffers()
    kind = np.dtype(np.int64 if is_wide else np.int32)
    if offsets is None or not len(array):
        starts = np.zeros(1, kind)
    else:
        starts = np.frombuffer(offsets, kind, len(array) + 1, array.offset * kind.itemsize)
    first, last = int(starts[0]), int(starts[-1])
    size = last - first
    letters = np.frombuffer(text, np.uint8, size, first) if size else np.empty(0, np.uint8)
    starts = starts - kind.type(first)
    return {"starts": starts, "letters": letters, "row_ids": ids.rows.row_ids}, is_wide


def _is_of_nodes(file: KeptFile) -> bool:
    """Whether a file has the facts and arrays of ids, as another version of the engine may not write them."""
    size, is_wide = file.facts.get("size"), file.facts.get("is_wide")
    return (
        _is_size(size)
        and isinstance(is_wide, bool)
        and file.has(
            starts=("<i8" if is_wide else "<i4", size + 1),
            letters=("|u1", file.count("letters")),
            row_ids=("<u8", size),
        )
    )


def _is_of_edges(file: KeptFile, shape: tuple[int, int]) -> bool:
    """Whether a file has the facts and arrays of ends of edges between so many nodes."""
    size, between = file.facts.get("size"), file.facts.get("shape")
    return (
        _is_size(size)
        and between == list(shape)
        and isinstance(file.facts.get("complete"), bool)
        and file.has(src=("<i4", size), dst=("<i4", size), row_ids=("<u8", size))
    )


def _is_size(number: Any) -> TypeGuard[int]:
    return type(number) is int and number >= 0


def _node_ids(file: KeptFile) -> NodeIds:
    """The ids of a kept file; ``Untrusted`` if they are not whole."""
    starts, letters = file.array("starts"), file.array("letters")
    if starts[0] != 0 or starts[-1] != letters.size:
        raise Untrusted("its texts do not end where they should")
    kind = pa.large_string() if file.facts["is_wide"] else pa.string()
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(letters)]
    ids = pa.Array.from_buffers(kind, file.facts["size"], buffers, null_count=0)
    return NodeIds(ids, file.array("row_ids"))


def _checked_ids(file: KeptFile) -> NodeIds | None:
    try:
        return _node_ids(file)
    except Untrusted:
        return None
