"""The stored edges of one type between numbered nodes, and the adjacency made of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from omnigraph.cancel import aside, holding
from omnigraph.lang.query.ir import Direction
from omnigraph.read.kept.kept_file import Sizes, held_bytes, is_mapped
from omnigraph.read.kernels.arrays import Codes, Mask
from omnigraph.read.kernels.csr import (
    Csr,
    MultiCsr,
    csr_by_parts,
    csr_of,
    multi_csr_by_parts,
    multi_csr_of,
)
from omnigraph.read.thresholds import ViewThresholds
from omnigraph.read.view.ends import Ends, read_ends
from omnigraph.read.view.nodes import NodeSpace, RowIds
from omnigraph.read.view.pinned_table import PinnedTable

T = TypeVar("T")

ENDS: Final = "ends"
# What is kept on disk beside them, by its name. Rows are targets in those that are reversed.
_KINDS: Final[dict[str, type[Csr | MultiCsr]]] = {
    "out": Csr,
    "into": Csr,
    "both": Csr,
    **{f"multi-{direction.value}": MultiCsr for direction in Direction},
}
_REVERSED: Final = frozenset({"into", f"multi-{Direction.IN.value}"})
_BOTH: Final = frozenset({"both", f"multi-{Direction.BOTH.value}"})


class KeptParts(Protocol):
    """The place on disk of an edge list: arrays by the name of a part and their own."""

    def alone(self, part: str) -> AbstractContextManager[None]:
        """Make a part inside, while no other process does; it may be there by then."""
        ...

    def ends(self) -> Ends:
        """The ends of all edges; read from the table again if they cannot be trusted."""
        ...

    def read(self, part: str) -> dict[str, npt.NDArray[Any]] | None:
        """The arrays of a part, if it is there and whole."""
        ...

    def build(
        self,
        part: str,
        most: Sizes,
        pieces: Callable[[int], Iterator[Csr | MultiCsr]],
    ) -> dict[str, npt.NDArray[Any]] | None:
        """Keep a part that is made piece by piece. None when it is small, or could not be kept.

        ``most`` has the largest sizes its arrays may get; ``pieces(n)`` makes the pieces, of about ``n``
        edges each.
        """
        ...

    def write(
        self, part: str, arrays: dict[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]] | None:
        """Keep a part. Returns the arrays to use from now on; None when it could not be kept."""
        ...


class Sized(Protocol):
    """What takes memory."""

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        ...


class EdgeList:
    """Stored edges as ordinals of their ends, in the order of their row ids: what is cached.

    ``complete`` says that every row of the table is there. An edge whose end is missing is left out; only
    another program can leave such an edge behind. ``size`` is the number of edges. A ``kept`` list has a
    place on disk, from which its parts are loaded when they are first used, and where new parts go.
    """

    def __init__(self, ends: Ends, shape: tuple[int, int], *, complete: bool) -> None:
        self.size = ends.src.size
        self.shape = shape
        self.complete = complete
        self.kept: KeptParts | None = None
        self._ends: tuple[Ends, RowIds] | None = ends, RowIds(ends.row_ids)
        self._made: dict[str, Any] = {}
        self.parts: tuple[tuple[Hashable, Sized], ...] = ()
        """Parts of the list that are kept with it (``held_edges``), that of the last use at the end."""
        self.lock = threading.RLock()

    @staticmethod
    def later(size: int, shape: tuple[int, int], kept: KeptParts, *, complete: bool) -> EdgeList:
        """A list of which everything is on disk until it is used."""
        nothing = Ends(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.uint64))
        edges = EdgeList(nothing, shape, complete=complete)
        edges.size, edges.kept, edges._ends = size, kept, None
        return edges

    @property
    def src(self) -> Codes:
        """The ordinal of the source by position."""
        return self._content()[0].src

    @property
    def dst(self) -> Codes:
        """The ordinal of the target by position."""
        return self._content()[0].dst

    @property
    def rows(self) -> RowIds:
        """The row ids by position."""
        return self._content()[1]

    @property
    def is_loaded(self) -> bool:
        """Whether any of it was used yet; otherwise the first use loads it from disk."""
        return self._ends is not None or bool(self._made)

    def keep(self, kept: KeptParts) -> None:
        """Keep the ends and the adjacency on disk, that made so far and that to come."""
        with holding(self.lock):
            ends, _ = self._content()
            arrays = ends._asdict()
            written = kept.write(ENDS, arrays)
            if written is None:
                return
            self.kept = kept
            if written is not arrays:
                self._ends = Ends(**written), RowIds(written["row_ids"])
            for name, made in list(self._made.items()):
                self._made[name] = self._write(name, made)

    def _content(self) -> tuple[Ends, RowIds]:
        ends = self._ends
        if ends is None:
            with holding(self.lock):
                if self._ends is None:
                    assert self.kept is not None
                    found = self.kept.ends()
                    self._ends = found, RowIds(found.row_ids)
                ends = self._ends
        return ends

    @staticmethod
    def read(
        pinned: PinnedTable, sources: NodeSpace, targets: NodeSpace, thresholds: ViewThresholds
    ) -> EdgeList:
        """The ends as they are stored, each looked up among the nodes."""
        ends = read_ends(pinned, sources, targets, thresholds)
        # By row id, which only grows: then a later state is this one and more at its end, and positions stay
        # what they are.
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
        fresh = self.src[before.size :], self.dst[before.size :]
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

    def neighbours(self) -> Csr:
        """Either way along an edge to another node."""
        both = self.both()
        return self._once("neighbours", both.without_loops) if self.loops().any() else both

    def multi(self, direction: Direction) -> MultiCsr:
        """Adjacency by stored edge; both ways a self-loop counts once."""
        return self._once(f"multi-{direction.value}", lambda: self._multi(direction))

    def loops(self) -> Mask:
        """Which nodes have a stored edge to themselves."""

        def build() -> Mask:
            found = np.zeros(self.shape[0], np.bool_)
            found[self.src[self.src == self.dst]] = True
            return found

        return self._once("loops", build)

    def looped(self) -> Codes:
        """The positions of the edges from a node to itself."""

        def build() -> Codes:
            return np.flatnonzero(self.src == self.dst).astype(np.int32)

        return self._once("looped", build)

    @property
    def nbytes(self) -> int:
        """The bytes of everything made so far."""
        made: int = sum(_held(part) for part in list(self._made.values()))
        made += sum(one.nbytes for _, one in self.parts)
        if self._ends is None:
            return made
        ends, rows = self._ends
        return held_bytes(ends.src, ends.dst) + rows.nbytes + made

    def _multi(self, direction: Direction) -> MultiCsr:
        positions = np.arange(self.size, dtype=np.int32)
        if direction is Direction.OUT:
            return multi_csr_of(self.src, self.dst, positions, self.shape)
        if direction is Direction.IN:
            return multi_csr_of(self.dst, self.src, positions, self.shape[::-1])
        # A loop read backwards is the same edge again.
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
            with holding(self.lock):
                made = self._made.get(name)
                if made is None:
                    made = self._read(name)
                    if made is None:
                        # Here, because the thread that builds would wait for this lock for ever.
                        self._content()
                        made = self._build(name, build)
                    self._made[name] = made
        return made

    def _build(self, name: str, build: Callable[[], T]) -> T:
        """A part, made by the first process that needs it."""
        with self._alone(name):
            found: T | None = self._read(name)
            if found is None:
                found = self._built_on_disk(name)
            if found is None:
                found = self._write(name, aside(build, items=self.size))
        return found

    def _alone(self, name: str) -> AbstractContextManager[None]:
        if name not in _KINDS or self.kept is None:
            return nullcontext()
        return self.kept.alone(name)

    def _read(self, name: str) -> Any:
        """A part that was made by another process, if it is kept."""
        if name not in _KINDS or self.kept is None:
            return None
        return self._of_arrays(name, self.kept.read(name))

    def _built_on_disk(self, name: str) -> Any:
        """A part that is too large for memory, made in its file."""
        kind = _KINDS.get(name)
        if kind is None or self.kept is None:
            return None
        shape = self._shape(name)
        out, into = (self.src, self.dst), (self.dst, self.src)
        pairs = [into] if name in _REVERSED else [out, into] if name in _BOTH else [out]
        most: Sizes = {
            "indptr": (np.dtype(np.int64), shape[0] + 1),
            **{part: (np.dtype(np.int32), self.size * len(pairs)) for part in kind.ARRAYS[1:]},
        }
        make = csr_by_parts if kind is Csr else multi_csr_by_parts
        arrays = self.kept.build(name, most, lambda edges: make(pairs, shape, edges))
        return self._of_arrays(name, arrays)

    def _of_arrays(self, name: str, arrays: dict[str, npt.NDArray[Any]] | None) -> Any:
        kind, shape = _KINDS[name], self._shape(name)
        if arrays is None or not _fits(kind, arrays, shape[0]):
            return None
        return kind(**arrays, shape=shape)

    def _shape(self, name: str) -> tuple[int, int]:
        return self.shape[::-1] if name in _REVERSED else self.shape

    def _write(self, name: str, made: Any) -> Any:
        """Keep a part that was just made. Returns it, or the one on disk in its place."""
        kind = _KINDS.get(name)
        if kind is None or self.kept is None:
            return made
        arrays = {part: getattr(made, part) for part in kind.ARRAYS}
        written = self.kept.write(name, arrays)
        return made if written is None or written is arrays else kind(**written, shape=made.shape)


def _fits(kind: type[Csr | MultiCsr], arrays: dict[str, npt.NDArray[Any]], row_count: int) -> bool:
    """Whether arrays form a valid adjacency of this kind and size: compiled loops do not check bounds."""
    if set(arrays) != set(kind.ARRAYS):
        return False
    indptr, *others = (arrays[name] for name in kind.ARRAYS)
    return (
        indptr.dtype == np.int64
        and indptr.size == row_count + 1
        and all(array.dtype == np.int32 and array.size == indptr[-1] for array in others)
    )


def _held(part: Any) -> int:
    """The bytes of memory of adjacency, or of a mask."""
    if not isinstance(part, Csr | MultiCsr):
        return int(part.nbytes)
    # Arrays that are made when they are needed lie in no file.
    arrays = (part.__dict__.get(name) for name in part.ARRAYS)
    mapped: int = sum(array.nbytes for array in arrays if array is not None and is_mapped(array))
    return part.nbytes - mapped
