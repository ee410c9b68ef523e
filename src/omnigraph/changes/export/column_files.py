"""Exports as files of columns, one for each type: CSV, Parquet and Arrow, which `load_nodes` and `load_edges` take.

A file has a column ``id``, the ends of edges as ``from`` and ``to``, and the properties. Rows come in the
order in which they are stored. All files are there at the end, or none.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cancel import look
from omnigraph.changes.entity_stream import EntityStream, StreamColumn, stream_columns
from omnigraph.changes.export.export_files import ExportOutput, Out
from omnigraph.changes.export.pinned_export import ExportedType, PinnedExport
from omnigraph.changes.export.write_export import ExportResult, OnRecords, export_result
from omnigraph.changes.stats import Meter
from omnigraph.errors import BadRequest, StorageError
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.manifest.workspace import Workspace
from omnigraph.types import column_to_json_text, shown_place

ExportFormat = Literal["jsonl", "csv", "parquet", "arrow"]
FORMATS: Final[tuple[ExportFormat, ...]] = get_args(ExportFormat)
LINES: Final = "jsonl"
SUFFIXES: Final[dict[str, ExportFormat]] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""What the names of files of columns end with; any other name is one of JSON lines."""
_COMPRESSED: Final = (".gz", ".zst")
GROUP_ROWS: Final = 1 << 17
"""At most how many rows a row group of Parquet has."""


def format_of(out: Out, given: object) -> ExportFormat:
    """Return the format of an export: the one given, else that of the name of its file.

    A name that says otherwise than the format given is refused.
    """
    if given is not None and given not in FORMATS:
        raise BadRequest(f"format is {given!r}; give {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    named = _named_format(out)
    if given is None:
        return named or LINES
    if named is not None and named != given:
        raise BadRequest(
            f"{shown_place(_name(out))} is the name of a file of {named}, and format is {given}; change one"
        )
    return given


def _name(out: Out) -> str:
    """Return the name of a file or directory; empty of a stream."""
    return os.fsdecode(out) if isinstance(out, str | os.PathLike) else ""


def _named_format(out: Out) -> ExportFormat | None:
    name = _name(out)
    if is_directory(out):
        return None
    whole = name.lower()
    bare = next((whole.removesuffix(end) for end in _COMPRESSED if whole.endswith(end)), whole)
    found = next((SUFFIXES[end] for end in SUFFIXES if bare.endswith(end)), None)
    if found is not None and bare != whole:
        raise BadRequest(
            f"{shown_place(name)} would be a compressed file of {found}, which is not written; export to "
            "a name without the last ending (Parquet compresses by itself), or JSON lines"
        )
    return found


def is_directory(out: Out) -> bool:
    """Return whether an export goes to a directory: one that exists, or a name that ends in `/`."""
    name = _name(out)
    if not name:
        return False
    return name.endswith(("/", os.sep)) or ("://" not in name and Path(name).is_dir())


def places(
    out: Out, format: ExportFormat, types: Sequence[ExportedType]
) -> list[tuple[ExportedType, Out]]:
    """Return where the file of each type goes; refuse one file for several types."""
    if is_directory(out):
        names = _file_names(types, format)
        base = _name(out)
        if "://" not in base:
            return [(one, Path(base) / name) for one, name in zip(types, names, strict=True)]
        return [(one, f"{base.rstrip('/')}/{name}") for one, name in zip(types, names, strict=True)]
    if len(types) == 1:
        return [(types[0], out)]
    there = ", ".join(one.entity.name for one in types[:8]) + (", …" if len(types) > 8 else "")
    raise BadRequest(
        f"a file of {format} holds one type, and there are {len(types)} to export ({there}); name one with "
        f'types (--type), or export to a directory with format="{format}" (--format {format}): '
        "it gets a file for each"
    )


def _file_names(types: Sequence[ExportedType], format: ExportFormat) -> list[str]:
    """Name files like their types; those that differ by kind or case alone get the kind in front."""
    counts = Counter(one.entity.name.lower() for one in types)
    names = [
        one.entity.name if counts[one.entity.name.lower()] == 1 else f"{one.kind}-{one.entity.name}"
        for one in types
    ]
    repeated = next((n for n, count in Counter(map(str.lower, names)).items() if count > 1), None)
    if repeated is not None:
        raise BadRequest(
            f"two types are called `{repeated}` but for capitals, and their files would be one on some "
            "machines; export them one by one, each named with types"
        )
    return [f"{name}.{format}" for name in names]


def refuse_blobs(types: Sequence[ExportedType], format: ExportFormat) -> None:
    """Refuse types that a file of columns cannot hold."""
    for one in types:
        for name in one.entity.blob_properties:
            raise BadRequest(
                f"{one.entity.name}.{name} is a Blob, which an export to {format} does not hold; choose other "
                "types, or export JSON lines, which have everything"
            )


def write_columns(
    output: ExportOutput,
    format: ExportFormat,
    columns: Sequence[StreamColumn],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[int]:
    """Write the rows of a type; yield the number of rows after each batch."""
    schema = pa.schema([(column.name, column.type.arrow_type()) for column in columns])
    with ExitStack() as stack:
        sink = stack.enter_context(pa.PythonFile(_Sink(output), "w"))
        write = stack.enter_context(_writer(format, sink, schema, columns))
        for batch in batches:
            write(batch)
            yield batch.num_rows


Write = Callable[[pa.RecordBatch], object]


@contextmanager
def _writer(
    format: ExportFormat, sink: pa.NativeFile, schema: pa.Schema, columns: Sequence[StreamColumn]
) -> Iterator[Write]:
    if format == "parquet":
        from pyarrow.parquet import ParquetWriter

        with ParquetWriter(sink, schema) as parquet:
            yield lambda batch: parquet.write_batch(batch, row_group_size=GROUP_ROWS)
    elif format == "arrow":
        with pa.ipc.new_file(sink, schema) as arrow:
            yield arrow.write_batch
    else:
        from pyarrow.csv import CSVWriter

        cells = pa.schema([(column.name, _cell_type(column)) for column in columns])
        with CSVWriter(sink, cells) as csv:
            yield lambda batch: csv.write_batch(
                pa.RecordBatch.from_arrays(
                    [_cells(*each) for each in zip(columns, batch.columns, strict=True)],
                    schema=cells,
                )
            )


def _is_plain(column: StreamColumn) -> bool:
    """Whether CSV has the values as Arrow writes them: numbers, booleans and dates."""
    kind = column.type
    return not kind.is_list and not kind.is_vector and not pa.types.is_timestamp(kind.arrow_type())


def _cell_type(column: StreamColumn) -> pa.DataType:
    return column.type.arrow_type() if _is_plain(column) else pa.utf8()


def _cells(column: StreamColumn, values: pa.Array) -> pa.Array:
    """Return the cells of a column of CSV: an array is its JSON text, a time its ISO text."""
    if _is_plain(column):
        return values
    texts = column_to_json_text(column.type, values)
    if pa.types.is_timestamp(values.type):
        texts = pc.utf8_trim(texts, '"')
    return pc.if_else(pc.is_valid(values), texts, pa.scalar(None, pa.utf8()))


class _Sink(io.RawIOBase):
    """An output as a file for Arrow, which closes what it writes to; the output ends later."""

    def __init__(self, output: ExportOutput) -> None:
        super().__init__()
        self._output = output

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    def write(self, data: Any) -> int:
        """Write a piece."""
        piece = memoryview(data).cast("B")
        self._output.write(piece)
        return len(piece)


OpenOutput = Callable[[Out], ExportOutput]


def write_column_export(
    workspace: Workspace,
    export: PinnedExport,
    out: Out,
    format: ExportFormat,
    open_output: OpenOutput,
    on_records: OnRecords | None = None,
) -> ExportResult:
    """Write the types of a pinned export to a file, if there is one type, or to a directory.

    What is refused is refused before the first byte. Files appear when all of them are complete.
    """
    refuse_blobs(export.types, format)
    columns = [_columns(one) for one in export.types]
    placed = places(out, format, export.types)
    meter, records = Meter(workspace), 0
    with ExitStack() as stack:
        stack.enter_context(_directory(out))
        outputs = [stack.enter_context(open_output(where)) for _, where in placed]
        if format != "csv" and any(output.takes_text for output in outputs):
            raise BadRequest(f"{format} is not text; give a file that is open for writing bytes")
        stack.enter_context(meter.running())
        for (one, _), shown, output in zip(placed, columns, outputs, strict=True):
            stream = EntityStream(workspace, export.snapshot, one.entity, shown)
            for written in write_columns(output, format, shown, iter(stream)):
                look()
                records += written
                if on_records is not None:
                    on_records(records)
    bytes_written = sum(output.bytes_written for output in outputs)
    return export_result(export, meter, records, bytes_written, "local")


def _columns(exported: ExportedType) -> Sequence[StreamColumn]:
    """Return the columns of the file of a type: its id, its ends, its properties."""
    entity, ends = exported.entity, {"id": "id"}
    if isinstance(entity, EdgeType):
        ends |= {"from": "src", "to": "dst"}
    taken = next((name for name in ends if name in entity.properties), None)
    if taken is not None:
        raise BadRequest(
            f"{entity.name} has a property `{taken}`, which is the name of another column of its file; "
            "export JSON lines, or write graph.edges(…, from_col=…, to_col=…) yourself"
        )
    return stream_columns(entity, ends, None)


@contextmanager
def _directory(out: Out) -> Iterator[None]:
    """Make the directory of an export, if it is one on this machine; remove it again if all fails."""
    if not is_directory(out) or "://" in str(out):
        yield
        return
    path = Path(str(out))
    made = not path.exists()
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the directory {shown_place(str(path))}: {error.strerror or error}; choose "
            "another place"
        ) from error
    try:
        yield
    except BaseException:
        if made:
            with suppress(OSError):  # somebody else has put a file there
                path.rmdir()
        raise
