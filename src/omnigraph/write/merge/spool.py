"""Rows on their way through a merge: in memory while they are few, in a file beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.storage.scratch import scratch_directory

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

HELD_BYTES: Final = 32 << 20
"""The bytes of one spool that are held in memory; when there are more, they go to its file."""


class Scratch:
    """Files of one operation, in a directory that is made for the first of them."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self.held_bytes = held_bytes
        self._directory: TemporaryDirectory[str] | None = None
        self._files = 0

    def new_file(self) -> Path:
        """Return the path of a file that is not there yet."""
        if self._directory is None:
            self._directory = scratch_directory()
        self._files += 1
        return Path(self._directory.name) / f"{self._files}.arrow"

    def close(self) -> None:
        """Remove the files."""
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None


class Spool:
    """Rows of one schema, kept in the order in which they are added."""

    def __init__(self, schema: pa.Schema, scratch: Scratch) -> None:
        self.schema = schema
        self.num_rows = 0
        self._scratch = scratch
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._paths: list[Path] = []
        self._writer: Any = None

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        if not rows.num_rows:
            return
        self.num_rows += rows.num_rows
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > self._scratch.held_bytes:
            self._spill()

    def _spill(self) -> None:
        if self._writer is None:
            self._paths.append(self._scratch.new_file())
            self._writer = pa.ipc.new_stream(str(self._paths[-1]), self.schema)
        for rows in self._held:
            self._writer.write_table(rows)
        self._held, self._held_bytes = [], 0

    def finish(self) -> None:
        """Make what was added so far readable."""
        if self._writer is not None:
            self._spill()
            self._writer.close()
            self._writer = None

    def table(self) -> pa.Table:
        """Return all rows; those in a file are mapped and not held in memory."""
        return pa.concat_tables(
            [self.schema.empty_table(), *map(_mapped, self._paths), *self._held]
        )

    def groups(self, most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
        """Yield all rows in tables of about that size, each at least one batch."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self.table().to_batches():
            if waiting and (rows + batch.num_rows > most_rows or size + batch.nbytes > most_bytes):
                yield pa.Table.from_batches(waiting)
                waiting, rows, size = [], 0, 0
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
        if waiting:
            yield pa.Table.from_batches(waiting)


def _mapped(path: Path) -> pa.Table:
    with pa.ipc.open_stream(pa.memory_map(str(path))) as reader:
        return reader.read_all()
