"""One numbered state of a table as files: what names it, and its nodes and edges as arrays and back.

A state is named by the table, its version and a fingerprint of its content, which the table's own manifest gives. A
table of the same name, branch and version that another graph, a copy or a restored backup has there is another state.
``kept_states`` finds and keeps states; the files themselves are those of ``read.kept``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa

from omnigraph.cancel import look
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
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.nodes import NodeIds
from omnigraph.read.view.pinned_table import Identity, Lineage, PinnedTable
from omnigraph.storage.tables.transactions import content_fingerprint


class State(NamedTuple):
    """A version of a table, with a fingerprint of its content."""

    identity: Identity
    fingerprint: str

    @staticmethod
    def of(pinned: PinnedTable) -> State:
        """The state that a table is pinned at."""
        return State(pinned.exact, content_fingerprint(pinned.table))


def main_of(lineage: Lineage) -> Lineage:
    """The same table on the main branch."""
    return lineage._replace(branch=None, identifier=None)


def folder_of(lineage: Lineage) -> str:
    """The folder of a table: the same for all its branches and versions."""
    return digest(json.dumps([lineage.graph_id, lineage.location]))


def lineage_digest(lineage: Lineage) -> str:
    """The branch of a table, as the names of its files have it."""
    return digest(json.dumps([lineage.branch, lineage.identifier]))


def key_of(kind: str, *states: State) -> str:
    """What a file says that it holds."""
    listed = [[*one.identity.lineage, one.identity.version, one.fingerprint] for one in states]
    return json.dumps([kind, listed])


def name_of(identity: Identity, part: str, key: str) -> KeptName:
    """The name of the file with this key."""
    return KeptName(identity.version, lineage_digest(identity.lineage), digest(key), part)


def read_states(key: str, kind: str) -> list[State]:
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


NODES: Final = "nodes"
"""The part of a state that these files are."""


def node_arrays(ids: NodeIds) -> tuple[dict[str, Array], bool]:
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


def is_of_nodes(file: KeptFile) -> bool:
    """Whether a file has the facts and arrays of ids, as another version of the engine may not write them."""
    size, is_wide = file.facts.get("size"), file.facts.get("is_wide")
    return (
        is_size(size)
        and isinstance(is_wide, bool)
        and file.has(
            starts=("<i8" if is_wide else "<i4", size + 1),
            letters=("|u1", file.count("letters")),
            row_ids=("<u8", size),
        )
    )


def node_ids(file: KeptFile) -> NodeIds:
    """The ids of a kept file; ``Untrusted`` if they are not whole."""
    starts, letters = file.array("starts"), file.array("letters")
    if starts[0] != 0 or starts[-1] != letters.size:
        raise Untrusted("its texts do not end where they should")
    kind = pa.large_string() if file.facts["is_wide"] else pa.string()
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(letters)]
    ids = pa.Array.from_buffers(kind, file.facts["size"], buffers, null_count=0)
    return NodeIds(ids, file.array("row_ids"))


def whole_node_ids(file: KeptFile) -> NodeIds | None:
    """The ids of a kept file; None if they are not whole."""
    try:
        return node_ids(file)
    except Untrusted:
        return None


def is_size(number: Any) -> TypeGuard[int]:
    """Whether a fact of a file may be the number of its rows."""
    return type(number) is int and number >= 0


_ENDS_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "src": np.dtype(np.int32),
    "dst": np.dtype(np.int32),
    "row_ids": np.dtype(np.uint64),
}


# How long a process waits for another one that numbers a table: several times as long as that takes.
_PATIENCE_SECONDS: Final = 10.0
_PATIENCE_ROW_SECONDS: Final = 3e-6


class Disk(NamedTuple):
    """The files of a reader, and the memory that it may use instead of them."""

    files: KeptFiles
    cache: ByteCache
    thresholds: ViewThresholds

    def is_large(self, arrays: Sizes) -> bool:
        """Whether arrays should rather be used from disk than held in memory."""
        nbytes = sum(kind.itemsize * items for kind, items in arrays.values())
        return nbytes * self.thresholds.mapped_share > self.cache.budget

    def alone(self, folder: str, name: KeptName, rows: int) -> AbstractContextManager[None]:
        """Hold the lock for making a file of this size, so that no other process makes it meanwhile."""
        seconds = _PATIENCE_SECONDS + _PATIENCE_ROW_SECONDS * rows
        return self.files.alone(folder, name, seconds)


class EdgeFiles:
    """The files of one edge list: its ends, and adjacency by name."""

    def __init__(
        self,
        disk: Disk,
        pinned: PinnedTable,
        name: KeptName,
        key: str,
        facts: Facts,
        ends: KeptFile | None,
    ) -> None:
        self.facts = facts
        self.read_again: Callable[[], Ends] | None = None
        self._disk = disk
        self._folder = folder_of(pinned.exact.lineage)
        self._name = name
        self._key = key
        self._ends = ends

    def fill_ends(self, most: Sizes, write: Callable[[KeptWriter], bool]) -> bool:
        """Have the ends of all edges written to their file; whether that went well."""
        files, name = self._disk.files, self._name
        is_kept = files.fill(
            self._folder, name, self._key, most, lambda out: self.facts if write(out) else None
        )
        self._ends = files.open(self._folder, name) if is_kept else None
        return self._ends is not None

    def build(
        self, part: str, most: Sizes, pieces: Callable[[int], Iterator[Csr | MultiCsr]]
    ) -> dict[str, Array] | None:
        """Keep a part that is made piece by piece. None when it is small, or could not be kept."""
        if not self._disk.is_large(most):
            return None

        def fill(writer: KeptWriter) -> Facts:
            done = 0
            writer.append("indptr", np.zeros(1, np.int64))
            for piece in pieces(self._disk.thresholds.part_edges):
                look()
                writer.append("indptr", piece.indptr[1:] + done)
                for array in piece.ARRAYS[1:]:
                    writer.append(array, getattr(piece, array))
                done += piece.indices.size
            return self.facts

        name = self._name._replace(part=part)
        is_kept = self._disk.files.fill(self._folder, name, self._key, most, fill)
        return self.read(part) if is_kept else None

    def alone(self, part: str) -> AbstractContextManager[None]:
        """Hold the lock for making a part, so that no other process makes it; it may be there by then."""
        return self._disk.alone(self._folder, self._name._replace(part=part), self.facts["size"])

    def ends(self) -> Ends:
        """The ends of all edges; read from the table again if they cannot be trusted."""
        assert self._ends is not None
        assert self.read_again is not None
        try:
            return Ends(*(self._ends.array(name) for name in Ends._fields))
        except Untrusted:
            self._disk.files.remove(self._folder, self._name)
            return self.read_again()

    def read(self, part: str) -> dict[str, Array] | None:
        """The arrays of a part, if it is there and whole."""
        name = self._name._replace(part=part)
        file = self._disk.files.open(self._folder, name)
        if file is None or file.key != self._key:
            return None
        try:
            return {array: file.array(array) for array in file.names}
        except Untrusted:
            self._disk.files.remove(self._folder, name)
            return None

    def write(self, part: str, arrays: dict[str, Array]) -> dict[str, Array] | None:
        """Keep a part. Returns the arrays to use from now on; None when it could not be kept."""
        name = self._name._replace(part=part)
        if not self._disk.files.write(self._folder, name, self._key, self.facts, arrays):
            return None
        return (self.read(part) if self._disk.is_large(sizes_of(arrays)) else None) or arrays


def ends_sizes(edges: int) -> Sizes:
    """Types and lengths of the arrays of ``edges`` ends."""
    return {name: (kind, edges) for name, kind in _ENDS_TYPES.items()}


def is_of_edges(file: KeptFile, shape: tuple[int, int]) -> bool:
    """Whether a file has the facts and arrays of the ends of edges, between ``shape`` nodes on either side."""
    size, between = file.facts.get("size"), file.facts.get("shape")
    return (
        is_size(size)
        and between == list(shape)
        and isinstance(file.facts.get("complete"), bool)
        and file.has(src=("<i4", size), dst=("<i4", size), row_ids=("<u8", size))
    )
