"""The local runner: DuckDB over Arrow, in this process.

A frame is either an Arrow table, which queries read where it is (in memory, or in a file mapped into
memory), or a table of DuckDB, which spills to disk beyond the memory limit. So memory stays bounded
however large the input is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.cancel import aside, interruptible, look
from omnigraph.errors import StorageError
from omnigraph.runner.databases import MEMORY_LIMIT, bring_back, new_database, take_database
from omnigraph.runner.external_sort import external_sort
from omnigraph.runner.runner import (
    BATCH_ROWS,
    BatchFunction,
    Frame,
    Through,
    decoded,
    encoded,
    encoded_text,
    renamed,
)
from omnigraph.storage import full_disk
from omnigraph.storage.filters import Pushdown
from omnigraph.storage.fragment_groups import scan_windows
from omnigraph.storage.scratch import scratch_directory
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_ref import TableRef

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    import pyarrow as pa

T = TypeVar("T")

FEW_ROWS = 100_000
"""Up to this number of rows, looking at Arrow data here is quicker than a query."""
TINY_ROWS = 1000
"""Up to this number of rows in each source, a query ends before anybody wants to stop it."""
TINY_BYTES = 1 << 23
"""Of more bytes in a source, a query may need room on disk."""
HASHED_ROWS = 1 << 25
"""Up to this number of rows, all hashes of a column are held in memory at once."""


@dataclass(frozen=True, slots=True)
class LocalFrame:
    """Rows in Arrow (`table`, or `reader`) or in a table of the runner's database (`name`)."""

    columns: tuple[str, ...]
    table: Any = None
    name: str | None = None
    reader: Any = None


class LocalRunner:
    """Frames in a DuckDB database of their own, which is created for the first query."""

    name = "local"

    def __init__(
        self,
        memory_limit: str = MEMORY_LIMIT,
        *,
        threads: int | None = None,
        few_rows: int = FEW_ROWS,
        hashed_rows: int = HASHED_ROWS,
    ) -> None:
        self._memory_limit = memory_limit
        self._threads = threads
        self._few_rows = few_rows
        self._hashed_rows = hashed_rows
        self._is_reusable = memory_limit == MEMORY_LIMIT and threads is None
        self._connection: Any = None
        self._spill: TemporaryDirectory[str] | None = None
        self._names = (f"t{number}" for number in itertools.count())
        self._failure: Exception | None = None

    @property
    def _duck(self) -> Any:
        if self._connection is None:
            self._connection = (
                take_database()
                if self._is_reusable
                else new_database(self._memory_limit, self._threads)
            )
        return self._connection

    def _make_room(self) -> None:
        """Let queries spill to disk from here on."""
        if self._spill is None:
            self._is_reusable = False
            self._spill = scratch_directory()
            place = str(Path(self._spill.name) / "spill")
            self._duck.execute("SET temp_directory = ?", [place])

    def frame(self, data: pa.Table | pa.RecordBatchReader) -> LocalFrame:
        """Take an Arrow table as it is, and put a stream into a table of DuckDB."""
        import pyarrow as pa

        if isinstance(data, pa.Table):
            return LocalFrame(tuple(data.column_names), table=data)
        return self._table_of("SELECT * FROM source", {"source": data})

    def once(self, reader: pa.RecordBatchReader) -> LocalFrame:
        """Take a stream for one query, which reads it as it comes: nothing is kept."""
        return LocalFrame(tuple(reader.schema.names), reader=reader)

    def scan(
        self, ref: TableRef, columns: Sequence[str], where: Pushdown | None = None
    ) -> LocalFrame:
        """Read columns of a table: filtered rows stay in Arrow, whole columns go to DuckDB."""
        table = open_table(ref)
        if where is not None:
            return self.frame(table.read(columns, where))
        return self.frame(table.scan(columns))

    def scan_among(self, *_: object) -> None:
        """Read all rows: DuckDB joins whole columns as quickly as they could be filtered here."""

    def map(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> LocalFrame:
        """Stream every batch through the function."""
        import pyarrow as pa

        mapped = (function(batch) for batch in self.stream(frame))
        return self.frame(pa.RecordBatchReader.from_batches(schema, mapped))

    def sql(self, text: str, frames: Mapping[str, Frame]) -> LocalFrame:
        """Return the rows of a query as a frame, kept in a table of DuckDB."""
        return self._table_of(text, {name: _local(frame) for name, frame in frames.items()})

    def ask(self, text: str, frames: Mapping[str, Frame]) -> pa.Table:
        """Return the rows of a query at once."""
        sources = {name: _local(frame) for name, frame in frames.items()}
        with self._sources(sources):
            rows = self._run(lambda: self._duck.sql(encoded_text(text)).to_arrow_table(), sources)
        return renamed(rows, decoded)

    def collect(self, frame: Frame, limit: int | None = None) -> pa.Table:
        """Return the rows as an Arrow table."""
        local = _local(frame)
        if local.table is not None:
            return local.table if limit is None else local.table.slice(0, limit)
        cut = "" if limit is None else f" LIMIT {limit}"
        return self.ask(f"SELECT * FROM {local.name}{cut}", {})

    def in_memory(self, frame: Frame) -> pa.Table | None:
        """Return the rows if they are few and in Arrow already."""
        table = _local(frame).table
        return table if table is not None and table.num_rows <= self._few_rows else None

    def may_repeat(self, frame: Frame, column: str) -> bool:
        """Compare hashes: where all of them differ, so do the values, and sorting numbers is cheap."""
        import numpy as np
        import pyarrow.compute as pc

        here = self.in_memory(frame)
        if here is not None:
            return len(pc.unique(here.column(column))) < int(here.num_rows)
        if self.count(frame) > self._hashed_rows:
            return True
        hashed = self.ask(f"SELECT hash(f.`{column}`) AS h FROM f", {"f": frame}).column("h")
        ordered = aside(lambda: np.sort(hashed.to_numpy()), items=len(hashed))
        return bool((ordered[1:] == ordered[:-1]).any())

    def count(self, frame: Frame) -> int:
        """Return the number of rows."""
        local = _local(frame)
        if local.table is not None:
            return int(local.table.num_rows)
        counted = self.ask(f"SELECT COUNT(*) AS n FROM {local.name}", {})
        return int(counted.column("n")[0].as_py())

    def close(self) -> None:
        """Drop all frames and the files that they spilled to."""
        if self._connection is not None:
            if self._is_reusable:
                bring_back(self._connection)
            else:
                self._connection.close()
            self._connection = None
        if self._spill is not None:
            self._spill.cleanup()
            self._spill = None

    def stream(
        self, frame: Frame, batch_rows: int = BATCH_ROWS, *, order_by: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches."""
        local = _local(frame)
        if order_by is not None:
            yield from external_sort(self._batches(local, BATCH_ROWS), order_by, batch_rows)
        else:
            yield from self._batches(local, batch_rows)

    def sorted_scan(
        self, ref: TableRef, columns: Sequence[str], order_by: str, through: Through | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in order; they do not pass through DuckDB."""
        batches = scan_windows(open_table(ref), columns)
        if through is not None:
            batches = map(through.function, batches)
        return external_sort(batches, order_by, BATCH_ROWS)

    def _batches(self, frame: LocalFrame, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if frame.table is not None:
            yield from frame.table.to_batches(max_chunksize=batch_rows)
            return
        # The rows are read while others are written, for which DuckDB needs a second connection.
        cursor = self._duck.cursor()
        try:
            with self._sources({}):
                rows = cursor.sql(f"SELECT * FROM {frame.name}")
                for batch in rows.to_arrow_reader(batch_rows):
                    look()
                    yield renamed(batch, decoded)
        finally:
            cursor.close()

    def _table_of(self, text: str, sources: Mapping[str, Any]) -> LocalFrame:
        name = next(self._names)
        self._make_room()
        with self._sources(sources):
            command = f"CREATE TABLE {name} AS {encoded_text(text)}"
            self._run(lambda: self._duck.execute(command), sources)
            columns = self._duck.sql(f"SELECT * FROM {name}").columns
        return LocalFrame(tuple(map(decoded, columns)), name=name)

    def _run(self, query: Callable[[], T], sources: Mapping[str, Any]) -> T:
        """Run a query over these sources, so that it ends soon when the work should stop.

        DuckDB looks for signals only in the thread that asks, between its tasks. That thread works on tasks
        too, and a join may keep it in one for minutes: it must not be the thread that gets the signals.
        """
        if sources and all(_is_tiny(source) for source in sources.values()):
            return query()
        self._make_room()
        return interruptible(query, self._duck.interrupt)

    @contextmanager
    def _sources(self, sources: Mapping[str, Any]) -> Iterator[None]:
        """Register the sources under their names, and raise every failure as an OmniGraph error."""
        import duckdb

        undo: list[Callable[[], object]] = []
        self._failure = None
        has_ended = False
        try:
            for name, source in sources.items():
                undo.append(self._name(name, source))
            yield
            has_ended = True
        except RuntimeError as error:
            # What DuckDB makes of Ctrl-C.
            if str(error) == "Query interrupted":
                look()
                raise KeyboardInterrupt from None
            raise
        except duckdb.Error as error:
            look()  # a source of the query may have stopped at a look
            if self._failure is not None:
                raise self._failure from None
            if full_disk.is_full(error):
                raise full_disk.scratch_full("the local engine needs room") from error
            reason = str(error).partition("\n")[0]
            raise StorageError(f"the local engine failed: {reason}") from error
        finally:
            self._is_reusable &= has_ended
            for step in undo:
                step()

    def _name(self, name: str, source: Any) -> Callable[[], object]:
        """Register rows under a name; return a function that removes the name again."""
        duck = self._duck
        if isinstance(source, LocalFrame) and source.name is not None:
            duck.execute(f"CREATE TEMP VIEW {name} AS FROM {source.name}")
            return lambda: duck.execute(f"DROP VIEW {name}")
        arrow = source
        if isinstance(source, LocalFrame):
            arrow = source.reader if source.table is None else source.table
        duck.register(name, self._registered(arrow))
        return lambda: duck.unregister(name)

    def _registered(self, data: Any) -> Any:
        """Return the rows with encoded column names."""
        import pyarrow as pa

        if isinstance(data, pa.Table):
            return renamed(data, encoded)
        schema = pa.schema([field.with_name(encoded(field.name)) for field in data.schema])
        return pa.RecordBatchReader.from_batches(schema, self._streamed(data))

    def _streamed(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the batches; remember an exception among them, of which DuckDB would keep only the text."""
        try:
            for batch in reader:
                yield renamed(batch, encoded)
        except Exception as error:
            self._failure = error
            raise


def _local(frame: Frame) -> LocalFrame:
    assert isinstance(frame, LocalFrame), "a frame belongs to the runner that made it"
    return frame


def _is_tiny(source: Any) -> bool:
    table = source.table if isinstance(source, LocalFrame) else None
    return table is not None and table.num_rows <= TINY_ROWS and table.nbytes <= TINY_BYTES
