"""The local runner: DuckDB over Arrow, in this process.

A frame is either an Arrow table (small, registered as it is) or a temporary DuckDB table, which
spills to disk beyond the memory limit, so memory stays bounded however large the input.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import StorageError
from omnigraph.runner.protocol import BatchFunction, Frame
from omnigraph.storage.handles import TableRef, open_table
from omnigraph.storage.pushdown import Pushdown

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY_LIMIT = "1GB"
BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class LocalFrame:
    """Rows in Arrow (`table`) or in a temporary table of the runner's connection (`name`)."""

    columns: tuple[str, ...]
    table: Any = None
    name: str | None = None


class LocalRunner:
    """Frames on one DuckDB connection of their own."""

    name = "local"

    def __init__(self, memory_limit: str = MEMORY_LIMIT) -> None:
        self._memory_limit = memory_limit
        self._connection: Any = None
        self._spill: tempfile.TemporaryDirectory[str] | None = None
        self._names = (f"t{number}" for number in itertools.count())

    @property
    def _duck(self) -> Any:
        if self._connection is None:
            import duckdb

            self._spill = tempfile.TemporaryDirectory(prefix="omnigraph-")
            self._connection = duckdb.connect(
                ":memory:",
                config={
                    "memory_limit": self._memory_limit,
                    "temp_directory": self._spill.name,
                    "preserve_insertion_order": "false",
                },
            )
            # Row versions and instants must not depend on the machine's time zone.
            self._connection.execute("SET TimeZone = 'UTC'")
        return self._connection

    def frame(self, data: pa.Table | pa.RecordBatchReader) -> LocalFrame:
        """An Arrow table as it is; a stream is put into a temporary table."""
        import pyarrow as pa

        if isinstance(data, pa.Table):
            return LocalFrame(tuple(data.column_names), table=data)
        return self._kept("SELECT * FROM source", {"source": data})

    def scan(
        self, ref: TableRef, columns: Sequence[str], where: Pushdown | None = None
    ) -> LocalFrame:
        """Columns of a table: small filtered reads stay in Arrow, whole columns go to DuckDB."""
        table = open_table(ref)
        if where is not None:
            return self.frame(table.read(columns, where))
        return self.frame(table.scan(columns))

    def map(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> LocalFrame:
        """Every batch through the function, streaming."""
        import pyarrow as pa

        batches = (function(batch) for batch in self._batches(_local(frame)))
        return self.frame(pa.RecordBatchReader.from_batches(schema, batches))

    def sql(self, text: str, frames: Mapping[str, Frame]) -> LocalFrame:
        """The rows of a query, kept in a temporary table."""
        return self._kept(text, {name: _local(frame) for name, frame in frames.items()})

    def collect(self, frame: Frame, limit: int | None = None) -> pa.Table:
        """The rows as an Arrow table."""
        local = _local(frame)
        if local.table is not None:
            return local.table if limit is None else local.table.slice(0, limit)
        cut = "" if limit is None else f" LIMIT {limit}"
        return self._select(f"SELECT * FROM {local.name}{cut}").to_arrow_table()

    def count(self, frame: Frame) -> int:
        """How many rows there are."""
        local = _local(frame)
        if local.table is not None:
            return int(local.table.num_rows)
        counted = self._select(f"SELECT COUNT(*) AS n FROM {local.name}").to_arrow_table()
        return int(counted.column("n")[0].as_py())

    def close(self) -> None:
        """Drop all frames and what they spilled."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._spill is not None:
            self._spill.cleanup()
            self._spill = None

    def _batches(self, frame: LocalFrame) -> Iterator[pa.RecordBatch]:
        if frame.table is not None:
            yield from frame.table.to_batches(max_chunksize=BATCH_ROWS)
            return
        yield from self._select(f"SELECT * FROM {frame.name}").to_arrow_reader(BATCH_ROWS)

    def _kept(self, text: str, sources: Mapping[str, Any]) -> LocalFrame:
        name = next(self._names)
        self._execute(f"CREATE TEMP TABLE {name} AS {text}", sources)
        return LocalFrame(tuple(self._select(f"SELECT * FROM {name}").columns), name=name)

    def _select(self, text: str) -> Any:
        return self._duck.sql(text)

    def _execute(self, text: str, sources: Mapping[str, Any]) -> None:
        import duckdb

        views = {}
        try:
            for name, source in sources.items():
                if isinstance(source, LocalFrame) and source.table is None:
                    self._duck.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {source.name}")
                else:
                    arrow = source.table if isinstance(source, LocalFrame) else source
                    self._duck.register(name, arrow)
                    views[name] = arrow
            self._duck.execute(text)
        except duckdb.Error as error:
            raise StorageError(f"the local engine failed: {error}") from error
        finally:
            for name in views:
                self._duck.unregister(name)


def _local(frame: Frame) -> LocalFrame:
    assert isinstance(frame, LocalFrame), "a frame belongs to the runner that made it"
    return frame
