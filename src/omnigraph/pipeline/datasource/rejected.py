"""The bad rows of a task, in a file of its own: the commit writes those of all tasks to one file.

A task sends the first of them with its result; all of them are kept only for a caller who names a file
for them (`rejects`). The values of a row travel with it, because no other process can read it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

import pyarrow as pa

from omnigraph.pipeline.rows.bad_records import Bad
from omnigraph.storage.tables.loose_files import LooseFile, read_data_file
from omnigraph.storage.tables.table_ref import TableRef

_NUMBERS = {"source": pa.int32(), "offset": pa.int64()}
_SCHEMA = pa.schema([(one.name, _NUMBERS.get(one.name, pa.utf8())) for one in fields(Bad)])


class RejectedRows:
    """Takes the bad rows of one task; without ``wanted`` it keeps none of them."""

    def __init__(self, ref: TableRef, *, wanted: bool) -> None:
        self._file = LooseFile(ref) if wanted else None

    @property
    def name(self) -> str | None:
        """The file, beside those of the table; None as long as there is no bad row."""
        return None if self._file is None else self._file.name

    def add(self, found: Sequence[Bad]) -> None:
        """Append bad rows."""
        if self._file is not None and found:
            rows = [{name: _text(value) for name, value in asdict(one).items()} for one in found]
            self._file.add(pa.RecordBatch.from_pylist(rows, schema=_SCHEMA))

    def close(self) -> None:
        """Finish writing."""
        if self._file is not None:
            self._file.close()


def read_rejected(ref: TableRef, name: str) -> Iterator[list[Bad]]:
    """Read the bad rows of a task, in order."""
    for batch in read_data_file(ref, name):
        yield [Bad(**row) for row in batch.to_pylist()]


def _text(value: object) -> object:
    # Half of a surrogate pair, which a bad row may hold, has no UTF-8 form.
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
