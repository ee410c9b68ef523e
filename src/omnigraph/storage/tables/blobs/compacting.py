"""How a table with blobs is compacted: Lance holds about twice the blobs of a batch while it rewrites.

So a batch has as few rows as keep its blobs within ``BATCH_BYTES``, and a fragment with a larger blob is
left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
class BlobSizes:
    """The bytes of the blobs in one fragment that the table keeps itself."""

    largest: int = 0
    """The most that any row has."""
    total: int = 0

    @property
    def too_large(self) -> bool:
        """Whether a row does not fit into a batch."""
        return self.largest > BATCH_BYTES


def blob_sizes(table: Table, fragment_ids: Sequence[int]) -> dict[int, BlobSizes]:
    """The sizes by fragment, from the descriptors; no blob is opened. Empty without blob columns."""
    import numpy as np

    columns = blob_columns(table.schema)
    found: dict[int, BlobSizes] = {}
    if not columns or not fragment_ids:
        return found
    for batch in table.scan(columns, with_row_address=True, fragment_ids=fragment_ids):
        sizes = sum((_sizes(batch.column(name)) for name in columns), np.zeros(1, np.uint64))
        numbers = batch.column("_rowaddr").to_numpy() >> np.uint64(32)
        for number in np.unique(numbers).tolist():
            here, before = sizes[numbers == number], found.get(number, BlobSizes())
            largest = max(int(here.max()), before.largest)
            found[number] = BlobSizes(largest, before.total + int(here.sum()))
    return found


def batch_rows(sizes: Iterable[BlobSizes]) -> int | None:
    """How many rows a batch of these fragments may have; None for any number."""
    largest = max((one.largest for one in sizes), default=0)
    return BATCH_BYTES // largest if largest else None


def _sizes(descriptors: pa.Array) -> npt.NDArray[np.uint64]:
    """The bytes that the table keeps for each value; none for an address."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, sizes = (pc.struct_field(descriptors, part) for part in ("kind", "size"))
    kept = pc.not_equal(kinds, pa.scalar(EXTERNAL, kinds.type))
    managed = pc.if_else(kept, sizes, pa.scalar(0, sizes.type))
    found: npt.NDArray[np.uint64] = pc.fill_null(managed, 0).to_numpy(zero_copy_only=False)
    return found
