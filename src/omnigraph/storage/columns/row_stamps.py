"""What Lance keeps of each row besides its values, carried from one fragment to another.

A row has a stable id, the version that created it and the version that changed it last. Fragments
written anew have none of them, and after a rewrite deltas would then miss changes silently. Lance
derives the stamps by itself in an update, but not in a rewrite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
        ids = lance_module("fragment").RowIdSequence(pa.array(stamps[ROW_ID], pa.uint64()))
        fragment.row_id_meta = ids.to_inline_metadata()
        fragment.created_at_version_meta = _versions(stamps[CREATED])
        fragment.last_updated_at_version_meta = _versions(stamps[CHANGED])


def _versions(versions: npt.NDArray[np.uint64]) -> Any:
    """Versions row by row in the form Lance stores them: a run of rows, then their version.

    A run is the protobuf message `{1: {1: {2: number of rows}}, 2: version}`; the sequence has its
    runs in field 1. There is no other way to make one in pylance 14. There may be as many runs as
    rows, but few different ones, so each is encoded once.
    """
    import numpy as np

    starts = np.flatnonzero(np.r_[True, versions[1:] != versions[:-1]])
    counts = np.diff(np.r_[starts, len(versions)]).astype(np.uint64)
    # Both numbers have at most 32 bits: those of the rows of a file, and of the versions of a table.
    different, which = np.unique(counts << np.uint64(32) | versions[starts], return_inverse=True)
    texts = [_run_text(key >> 32, key & 0xFFFF_FFFF) for key in different.tolist()]
    runs = np.array(texts, dtype=object)[which].tolist()
    return lance_module("fragment").RowDatasetVersionMeta.from_json(
        f'{{"inline": [{",".join(runs)}]}}'
    )


def _run_text(count: int, version: int) -> str:
    """The bytes of one run as JSON lists them."""
    rows = _field(1, _field(1, b"\x10" + _varint(count)))
    return ",".join(map(str, _field(1, rows + b"\x10" + _varint(version))))


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited field of a protobuf message."""
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
