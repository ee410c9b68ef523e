"""Write a pinned export: rows sorted by an engine that spills, blobs read where they are written."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.export.export_files import ExportOutput
from omnigraph.changes.export.lines import ADDRESS, LineEncoder
from omnigraph.changes.export.pinned_export import ExportedType, PinnedExport
from omnigraph.changes.stats import Meter, Stats
from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted, size_text
from omnigraph.manifest.rows import TableState
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.runner import Runner
from omnigraph.storage.tables.blobs.reading import open_blob, read_at

SMALL_BLOB: Final = 64 << 10
"""Blobs up to this size are read many at a time."""
GATHERED_BYTES: Final = 4 << 20
"""At most how many bytes of small blobs are held."""
PIECE_BYTES: Final = 3 << 20
"""How much of a larger blob is held; base64 turns 3 bytes into 4 characters, so pieces join."""
BLOB_ROWS: Final = 1_024

RunnerFor = Callable[[TableState], Runner]
OnRecords = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class ExportStats(Stats):
    """What an export did and what it cost. ``bytes_read`` are those of this process."""

    records: int = 0
    bytes_written: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, repr=False)
class ExportResult(Shown):
    """An export that is complete.

    ``leased`` says whether its tables were protected from cleanup while it ran: not so if the handle,
    or the store, allows no writing. ``note`` says why another engine ran than might be expected.
    """

    graph_commit_id: str
    branch: str
    stats: ExportStats
    engine: str
    leased: bool
    note: str | None = None

    @property
    def records(self) -> int:
        """How many nodes and edges were written."""
        return self.stats.records

    def to_json(self) -> dict[str, Any]:
        """Return the public form."""
        return {
            "graph_commit_id": self.graph_commit_id,
            "branch": self.branch,
            "stats": self.stats.to_json(),
            "engine": self.engine,
            "leased": self.leased,
            "note": self.note,
        }

    def _panel(self) -> Panel:
        stats = self.stats
        return Panel(
            f"exported {counted(stats.records, 'record')} of branch {self.branch}",
            [
                ("commit", self.graph_commit_id),
                ("written", size_text(stats.bytes_written)),
                ("seconds", stats.ms / 1000),
                ("engine", self.engine),
            ],
            notes=[] if self.note is None else [self.note],
        )


def write_export(
    workspace: Workspace,
    export: PinnedExport,
    output: ExportOutput,
    runner_for: RunnerFor,
    on_records: OnRecords | None = None,
) -> ExportResult:
    """Write every record of a pinned export: nodes before edges, types by name, rows by id.

    ``runner_for`` gives the engine for a table. ``on_records`` is called with the number of records
    written so far.
    """
    meter, records = Meter(workspace), 0
    engine = "local"
    with meter.running():
        for exported in export.types:
            runner = runner_for(exported.state)
            engine = runner.name if runner.name != "local" else engine
            for written in _write_type(exported, output, runner):
                look()
                records += written
                if on_records is not None:
                    on_records(records)
    return export_result(export, meter, records, output.bytes_written, engine)


def export_result(
    export: PinnedExport, meter: Meter, records: int, bytes_written: int, engine: str
) -> ExportResult:
    """Return what a complete export tells its caller, whatever form it was written in."""
    measured = meter.stats()
    stats = ExportStats(
        rows_read=records,
        bytes_read=measured.bytes_read,
        ms=measured.ms,
        records=records,
        bytes_written=bytes_written,
    )
    snapshot = export.snapshot
    return ExportResult(snapshot.graph_commit_id, snapshot.branch, stats, engine, export.has_lease)


def _write_type(exported: ExportedType, output: ExportOutput, runner: Runner) -> Iterator[int]:
    """Write the records of a type; yield the number of records after each batch."""
    if exported.state.row_count == 0:
        return
    encoder = LineEncoder.of(exported)
    ref = exported.pinned.table.ref
    with exported.reading():
        for batch in runner.sorted_scan(ref, encoder.columns, "id", encoder.through):
            if encoder.blob_columns:
                for start in range(0, batch.num_rows, BLOB_ROWS):
                    _write_with_blobs(exported, encoder, output, batch.slice(start, BLOB_ROWS))
            else:
                output.write(text_bytes(batch.column("line0")))
            yield batch.num_rows


def text_bytes(texts: pa.StringArray) -> memoryview:
    """The texts of a column without nulls one after another, where they are in memory already."""
    _, offsets, data = texts.buffers()
    if data is None:
        return memoryview(b"")
    bounds = memoryview(offsets).cast("i")
    return memoryview(data)[bounds[texts.offset] : bounds[texts.offset + len(texts)]]


# ------------------------------------------------------------------ blobs


def _write_with_blobs(
    exported: ExportedType, encoder: LineEncoder, output: ExportOutput, batch: pa.RecordBatch
) -> None:
    columns = encoder.blob_columns
    last = len(columns)
    sizes = [batch.column(f"size{number}") for number in range(last)]
    if all(size.null_count == len(size) for size in sizes):
        lines = [batch.column(f"line{number}") for number in range(last + 1)]
        output.write(text_bytes(pc.binary_join_element_wise(*lines, "")))
        return
    addresses = batch.column(ADDRESS).to_pylist()
    texts = [batch.column(f"line{number}").to_pylist() for number in range(last + 1)]
    values = [
        _values(exported, column, size.to_pylist(), addresses)
        for column, size in zip(columns, sizes, strict=True)
    ]
    for row in range(batch.num_rows):
        for number in range(last):
            output.write(texts[number][row].encode())
            for piece in next(values[number]):
                output.write(piece)
        output.write(texts[last][row].encode())


def _values(
    exported: ExportedType, column: str, sizes: list[int | None], addresses: list[int]
) -> Iterator[Iterator[bytes]]:
    """Yield the pieces of the value of every row: none where its text is in the line already."""
    small: dict[int, bytes] = {}
    for row, size in enumerate(sizes):
        if size is None:
            yield iter(())
        elif size <= SMALL_BLOB:
            if row not in small:
                small = _small_blobs(exported, column, sizes, addresses, row)
            yield iter((b'"base64:' + base64.b64encode(small.pop(row)) + b'"',))
        else:
            yield _large_blob(exported, column, addresses[row])


def _small_blobs(
    exported: ExportedType,
    column: str,
    sizes: list[int | None],
    addresses: list[int],
    first: int,
) -> dict[int, bytes]:
    """Read the small blobs of the rows from one on, as many as may be held."""
    rows: list[int] = []
    held = 0
    for row in range(first, len(sizes)):
        size = sizes[row]
        if size is None or size > SMALL_BLOB:
            continue
        held += size
        if rows and held > GATHERED_BYTES:
            break
        rows.append(row)
    found = read_at(exported.pinned.table, column, [addresses[row] for row in rows])
    return {row: data or b"" for row, data in zip(rows, found, strict=True)}


def _large_blob(exported: ExportedType, column: str, address: int) -> Iterator[bytes]:
    yield b'"base64:'
    with open_blob(exported.pinned.table, column, address) as stream:
        while data := stream.read(PIECE_BYTES):
            yield base64.b64encode(data)
    yield b'"'
