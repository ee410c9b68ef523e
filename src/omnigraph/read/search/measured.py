"""Vectors in memory, measured by a metric, as float32.

All are compared at once by a matrix product. Its rounding only decides which of them are measured again
exactly, so the score of a node does not depend on the way it was found. A vector without a direction has no
distance under `cosine`, and is left out as a missing one is.

    vectors [0, 0], [3, 4], null; nearest to [0, 1]
        l2       node 0: 1.0, node 1: 18.0
        cosine   node 1: 0.2
        dot      node 1: -3.0, node 0: 1.0
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.cancel import look
from omnigraph.lang.schema.shape import Metric
from omnigraph.read.kernels.arrays import Codes, Floats
from omnigraph.read.thresholds import SearchThresholds

Vectors = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.floating]

_EPS = float(np.finfo(np.float32).eps)
_PLAIN = 1e-15, 1e15
"""Between these lengths products of vectors neither vanish nor run over in float32."""


class MeasuredVectors:
    """Vectors by ordinal (zero where null) with their squared lengths: what is kept in memory."""

    def __init__(self, array: pa.Array, metric: Metric) -> None:
        self.metric = metric
        self.vectors, self.absent = _matrix(array)
        if metric == "cosine":
            self.squares: Numbers = np.einsum(
                "ij,ij->i", self.vectors, self.vectors, dtype=np.float64
            )
            nowhere = self.squares == 0
            if nowhere.any():
                self.absent = nowhere
        else:
            with np.errstate(over="ignore"):
                self.squares = np.einsum("ij,ij->i", self.vectors, self.vectors)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        absent = 0 if self.absent is None else self.absent.nbytes
        return int(self.vectors.nbytes + self.squares.nbytes + absent)

    def among(
        self,
        target: Vectors,
        candidates: Codes | None,
        limit: int | None,
        thresholds: SearchThresholds,
    ) -> tuple[Codes, Floats]:
        """The best of the candidates, by rough distances first and exact ones where they could matter."""
        count = len(self.vectors) if candidates is None else len(candidates)
        codes = np.arange(count, dtype=np.int32)
        if self.absent is not None:
            absent = self.absent if candidates is None else self.absent[candidates]
            codes = codes[~absent]
        if limit is not None and len(codes) > limit:
            # Beyond float32 everything is infinite or not a number, and measured exactly.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                codes = self._near(target, candidates, codes, limit, thresholds)
        if candidates is not None:
            codes = candidates[codes]
        return codes, self.exact(codes, target, thresholds.vectors_at_once)

    def _near(
        self,
        target: Vectors,
        candidates: Codes | None,
        codes: Codes,
        limit: int,
        thresholds: SearchThresholds,
    ) -> Codes:
        """The places of those that can be among the best ``limit``."""
        dots = self._dots(target, candidates, thresholds.vectors_at_once)[codes]
        squares: Numbers = self.squares if candidates is None else self.squares[candidates]
        squares = squares[codes]
        length = float(np.sqrt(target.astype(np.float64) @ target))
        match self.metric:
            case "l2":
                # All are less by the same constant, the squared length of the target.
                rough: Numbers = squares - 2 * dots
            case "cosine":
                lengths = np.sqrt(squares)
                ends = float(lengths.min()), float(lengths.max()), length
                if not all(_PLAIN[0] < one < _PLAIN[1] for one in ends):
                    return codes
                rough = -dots / (lengths * length)
                squares, length = np.broadcast_to(1.0, rough.shape), 1.0
            case "dot":
                # Their rounding to float32 counts too, beside the one that the distance begins with.
                rough, length = -dots, max(length, 1.0)
        if not np.isfinite(rough).all():
            # What ran over says nothing: the true distance may be finite, or infinite as others are.
            return codes
        few = thresholds.near_vectors
        return codes[_could_be_best(rough, squares, length, len(target), limit, few)]

    def _dots(self, target: Vectors, candidates: Codes | None, at_once: int) -> Vectors:
        """The product of each vector with the target, roughly."""
        if candidates is None:
            whole: Vectors = self.vectors @ target
            return whole
        if 8 * len(candidates) > len(self.vectors):
            chosen: Vectors = (self.vectors @ target)[candidates]
            return chosen
        parts = [
            self.vectors[candidates[begin : begin + at_once]] @ target
            for begin in range(0, len(candidates), at_once)
        ]
        return np.concatenate(parts)

    def exact(self, codes: Codes, target: Vectors, at_once: int) -> Floats:
        """Distances, summed in double precision and rounded to float32."""
        distances = np.empty(len(codes), np.float64)
        wide = target.astype(np.float64)
        for begin in range(0, len(codes), at_once):
            look()
            part = self.vectors[codes[begin : begin + at_once]].astype(np.float64)
            with np.errstate(invalid="ignore", over="ignore"):
                distances[begin : begin + len(part)] = self._distances(part, wide)
        distances[np.isnan(distances)] = np.inf
        with np.errstate(over="ignore"):
            return distances.astype(np.float32).astype(np.float64)

    def _distances(self, vectors: Floats, target: Floats) -> Numbers:
        if self.metric == "l2":
            apart = vectors - target
            squares: Numbers = np.einsum("ij,ij->i", apart, apart)
            return squares
        products: Floats = np.einsum("ij,j->i", vectors, target)
        if self.metric == "cosine":
            products /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * np.sqrt(target @ target)
        # Rounded first: vectors of one direction are equally far.
        rounded: Vectors = np.float32(1) - products.astype(np.float32)
        return rounded


def _matrix(array: pa.Array) -> tuple[Vectors, Mask | None]:
    """The vectors as rows, and which are null. Those are zero, because the bytes behind them are undefined."""
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    vectors: Vectors = values.to_numpy(zero_copy_only=False).reshape(len(array), width)
    if array.null_count == 0:
        return vectors, None
    absent: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return np.where(absent[:, None], np.float32(0), vectors), absent


def _could_be_best(
    rough: Numbers, squares: Numbers, length: float, width: int, limit: int, few: int
) -> npt.NDArray[np.intp]:
    """The positions that can be among the best ``limit`` when rough distances are off a little.

    The error of a product is bounded by the product of both lengths. One bound for all is coarse, and
    cheap; where it keeps too many, each gets its own.
    """
    unit = (width + 8) * _EPS
    slack = unit * (np.sqrt(float(squares.max())) + length) ** 2
    bound = float(np.partition(rough, limit - 1)[limit - 1]) + 2 * slack
    near = np.flatnonzero(~(rough > bound))
    if len(near) > limit + few:
        own = unit * (np.sqrt(squares[near].astype(np.float64)) + length) ** 2
        values = rough[near].astype(np.float64)
        # Distances are compared as float32, so what rounds to the same is tied.
        upper = np.partition(values + own, limit - 1)[limit - 1]
        upper += _EPS * (abs(upper) + length**2)
        near = near[~(values - own > upper)]
    return near
