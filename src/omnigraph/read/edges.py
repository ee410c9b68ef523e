"""The stored edges of one type as pairs of node ordinals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.lang.query.ir import Direction
from omnigraph.read.adjacency import Csr, MultiCsr, csr_of, multi_csr_of
from omnigraph.read.nodes import NodeSpace, RowIds
from omnigraph.read.pinned import Pinned

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph.read.bindings import Codes, Mask

T = TypeVar("T")

_CHUNK_ROWS = 4_000_000


class EdgeList:
    """Stored edges as ordinals of their ends, in the order of their row ids: what is cached.

    ``complete`` says that every row of the table is there: an edge whose end is missing, which no
    write of ours leaves behind, is left out.
    """

    def __init__(
        self,
        src: Codes,
        dst: Codes,
        row_ids: npt.NDArray[np.uint64],
        shape: tuple[int, int],
        *,
        complete: bool,
    ) -> None:
        self.src = src
        self.dst = dst
        self.rows = RowIds(row_ids)
        self.shape = shape
        self.complete = complete
        self._made: dict[Any, Any] = {}
        self._lock = threading.RLock()

    @staticmethod
    def read(pinned: Pinned, sources: NodeSpace, targets: NodeSpace) -> EdgeList:
        """One scan of the ends, each looked up among the nodes."""
        import numpy as np

        src, dst, row_ids = [], [], []
        for rows in _chunks(pinned):
            src.append(sources.ordinals_of(rows.column("src")))
            dst.append(targets.ordinals_of(rows.column("dst")))
            row_ids.append(rows.column("_rowid").to_numpy())
        shape = (sources.size, targets.size)
        if not src:
            none = np.zeros(0, np.int32)
            return EdgeList(none, none, np.zeros(0, np.uint64), shape, complete=True)
        return edge_list(np.concatenate(src), np.concatenate(dst), np.concatenate(row_ids), shape)

    def out(self) -> Csr:
        """Sources to targets."""
        return self._once("out", lambda: csr_of(self.src, self.dst, self.shape))

    def into(self) -> Csr:
        """Targets to sources."""
        return self._once("into", lambda: csr_of(self.dst, self.src, self.shape[::-1]))

    def both(self) -> Csr:
        """Either way along an edge between nodes of one type."""
        import numpy as np

        def build() -> Csr:
            ends = np.concatenate([self.src, self.dst]), np.concatenate([self.dst, self.src])
            return csr_of(*ends, self.shape)

        return self._once("both", build)

    def multi(self, direction: Direction) -> MultiCsr:
        """Adjacency by stored edge; both ways a self-loop counts once."""
        return self._once(f"multi {direction}", lambda: self._multi(direction))

    def loops(self) -> Mask:
        """Which nodes have a stored edge to themselves."""
        import numpy as np

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
        import numpy as np

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
            with self._lock:
                made = self._made.get(name)
                if made is None:
                    made = self._made[name] = build()
        return made


def edge_list(
    src: Codes, dst: Codes, row_ids: npt.NDArray[np.uint64], shape: tuple[int, int]
) -> EdgeList:
    """The list of these edges, in the order of their row ids; an end of -1 is a missing one."""
    import numpy as np

    present = (src >= 0) & (dst >= 0)
    complete = bool(present.all())
    if not complete:
        src, dst, row_ids = src[present], dst[present], row_ids[present]
    if row_ids.size > 1 and not np.all(row_ids[:-1] < row_ids[1:]):
        order = np.argsort(row_ids, kind="stable")
        src, dst, row_ids = src[order], dst[order], row_ids[order]
    return EdgeList(src, dst, row_ids, shape, complete=complete)


def _chunks(pinned: Pinned) -> Iterator[pa.Table]:
    """The ends of the stored edges in tables of bounded size."""
    import pyarrow as pa

    reader = pinned.table.scan(["src", "dst"], with_row_id=True)
    batches, rows = [], 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _CHUNK_ROWS:
            yield pa.Table.from_batches(batches)
            batches, rows = [], 0
    if batches:
        yield pa.Table.from_batches(batches)
