"""The stored edges of one type as pairs of node ordinals.

For example:

    nodes ada 0, bob 1; stored edges bob -> ada, ada -> bob   ->   src [1, 0], dst [0, 1]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.cancel import Beside, aside, holding, look
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.csr import Csr, MultiCsr, csr_of, multi_csr_of
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.nodes import NodeSpace, RowIds
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.row_changes import RowChanges

T = TypeVar("T")


class Ends(NamedTuple):
    """Stored edges as the ordinals of their ends, -1 for one that is missing; by row id."""

    src: Codes
    dst: Codes
    row_ids: npt.NDArray[np.uint64]

    def after(self, changes: RowChanges, sources: NodeSpace, targets: NodeSpace) -> Ends:
        """The edges after these changes."""
        now = self
        if changes.updated.num_rows:
            places, known = self._find(changes.updated.column("_rowid").to_numpy())
            new = ends_of(changes.updated, sources, targets).chosen(known)
            now = Ends(self.src.copy(), self.dst.copy(), self.row_ids)
            now.src[places], now.dst[places] = new.src, new.dst
        if changes.gone.size:
            kept = np.ones(self.row_ids.size, np.bool_)
            kept[self._find(changes.gone)[0]] = False
            now = now.chosen(kept)
        if changes.inserted.num_rows:
            fresh = ends_of(changes.inserted.sort_by("_rowid"), sources, targets)
            now = Ends.joined([now, fresh])
        return now

    @staticmethod
    def joined(parts: Sequence[Ends]) -> Ends:
        """These edges, then the others."""
        return Ends(
            np.concatenate([part.src for part in parts]),
            np.concatenate([part.dst for part in parts]),
            np.concatenate([part.row_ids for part in parts]),
        )

    def chosen(self, which: Mask | npt.NDArray[np.intp]) -> Ends:
        """The edges that a mask selects, or at these positions."""
        return Ends(self.src[which], self.dst[which], self.row_ids[which])

    def _find(
        self, row_ids: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The positions of these rows, and which of them there are."""
        places = np.searchsorted(self.row_ids, row_ids)
        known = places < self.row_ids.size
        known[known] = self.row_ids[places[known]] == row_ids[known]
        return places[known], known


def ends_of(rows: pa.Table, sources: NodeSpace, targets: NodeSpace) -> Ends:
    """The ends of edge rows, looked up among the nodes."""
    src, dst = sources.ordinals_of(rows.column("src")), targets.ordinals_of(rows.column("dst"))
    return Ends(src, dst, rows.column("_rowid").to_numpy())


def _read_ends(
    pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace, thresholds: ViewThresholds
) -> Ends:
    """All stored edges. Of many, one thread reads and looks up the sources, another the targets.

    A scan keeps to one thread most of the time. Two of one version give the rows in one order.
    """
    if pinned.row_count < thresholds.threaded_rows:
        return ends_of(pinned.table.read(["src", "dst"], with_row_id=True), sources, targets)
    with Beside(lambda: _read_end(pinned, "dst", targets, thresholds, with_row_id=False)) as other:
        src, row_ids = _read_end(pinned, "src", sources, thresholds, with_row_id=True)
        dst, _ = other.result()
    assert row_ids is not None
    assert len(src) == len(dst) == len(row_ids)
    return Ends(src, dst, row_ids)


def _read_end(
    pinned: PinnedTable,
    column: str,
    nodes: NodeSpace,
    thresholds: ViewThresholds,
    *,
    with_row_id: bool,
) -> tuple[Codes, npt.NDArray[np.uint64] | None]:
    """One end of all stored edges; the text of a bounded number of them is in memory at a time."""
    codes, row_ids = [], []
    for rows in _chunks(pinned, column, thresholds, with_row_id=with_row_id):
        codes.append(nodes.ordinals_of(rows.column(column)))
        if with_row_id:
            row_ids.append(rows.column("_rowid").to_numpy())
    return np.concatenate(codes), np.concatenate(row_ids) if with_row_id else None


class EdgeList:
    """Stored edges as ordinals of their ends, in the order of their row ids: what is cached.

    ``complete`` says that every row of the table is there. An edge whose end is missing is left out; only
    another program can leave such an edge behind.
    """

    def __init__(self, ends: Ends, shape: tuple[int, int], *, complete: bool) -> None:
        self.src = ends.src
        self.dst = ends.dst
        self.rows = RowIds(ends.row_ids)
        self.shape = shape
        self.complete = complete
        self._made: dict[Any, Any] = {}
        self._lock = threading.RLock()

    @staticmethod
    def read(
        pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace, thresholds: ViewThresholds
    ) -> EdgeList:
        """The ends as they are stored, each looked up among the nodes."""
        ends = _read_ends(pinned, sources, targets, thresholds)
        if not np.all(ends.row_ids[:-1] < ends.row_ids[1:]):
            ends = ends.chosen(np.argsort(ends.row_ids, kind="stable"))
        return EdgeList.of(ends, (sources.size, targets.size))

    @staticmethod
    def of(ends: Ends, shape: tuple[int, int]) -> EdgeList:
        """The edges that have both ends."""
        present = (ends.src >= 0) & (ends.dst >= 0)
        if present.all():
            return EdgeList(ends, shape, complete=True)
        return EdgeList(ends.chosen(present), shape, complete=False)

    def keep_adjacency(self, before: EdgeList, src: Codes, dst: Codes) -> None:
        """Derive the adjacency that an older list had made, when this list is that one and more edges.

        ``src`` and ``dst`` are the new numbers of its nodes.
        """
        fresh = self.src[before.src.size :], self.dst[before.src.size :]
        for name, shape, moves, pairs in (
            ("out", self.shape, (src, dst), fresh),
            ("into", self.shape[::-1], (dst, src), fresh[::-1]),
        ):
            made: Csr | None = before._made.get(name)
            if made is not None:
                made = made.renumbered(*moves, shape)
                self._made[name] = made.with_pairs(*pairs) if pairs[0].size else made

    def out(self) -> Csr:
        """Sources to targets."""
        return self._once("out", lambda: csr_of(self.src, self.dst, self.shape))

    def into(self) -> Csr:
        """Targets to sources."""
        return self._once("into", lambda: csr_of(self.dst, self.src, self.shape[::-1]))

    def both(self) -> Csr:
        """Either way along an edge between nodes of one type."""

        def build() -> Csr:
            ends = np.concatenate([self.src, self.dst]), np.concatenate([self.dst, self.src])
            return csr_of(*ends, self.shape)

        return self._once("both", build)

    def multi(self, direction: Direction) -> MultiCsr:
        """Adjacency by stored edge; both ways a self-loop counts once."""
        return self._once(f"multi {direction}", lambda: self._multi(direction))

    def loops(self) -> Mask:
        """Which nodes have a stored edge to themselves."""

        def build() -> Mask:
            found = np.zeros(self.shape[0], np.bool_)
            found[self.src[self.src == self.dst]] = True
            return found

        return self._once("loops", build)

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        made = sum(part.nbytes for part in list(self._made.values()))
        return self.src.nbytes + self.dst.nbytes + self.rows.nbytes + int(made)

    def _multi(self, direction: Direction) -> MultiCsr:
        positions = np.arange(self.src.size, dtype=np.int32)
        if direction is Direction.OUT:
            return multi_csr_of(self.src, self.dst, positions, self.shape)
        if direction is Direction.IN:
            return multi_csr_of(self.dst, self.src, positions, self.shape[::-1])
        back = np.flatnonzero(self.src != self.dst).astype(np.int32)
        return multi_csr_of(
            np.concatenate([self.src, self.dst[back]]),
            np.concatenate([self.dst, self.src[back]]),
            np.concatenate([positions, back]),
            self.shape,
        )

    def _once(self, name: str, build: Callable[[], T]) -> T:
        made: T | None = self._made.get(name)
        if made is None:
            with holding(self._lock):
                made = self._made.get(name)
                if made is None:
                    made = self._made[name] = aside(build, items=self.src.size)
        return made


def _chunks(
    pinned: PinnedTable, column: str, thresholds: ViewThresholds, *, with_row_id: bool
) -> Iterator[pa.Table]:
    """One column of the stored edges in tables of bounded size."""
    batch_rows, chunk_rows = thresholds.batch_rows, thresholds.chunk_rows
    reader = pinned.table.scan([column], with_row_id=with_row_id, batch_size=batch_rows)
    batches, rows = [], 0
    for batch in reader:
        look()
        batches.append(batch)
        rows += batch.num_rows
        if rows >= chunk_rows:
            yield pa.Table.from_batches(batches)
            batches, rows = [], 0
    yield pa.Table.from_batches(batches, reader.schema)
