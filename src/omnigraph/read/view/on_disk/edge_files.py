"""The files of one edge list: the ends of its edges, and its adjacency by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

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
from omnigraph.read.kept.kept_files import KeptFiles, KeptName
from omnigraph.read.kernels.csr import Csr, MultiCsr
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.byte_cache import ByteCache
from omnigraph.read.view.ends import Ends
from omnigraph.read.view.on_disk.node_file import is_size
from omnigraph.read.view.on_disk.state_key import folder_of
from omnigraph.read.view.pinned_table import PinnedTable

_ENDS_TYPES: Final[dict[str, np.dtype[Any]]] = {
    "src": np.dtype(np.int32),
    "dst": np.dtype(np.int32),
    "row_ids": np.dtype(np.uint64),
}


class Disk(NamedTuple):
    """The files of a reader, and the memory that it may use instead of them."""

    files: KeptFiles
    cache: ByteCache
    thresholds: ViewThresholds

    def is_large(self, arrays: Sizes) -> bool:
        """Whether arrays should rather be used from disk than held in memory."""
        nbytes = sum(kind.itemsize * items for kind, items in arrays.values())
        return nbytes * self.thresholds.mapped_share > self.cache.budget


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
