"""The nodes whose vectors are nearest to one, by the metric of the property.

Vectors are measured in memory (`measured.py`), all of them or a few that are fetched, so that the answer is exact.
Only of more vectors than that is quick for are candidates found through the vector index, and measured again.

    vectors [0, 0], [3, 4], null; nearest to [0, 1], limit 1   ->   node 0, distance 1.0
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from omnigraph.cancel import look
from omnigraph.lang.schema.indexes import VECTOR_KINDS
from omnigraph.lang.schema.shape import DEFAULT_METRIC, Metric
from omnigraph.read.kernels.arrays import Codes, Floats
from omnigraph.read.search.measured import MeasuredVectors, Vectors
from omnigraph.read.search.text_match import own_index
from omnigraph.read.thresholds import SearchThresholds
from omnigraph.read.values.column import Column
from omnigraph.read.view.nodes import NodeSpace
from omnigraph.read.view.view import View
from omnigraph.storage.tables.indexing.index_kinds import ROWS_PER_PARTITION

# The index fetches this many times the vectors asked for, and measures those exactly.
_REFINE: Final = 5


def nearest_nodes(
    view: View,
    space: NodeSpace,
    name: str,
    query: Any,
    candidates: Codes | None,
    limit: int | None,
    metric: Metric = DEFAULT_METRIC,
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
    in_memory = _is_in_memory(view, space, name, metric)
    few = count * target.nbytes <= thresholds.taken_bytes
    if not in_memory and candidates is not None and few:
        return _taken(space, name, target, candidates, limit, metric, thresholds)
    if all_bytes > thresholds.fast_bytes:
        found = _looked_up(view, space, name, target, candidates, limit, metric)
        if found is not None:
            return found
    if not in_memory and all_bytes > thresholds.kept_bytes:
        return _streamed(space, name, target, candidates, limit, metric, thresholds)
    return _in_memory(view, space, name, metric).among(target, candidates, limit, thresholds)


# -- vectors in memory


def _memory_key(space: NodeSpace, name: str, metric: Metric) -> Any:
    return ("vectors", space.column_key(name), metric)


def _is_in_memory(view: View, space: NodeSpace, name: str, metric: Metric) -> bool:
    return view.cache.peek(_memory_key(space, name, metric)) is not None


def _in_memory(view: View, space: NodeSpace, name: str, metric: Metric) -> MeasuredVectors:
    def build() -> MeasuredVectors:
        column: Column = space.column(name)
        return MeasuredVectors(column.array, metric)

    return view.cache.get(_memory_key(space, name, metric), build, lambda made: made.nbytes)


# -- vectors on disk


def _taken(
    space: NodeSpace,
    name: str,
    target: Vectors,
    candidates: Codes,
    limit: int | None,
    metric: Metric,
    thresholds: SearchThresholds,
) -> tuple[Codes, Floats]:
    """A few candidates, fetched."""
    measured = MeasuredVectors(space.values(name, candidates), metric)
    codes, distances = measured.among(target, None, limit, thresholds)
    return candidates[codes], distances


def _streamed(
    space: NodeSpace,
    name: str,
    target: Vectors,
    candidates: Codes | None,
    limit: int | None,
    metric: Metric,
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
        rows = np.flatnonzero(kept).astype(np.int32)
        if not rows.size:
            continue
        measured = MeasuredVectors(batch.column(column), metric)
        places, found = measured.among(target, rows, limit, thresholds)
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
    metric: Metric,
) -> tuple[Codes, Floats] | None:
    """The best through the vector index; None when it is not there or cannot give enough."""
    own = None if limit is None else own_index(view, space, name, VECTOR_KINDS[metric])
    if limit is None or own is None:
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
    asked = target.astype(np.float64)
    if metric == "cosine":
        # Lance squares it in float32, where great and small lengths run over or vanish.
        asked /= np.sqrt(asked @ asked)
    rows = space.pinned.table.read(
        [own.column],
        with_row_id=True,
        nearest={
            "column": own.column,
            "q": asked.astype(np.float32),
            "metric": metric,
            "k": count,
            "refine_factor": _REFINE,
            "nprobes": 4 + space.size // (10 * ROWS_PER_PARTITION),
        },
        disable_scoring_autoprojection=True,
    )
    codes = space.ordinals_of_row_ids(rows.column("_rowid").to_numpy())
    kept = codes >= 0 if wanted is None else (codes >= 0) & wanted[codes]
    measured = MeasuredVectors(rows.column(own.column).combine_chunks(), metric)
    if measured.absent is not None:
        kept &= ~measured.absent
    rows_kept = np.flatnonzero(kept).astype(np.int32)
    distances = measured.exact(rows_kept, target, thresholds.vectors_at_once)
    codes = codes[kept]
    if len(codes) < limit:
        return None
    ranked = np.sort(distances)
    # Everything tied with the last one must be among them, and more may be tied beyond.
    return None if ranked[limit - 1] == ranked[-1] else (codes, distances)
