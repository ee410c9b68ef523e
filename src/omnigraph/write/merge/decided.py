"""What a merge decides about the entities of one table, and the conflicts that a person has to decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.display.text import printable, shortened
from omnigraph.errors import MergeConflicts
from omnigraph.lang.schema.merge.conflicts import SchemaConflictKind
from omnigraph.write.merge.resolutions import NO_RESOLUTIONS, Resolutions

EntityConflictKind = Literal["divergent_insert", "divergent_update", "delete_vs_update"]
GraphConflictKind = Literal[
    "orphan_edge", "unique_violation", "cardinality_violation", "value_constraint_violation"
]
ConflictKind = EntityConflictKind | GraphConflictKind | SchemaConflictKind

NAMED = 3
"""How many conflicts the text of the error names."""


@dataclass(frozen=True, slots=True, repr=False)
class MergeConflict:
    """One conflict of a merge or a revert.

    ``row_id`` is the id of the entity in conflict; of an ``orphan_edge`` that of the edge, of a
    ``unique_violation`` that of the incoming entity, and None where a rule is about several.
    ``detail`` has what is known besides: the node that an edge lost, the value that two entities
    share, or the ``base``, ``source`` and ``target`` images if these were asked for.
    """

    kind: ConflictKind
    table_key: str
    row_id: str | None
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def entity_kind(self) -> str:
        """``node`` or ``edge``; of a schema in conflict also ``interface``."""
        return self.table_key.partition(":")[0]

    @property
    def type_name(self) -> str:
        """The type of the entity."""
        return self.table_key.partition(":")[2]

    def __repr__(self) -> str:
        # Images in ``detail`` may hold long texts and vectors.
        where = f"{self.kind} in {self.table_key}"
        return f"<omnigraph.MergeConflict {where}: {shortened(printable(self.message), 100)}>"

    def to_json(self) -> dict[str, Any]:
        """Return the public form; ``detail`` is left out if there is none."""
        record: dict[str, Any] = {
            "kind": self.kind,
            "table_key": self.table_key,
            "entity_kind": self.entity_kind,
            "type_name": self.type_name,
            "row_id": self.row_id,
            "message": self.message,
        }
        if self.detail:
            record["detail"] = dict(self.detail)
        return record


def in_order(conflicts: Iterable[MergeConflict]) -> list[MergeConflict]:
    """Return the conflicts as reports list them: by table, id (None last), kind and message."""
    return sorted(
        conflicts,
        key=lambda one: (
            one.table_key,
            one.row_id is None,
            one.row_id or "",
            one.kind,
            one.message,
        ),
    )


def conflicts_error(
    what: str, conflicts: Sequence[MergeConflict], *, resolved: bool = False
) -> MergeConflicts:
    """Return the error of a merge that ends in these conflicts, given in order.

    ``what`` names the operation, such as ``the merge of side into main``. ``resolved``: a resolution decided
    some entity, and may have given the values that break a rule.
    """
    named = "; ".join(one.message for one in conflicts[:NAMED])
    rest = len(conflicts) - NAMED
    more = f"; and {rest} more" if rest > 0 else ""
    number = "1 conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
    ways = _ways_on(conflicts, resolved=resolved)
    return MergeConflicts(
        f"{what} has {number}: {named}{more}{f'; {ways}' if ways else ''}",
        conflicts=[one.to_json() for one in conflicts],
    )


def _ways_on(conflicts: Sequence[MergeConflict], *, resolved: bool) -> str:
    """What can be done; rules of the whole graph are never resolved away, and each conflict of schemas says
    itself what decides it.
    """
    ways = "change one of the sides and try again"
    kinds = {one.kind for one in conflicts}
    if kinds & set(get_args(EntityConflictKind)):
        return f"{ways}, or decide with `resolve`"
    if kinds & set(get_args(SchemaConflictKind)):
        return "" if len(conflicts) <= NAMED else "each of them says what decides it"
    if resolved and "value_constraint_violation" in kinds:
        return f"{ways}, or let `resolve` give values that keep the rule"
    return ways


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
    """How a merge decides. ``images``: conflicts show the three states of their entity.

    ``short``: these have vectors and blobs by their sizes, and say which of them are the same.
    """

    granularity: Granularity = "entity"
    resolutions: Resolutions = NO_RESOLUTIONS
    images: ShowImages | None = None
    short: bool = False


class BlobOrigin(NamedTuple):
    """Where the values of one Blob column come from, row by row.

    ``side`` holds numbers of ``Side``. ``row_id`` is the row id in that side's table; where the side is
    ``IMAGE`` it is null, and ``given`` has the value, as ``storage/tables/blobs/blob_columns.py`` describes it.
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
