"""The nodes whose vectors are nearest to one: squared Euclidean distance, as float32.

Vectors in memory are compared all at once by a matrix product. Its rounding only decides which of them
are measured again exactly, so the score of a node does not depend on the way it was found. Vectors that
are not in memory are found through the vector index and measured again as well.

    vectors [0, 0], [3, 4], null; nearest to [0, 1], limit 1   ->   node 0, distance 1.0
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.read.kernels.arrays import Codes, Floats
from omnigraph.read.search.text_match import own_index
from omnigraph.read.thresholds import SearchThresholds
from omnigraph.read.values.column import Column
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.view import View
from omnigraph.storage.tables.indexing.index_kinds import ROWS_PER_PARTITION

Vectors = npt.NDArray[np.float32]


# The index fetches this many times the vectors asked for, and measures those exactly.
_REFINE: Final = 5


class _Measured:
    """Vectors by ordinal (zero where null) with their squared lengths: what is kept in memory."""

    def __init__(self, vectors: Vectors, absent: npt.NDArray[np.bool_] | None) -> None:
        self.vectors = vectors
        self.absent = absent
        with np.errstate(over="ignore"):
            self.squares = np.einsum("ij,ij->i", vectors, vectors)

    @property
    def nbytes(self) -> int:
        absent = 0 if self.absent is None else self.absent.nbytes
        return int(self.vectors.nbytes + self.squares.nbytes + absent)


def nearest_nodes(
    view: View,
    space: NodeSpace,
    name: str,
    query: Any,
    candidates: Codes | None,
    limit: int | None,
) -> tuple[Codes, Floats]:
    """Ordinals and distances, in no order: at least the best ``limit`` and all tied with the last."""
    target = np.asarray(query, np.float32)
    nothing = np.empty(0, np.int32), np.empty(0, np.float64)
    if space.size == 0 or space.stored_name(name) is None or limit == 0:
        return nothing
    if candidates is not None and len(candidates) == 0:
        return nothing
    count = space.size if candidates is None else len(candidates)
    all_bytes = space.size * target.nbytes
    thresholds = view.thresholds.search
    in_memory = _is_in_memory(view, space, name)
    few = count * target.nbytes <= thresholds.taken_bytes
    if not in_memory and candidates is not None and few:
        return _taken(space, name, target, candidates, limit, thresholds)
    is_slow = all_bytes > thresholds.fast_bytes
    if is_slow or (not in_memory and _is_first_question(view, space, name)):
        found = _looked_up(view, space, name, target, candidates, limit)
        if found is not None:
            return found
    if not in_memory and all_bytes > thresholds.kept_bytes:
        return _streamed(space, name, target, candidates, limit, thresholds)
    return _among(_in_memory(view, space, name), target, candidates, limit, thresholds)


def _is_first_question(view: View, space: NodeSpace, name: str) -> bool:
    """Whether this is the first query for these vectors; one query alone does not load all of them."""
    key = ("vectors asked", *_memory_key(space, name)[1:])
    asked = view.cache.peek(key) is not None
    view.cache.get(key, lambda: True, lambda _: 64)
    return not asked


# -- vectors in memory


def _memory_key(space: NodeSpace, name: str) -> Any:
    return ("vectors", space.column_key(name))


def _is_in_memory(view: View, space: NodeSpace, name: str) -> bool:
    return view.cache.peek(_memory_key(space, name)) is not None


def _in_memory(view: View, space: NodeSpace, name: str) -> _Measured:
    def build() -> _Measured:
        column: Column = space.column(name)
        return _Measured(_matrix(column.array), _absent(column.array))

    return view.cache.get(_memory_key(space, name), build, lambda made: made.nbytes)


def _matrix(array: pa.Array) -> Vectors:
    """The vectors as rows. Nulls become zero, because the bytes behind them are undefined."""
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    vectors: Vectors = values.to_numpy(zero_copy_only=False).reshape(len(array), width)
    absent = _absent(array)
    return vectors if absent is None else np.where(absent[:, None], np.float32(0), vectors)


def _absent(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    if array.null_count == 0:
        return None
    found: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return found


def _among(
    measured: _Measured,
    target: Vectors,
    candidates: Codes | None,
    limit: int | None,
    thresholds: SearchThresholds,
) -> tuple[Codes, Floats]:
    """The best of the candidates, by rough distances first and exact ones where they could matter."""
    absent = measured.absent
    if absent is not None and candidates is not None:
        absent = absent[candidates]
    # Beyond float32 everything is infinite or not a number, and measured exactly.
    with np.errstate(over="ignore", invalid="ignore"):
        rough, squares = _rough(measured, target, candidates, thresholds.vectors_at_once)
        codes = np.arange(len(rough), dtype=np.int32)
        if absent is not None:
            codes = codes[~absent]
        if limit is not None and len(codes) > limit:
            few = thresholds.near_vectors
            codes = codes[_could_be_best(rough[codes], squares[codes], target, limit, few)]
    if candidates is not None:
        codes = candidates[codes]
    return codes, _exact(measured.vectors, codes, target, thresholds.vectors_at_once)


def _rough(
    measured: _Measured, target: Vectors, candidates: Codes | None, at_once: int
) -> tuple[Vectors, Vectors]:
    """Approximate distances, all less by the same constant, and the squared lengths of the vectors."""
    if candidates is None:
        return measured.squares - 2 * (measured.vectors @ target), measured.squares
    squares = measured.squares[candidates]
    if 8 * len(candidates) > len(measured.squares):
        return squares - 2 * (measured.vectors @ target)[candidates], squares
    parts = [
        measured.vectors[candidates[begin : begin + at_once]] @ target
        for begin in range(0, len(candidates), at_once)
    ]
    return squares - 2 * np.concatenate(parts), squares


def _could_be_best(
    rough: Vectors, squares: Vectors, target: Vectors, limit: int, few: int
) -> npt.NDArray[np.intp]:
    """The positions that can be among the best ``limit`` when rough distances are off a little."""
    exact = target.astype(np.float64)
    length = np.sqrt(exact @ exact)
    unit = (len(target) + 8) * np.finfo(np.float32).eps
    # The error of a dot product is bounded by the product of both lengths. One bound for all is
    # coarse, and cheap; where it keeps too many, each gets its own.
    slack = unit * (np.sqrt(float(squares.max())) + length) ** 2
    bound = float(np.partition(rough, limit - 1)[limit - 1]) + 2 * slack
    near = np.flatnonzero(~(rough > bound))
    if len(near) > limit + few:
        own = unit * (np.sqrt(squares[near].astype(np.float64)) + length) ** 2
        values = rough[near].astype(np.float64)
        # Distances are compared as float32, so what rounds to the same is tied.
        upper = np.partition(values + own, limit - 1)[limit - 1]
        upper += np.finfo(np.float32).eps * (abs(upper) + length**2)
        near = near[~(values - own > upper)]
    return near


def _exact(vectors: Vectors, codes: Codes, target: Vectors, at_once: int) -> Floats:
    """Squared distances, summed in double precision and rounded to float32."""
    distances = np.empty(len(codes), np.float64)
    wide = target.astype(np.float64)
    for begin in range(0, len(codes), at_once):
        look()
        part = codes[begin : begin + at_once]
        with np.errstate(invalid="ignore"):
            apart = vectors[part].astype(np.float64) - wide
        distances[begin : begin + len(part)] = np.einsum("ij,ij->i", apart, apart)
    distances[np.isnan(distances)] = np.inf
    with np.errstate(over="ignore"):
        return distances.astype(np.float32).astype(np.float64)


# -- vectors on disk


def _taken(
    space: NodeSpace,
    name: str,
    target: Vectors,
    candidates: Codes,
    limit: int | None,
    thresholds: SearchThresholds,
) -> tuple[Codes, Floats]:
    """A few candidates, fetched."""
    array = space.values(name, candidates)
    measured = _Measured(_matrix(array), _absent(array))
    codes, distances = _among(measured, target, None, limit, thresholds)
    return candidates[codes], distances


def _streamed(
    space: NodeSpace,
    name: str,
    target: Vectors,
    candidates: Codes | None,
    limit: int | None,
    thresholds: SearchThresholds,
) -> tuple[Codes, Floats]:
    """Read all vectors as a stream and keep the best: for more vectors than memory should hold."""
    column = space.stored_name(name)
    assert column is not None
    wanted = None if candidates is None else np.zeros(space.size, np.bool_)
    if wanted is not None:
        wanted[candidates] = True
    best, distances = np.empty(0, np.int32), np.empty(0, np.float64)
    at_once = thresholds.vectors_at_once
    for batch in space.pinned.table.scan([column], with_row_id=True, batch_size=at_once):
        look()
        codes = space.ordinals_of_row_ids(batch.column("_rowid").to_numpy())
        kept = codes >= 0 if wanted is None else (codes >= 0) & wanted[codes]
        array = batch.column(column)
        rows = np.flatnonzero(kept).astype(np.int32)
        if not rows.size:
            continue
        measured = _Measured(_matrix(array), _absent(array))
        places, found = _among(measured, target, rows, limit, thresholds)
        best = np.concatenate([best, codes[places]])
        distances = np.concatenate([distances, found])
        if limit is not None and len(best) > limit:
            near = distances <= np.partition(distances, limit - 1)[limit - 1]
            best, distances = best[near], distances[near]
    return best, distances


def _looked_up(
    view: View,
    space: NodeSpace,
    name: str,
    target: Vectors,
    candidates: Codes | None,
    limit: int | None,
) -> tuple[Codes, Floats] | None:
    """The best through the vector index; None when it is not there or cannot give enough."""
    if limit is None or (own := own_index(view, space, name, IndexKind.VECTOR)) is None:
        return None
    if own.tail_rows * 8 > space.size or not np.isfinite(target).all():
        return None
    thresholds = view.thresholds.search
    share = 1.0 if candidates is None else len(candidates) / space.size
    count = int(limit / share * (1.0 if candidates is None else 1.5)) + thresholds.spare_vectors
    if count > min(thresholds.looked_up_vectors, space.size):
        return None
    wanted = None
    if candidates is not None:
        wanted = np.zeros(space.size, np.bool_)
        wanted[candidates] = True
    rows = space.pinned.table.read(
        [own.column],
        with_row_id=True,
        nearest={
            "column": own.column,
            "q": target,
            "k": count,
            "refine_factor": _REFINE,
            "nprobes": 4 + space.size // (10 * ROWS_PER_PARTITION),
        },
        disable_scoring_autoprojection=True,
    )
    codes = space.ordinals_of_row_ids(rows.column("_rowid").to_numpy())
    kept = codes >= 0 if wanted is None else (codes >= 0) & wanted[codes]
    array = rows.column(own.column).combine_chunks()
    rows_kept = np.flatnonzero(kept).astype(np.int32)
    distances = _exact(_matrix(array), rows_kept, target, thresholds.vectors_at_once)
    codes = codes[kept]
    if len(codes) < limit:
        return None
    ranked = np.sort(distances)
    # Everything tied with the last one must be among them, and more may be tied beyond.
    return None if ranked[limit - 1] == ranked[-1] else (codes, distances)
