"""The ends of stored edges as ordinals, read from a table or after changes of it.

For example:

    nodes ada 0, bob 1; stored edges bob -> ada, ada -> bob   ->   src [1, 0], dst [0, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.cancel import Beside, look
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.pinned_table import PinnedTable
from omnigraph.read.view.row_changes import TableChanges

Find = Callable[[pa.ChunkedArray], Codes]


class Ends(NamedTuple):
    """Stored edges as the ordinals of their ends, -1 for one that is missing; by row id."""

    src: Codes
    dst: Codes
    row_ids: npt.NDArray[np.uint64]

    def after(self, changes: TableChanges, sources: NodeSpace, targets: NodeSpace) -> Ends:
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


def read_ends(
    pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace, thresholds: ViewThresholds
) -> Ends:
    """All stored edges. Of many, one thread reads and looks up the sources, another the targets.

    A scan keeps to one thread most of the time. Two of one version give the rows in one order.
    """
    if pinned.row_count < thresholds.threaded_rows:
        return ends_of(pinned.table.read(["src", "dst"], with_row_id=True), sources, targets)

    near, far = _finders(pinned, sources, targets)

    def targets_only() -> Codes:
        chunks = _read_end(pinned, "dst", far, thresholds, with_row_id=False)
        return np.concatenate([codes for codes, _ in chunks])

    with Beside(targets_only) as other:
        chunks = list(_read_end(pinned, "src", near, thresholds, with_row_id=True))
        src = np.concatenate([codes for codes, _ in chunks])
        row_ids = np.concatenate([found for _, found in chunks if found is not None])
        dst = other.result()
    assert len(src) == len(dst) == len(row_ids)
    return Ends(src, dst, row_ids)


class EndsWriter(Protocol):
    """Where ends are written piece by piece, by the name of the array. Two threads write to it."""

    def append(self, name: str, items: npt.NDArray[Any]) -> None:
        """Write the next items of an array."""
        ...


def write_ends(
    pinned: PinnedTable,
    sources: NodeSpace,
    targets: NodeSpace,
    thresholds: ViewThresholds,
    writer: EndsWriter,
) -> bool:
    """Write all stored edges while they are read, so that few of them are in memory at a time.

    False where that is not possible: the rows are not in the order of their ids, or an end is missing.
    """

    def write(column: str, find: Find, *, with_row_id: bool) -> int:
        count, newest = 0, -1
        for codes, row_ids in _read_end(pinned, column, find, thresholds, with_row_id=with_row_id):
            if not codes.size:
                continue
            if codes.min() < 0:
                return -1
            writer.append(column, codes)
            if row_ids is not None:
                if row_ids[0] <= newest or not np.all(row_ids[:-1] < row_ids[1:]):
                    return -1
                newest = int(row_ids[-1])
                writer.append("row_ids", row_ids)
            count += codes.size
        return count

    near, far = _finders(pinned, sources, targets)
    with Beside(lambda: write("dst", far, with_row_id=False)) as other:
        count = write("src", near, with_row_id=True)
        return other.result() == count == pinned.row_count


def _finders(pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace) -> tuple[Find, Find]:
    """How the sources and the targets of all edges are looked up."""
    near = sources.finder(pinned.row_count)
    is_same = sources.node_ids is targets.node_ids
    return near, near if is_same else targets.finder(pinned.row_count)


def _read_end(
    pinned: PinnedTable,
    column: str,
    find: Find,
    thresholds: ViewThresholds,
    *,
    with_row_id: bool,
) -> Iterator[tuple[Codes, npt.NDArray[np.uint64] | None]]:
    """One end of all stored edges; the text of a bounded number of them is in memory at a time."""
    for rows in _chunks(pinned, column, thresholds, with_row_id=with_row_id):
        codes = find(rows.column(column))
        yield codes, rows.column("_rowid").to_numpy() if with_row_id else None


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
