"""Write the rows of a task as fragments while more of them are read."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from omnigraph.lang.schema.catalog import Entity
from omnigraph.pipeline.rows.stored_rows import stored_batch
from omnigraph.storage.tables.loose_files import data_files, remove_loose_files
from omnigraph.storage.tables.staging import write_fragments
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef

WAITING_BATCHES = 3
"""How many batches may wait to be written; reading stops meanwhile."""
LOOK_SECONDS = 1.0

WriteMode = Literal["append", "overwrite"]


class FragmentWriter:
    """Writes rows of one table. Lance pulls rows, and a task pushes them: so a thread stands between."""

    def __init__(self, ref: TableRef, entity: Entity, mode: WriteMode) -> None:
        self._ref = ref
        self._entity = entity
        self._table = open_table(ref)
        self._mode: WriteMode = mode
        self._waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(WAITING_BATCHES)
        self._fragments: list[Any] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="omnigraph-write", daemon=True)
        self._thread.start()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; raises what writing earlier ones met with."""
        self._put(stored_batch(self._entity, self._table.schema, batch))

    def finish(self) -> list[Any]:
        """Write what is left, and return the fragments."""
        self._put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._fragments

    def discard(self) -> None:
        """End the writing, and remove the files."""
        if self._thread.is_alive():
            with contextlib.suppress(Exception):
                self._put(None)
            self._thread.join()
        remove_loose_files(self._ref, data_files(self._fragments))

    def _put(self, batch: pa.RecordBatch | None) -> None:
        while True:
            with contextlib.suppress(queue.Full):
                self._waiting.put(batch, timeout=LOOK_SECONDS)
                return
            if not self._thread.is_alive():
                # It failed and takes nothing more.
                assert self._failure is not None
                raise self._failure

    def _write(self) -> None:
        try:
            rows = pa.RecordBatchReader.from_batches(self._table.schema, self._batches())
            self._fragments = write_fragments(self._table, rows, mode=self._mode)
        except BaseException as error:  # noqa: BLE001 - raised again in the task's own thread
            self._failure = error

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._waiting.get()) is not None:
            yield batch
