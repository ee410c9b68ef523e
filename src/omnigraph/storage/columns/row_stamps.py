"""What Lance keeps of each row besides its values, carried from one fragment to another.

A row has a stable id, the version that created it and the version that changed it last. Fragments
written anew have none of them, and after a rewrite deltas would then miss changes silently. Lance
derives the stamps by itself in an update, but not in a rewrite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from omnigraph.storage.lance_format.row_versions import encoded, runs_of
from omnigraph.storage.tables.lance_import import lance_module

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

ROW_ID: Final = "_rowid"
CREATED: Final = "_row_created_at_version"
CHANGED: Final = "_row_last_updated_at_version"
STAMPS: Final = (ROW_ID, CREATED, CHANGED)


class RowStamps:
    """Collects the stamps of rows in the order in which they are written."""

    def __init__(self) -> None:
        self._seen: dict[str, list[npt.NDArray[np.uint64]]] = {name: [] for name in STAMPS}

    def add(self, batch: pa.RecordBatch) -> None:
        """Remember the stamps of a batch that was read with the columns of ``STAMPS``."""
        for name, seen in self._seen.items():
            seen.append(batch.column(name).to_numpy(zero_copy_only=False))

    def put_on(self, fragment: Any) -> None:
        """Make the rows of a new fragment the rows that were collected."""
        import numpy as np
        import pyarrow as pa

        stamps = {name: np.concatenate(seen) for name, seen in self._seen.items()}
        lance_fragment = lance_module("fragment")
        ids = lance_fragment.RowIdSequence(pa.array(stamps[ROW_ID], pa.uint64()))
        fragment.row_id_meta = ids.to_inline_metadata()
        created, changed = (
            lance_fragment.RowDatasetVersionMeta.from_json(encoded(runs_of(stamps[name])))
            for name in (CREATED, CHANGED)
        )
        fragment.created_at_version_meta, fragment.last_updated_at_version_meta = created, changed
