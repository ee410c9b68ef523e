"""Write a pinned export as files of columns: one for each type, all of them there at the end or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from omnigraph.cancel import look
from omnigraph.changes.export.column_files import (
    ExportFormat,
    is_directory,
    places,
    refuse_blobs,
    write_columns,
)
from omnigraph.changes.export.export import ExportResult, OnRecords, export_result
from omnigraph.changes.export.output import Out, Output
from omnigraph.changes.export.pinned_export import ExportedType, PinnedExport
from omnigraph.changes.frames.entity_stream import EntityStream, StreamColumn, stream_columns
from omnigraph.changes.stats import Meter
from omnigraph.errors import BadRequest, StorageError
from omnigraph.lang.schema.catalog import EdgeType
from omnigraph.manifest.workspace import Workspace
from omnigraph.types import shown_place

OpenOutput = Callable[[Out], Output]


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
