"""How a table with blobs is compacted: Lance holds about twice the blobs of a batch while it rewrites.

So a batch has as few rows as keep its blobs within ``BATCH_BYTES``, and a fragment with a larger blob is
left as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.storage.tables.blobs.columns import blob_columns
from omnigraph.storage.tables.blobs.reading import EXTERNAL
from omnigraph.storage.tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

BATCH_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class BlobLimits:
    """How many rows a batch may have, None for any number; and the fragments to leave alone."""

    batch_rows: int | None = None
    too_large: tuple[int, ...] = ()


def blob_limits(table: Table, excluded: Collection[int] = ()) -> BlobLimits:
    """The limits for a compaction of a table, from the sizes of its blobs; none of them is opened."""
    import numpy as np

    columns = blob_columns(table.schema)
    fragments = [one.id for one in table.fragments() if one.id not in set(excluded)]
    if not columns or not fragments:
        return BlobLimits()
    largest: dict[int, int] = {}
    for batch in table.scan(columns, with_row_address=True, fragment_ids=fragments):
        sizes = sum((_sizes(batch.column(name)) for name in columns), np.zeros(1, np.uint64))
        numbers = batch.column("_rowaddr").to_numpy() >> np.uint64(32)
        for number in np.unique(numbers).tolist():
            here = int(sizes[numbers == number].max())
            largest[number] = max(here, largest.get(number, 0))
    too_large = tuple(sorted(number for number, size in largest.items() if size > BATCH_BYTES))
    rest = max((size for size in largest.values() if size <= BATCH_BYTES), default=0)
    return BlobLimits(BATCH_BYTES // rest if rest else None, too_large)


def _sizes(descriptors: pa.Array) -> npt.NDArray[np.uint64]:
    """The bytes that the table keeps for each value; none for an address."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, sizes = (pc.struct_field(descriptors, part) for part in ("kind", "size"))
    kept = pc.not_equal(kinds, pa.scalar(EXTERNAL, kinds.type))
    managed = pc.if_else(kept, sizes, pa.scalar(0, sizes.type))
    found: npt.NDArray[np.uint64] = pc.fill_null(managed, 0).to_numpy(zero_copy_only=False)
    return found
