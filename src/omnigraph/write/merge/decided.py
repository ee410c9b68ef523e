"""What a merge decides about the entities of one table: where values come from, and what is left open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.write.merge.conflicts import MergeConflict
from omnigraph.write.merge.resolutions import NO_RESOLUTIONS, Resolutions

Granularity = Literal["entity", "property"]

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


class Side(IntEnum):
    """Where rows, or the values of a row, come from."""

    BASE = 0
    SOURCE = 1
    TARGET = 2
    IMAGE = 3
    """Given by a resolution."""


class Cells(NamedTuple):
    """Rows of one side. Blobs of ``Side.IMAGE`` are values to write, those of other sides descriptors."""

    side: Side
    table: pa.Table


Equal = Callable[[Sequence[str], Cells, Cells], pa.BooleanArray]
"""Compares two sides row by row in the named columns, by image equality; the answer has no null."""
ShowImages = Callable[[Cells], Sequence[Mapping[str, Any]]]
"""Shows the rows of a side as images, ``{properties, endpoints?}``."""


@dataclass(frozen=True, slots=True)
class DecideOptions:
    """How a merge decides. ``images``: conflicts show the three states of their entity."""

    granularity: Granularity = "entity"
    resolutions: Resolutions = NO_RESOLUTIONS
    images: ShowImages | None = None


class BlobOrigin(NamedTuple):
    """Where the values of one Blob column come from, row by row.

    ``side`` holds numbers of ``Side``. ``row_id`` is the row id in that side's table; where the side is
    ``IMAGE`` it is null, and ``given`` has the value, as ``storage/tables/blobs/columns.py`` describes it.
    """

    side: pa.Int8Array
    row_id: pa.UInt64Array
    given: pa.Array


@dataclass(frozen=True, slots=True)
class Decided:
    """What a merge does with one chunk of a table."""

    rows: pa.Table
    """The rows to write, by id: ``id``, the ends of edges, every property. Blobs are descriptors; see
    ``blobs`` for the table that each belongs to."""
    replaces: pa.UInt64Array
    """For each of the rows, the target's row id of the row it replaces; null where it is inserted."""
    blobs: Mapping[str, BlobOrigin]
    """By Blob property: where the values of the rows come from."""
    removed: pa.StringArray
    """The ids of the target's rows to delete."""
    cut_off: pa.StringArray
    """Those of ``removed`` that the source has: no cascade of the source removed the edges of such a node."""
    conflicts: tuple[MergeConflict, ...]
    """The entities in conflict that are left."""
    resolved: int
    """How many entities in conflict were decided by a resolution."""
    named: tuple[str, ...]
    """The ids among them that the resolutions name one by one."""
    unmade: Mapping[str, Places]
    """By vector property: the rows whose text a resolution sets; their vector is null and to be made."""


BLOB_VALUE = pa.struct(
    {"data": pa.large_binary(), "uri": pa.utf8(), "position": pa.uint64(), "size": pa.uint64()}
)
"""The type of blob values that a resolution gives."""
