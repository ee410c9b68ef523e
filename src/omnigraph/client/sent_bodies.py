"""What a program gives as data, as the pieces of a body: files, bytes, records, frames.

Nothing is held whole: files are read a piece at a time, records written as they come.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, NamedTuple

from omnigraph.client.sent_sources import BYTES, RECORDS, SentSources
from omnigraph.errors import BadRequest, InputError
from omnigraph.types.python import record_form, refuse_data

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]
Bytes = bytes | bytearray | memoryview
LinesLike = PathLike | Bytes | Mapping[str, Any] | IO[bytes]
"""JSON lines: the path of a file, glob or directory, bytes, a record, or a file that is open."""
ColumnFormat = Literal["parquet", "csv", "arrow"]

PIECE: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
_LINES: Final = tuple(stem + end for stem in (".jsonl", ".ndjson") for end in ("", ".gz", ".zst"))
_PACKED: Final = {".gz": "gzip", ".zst": "zstd"}
_FORMATS: Final[Mapping[str, ColumnFormat]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_RECORDS_A_PIECE: Final = 256


class RawBody(NamedTuple):
    """The pieces of a body, what its headers say of it, and where its lines come from."""

    pieces: bytes | Iterable[bytes] | None
    headers: dict[str, str | None]
    sources: SentSources | None = None


NO_BODY: Final = RawBody(None, {})


def lines_body(source: LinesLike | Iterable[LinesLike]) -> RawBody:
    """Return JSON lines as one body. A text is a path, never data."""
    if isinstance(source, str | os.PathLike):
        files = list(_files(source))
        packing = _PACKED.get(files[0].suffix.lower()) if len(files) == 1 else None
        if packing is not None:  # goes as it is, and is unpacked over there
            named = SentSources(str(files[0]))
            return RawBody(_file_pieces(files[0]), {"Content-Encoding": packing}, named)
    sources = SentSources()
    return RawBody(_joined(_parts(source), sources), {}, sources)


def bytes_body(data: PathLike | Bytes | IO[bytes]) -> RawBody:
    """Return the bytes of a blob: a path, bytes, or a file that is open."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        return RawBody(_file_pieces(path), {"Content-Length": str(_size(path))})
    if isinstance(data, bytes | bytearray | memoryview):
        return RawBody(bytes(data), {})
    if not callable(getattr(data, "read", None)):
        raise BadRequest(
            f"a Python {type(data).__name__} is no blob; give a path, bytes, or an open file"
        )
    return RawBody(_stream_pieces(data), {})


def columns_body(source: Any, format: ColumnFormat | None) -> tuple[ColumnFormat, RawBody]:
    """Return columns of one type with their format: a file, bytes of one, or a frame."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        packing = _PACKED.get(path.suffix.lower())
        inner = path.with_suffix("") if packing is not None else path
        found = format or _FORMATS.get(inner.suffix.lower())
        if found is None:
            raise BadRequest(
                f'"{path}" does not say what it holds; name it .parquet, .csv or .arrow, or give format='
            )
        size = str(_size(path))
        headers: dict[str, str | None] = {"Content-Encoding": packing, "Content-Length": size}
        return found, RawBody(_file_pieces(path), headers, SentSources(str(path)))
    if isinstance(source, bytes | bytearray | memoryview):
        if format is None:
            raise BadRequest("bytes do not say what they hold; give format=, such as parquet")
        return format, RawBody(bytes(source), {}, SentSources(BYTES))
    if callable(getattr(source, "read", None)):
        if format is None:
            raise BadRequest("a stream does not say what it holds; give format=, such as parquet")
        return format, RawBody(_stream_pieces(source), {}, SentSources(_name_of(source)))
    if format not in (None, "arrow"):
        raise BadRequest(f"a frame travels as arrow, not as {format}; leave format out")
    return "arrow", RawBody(_frame_pieces(_batches(source)), {}, SentSources("<frame>"))


def plain(value: Any) -> Any:
    """Return a parameter of a query as JSON has it."""
    if isinstance(value, float) and value - value != 0:
        raise BadRequest("a parameter is NaN or infinite, which JSON cannot express; leave it out")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    try:
        return plain(record_form(value))
    except TypeError as error:
        raise BadRequest(f"a parameter cannot be sent: {error}") from None


Part = tuple[str, Iterator[bytes]]
"""A source by its name, and its pieces."""


def _parts(source: LinesLike | Iterable[LinesLike]) -> Iterator[Part]:
    """Yield the pieces of each source, one source after the other."""
    given: Iterable[Any] = [source]
    if not isinstance(source, str | os.PathLike | bytes | bytearray | memoryview | Mapping):
        if callable(getattr(source, "read", None)):
            yield _name_of(source), _stream_pieces(source)
            return
        if not isinstance(source, Iterable):
            raise _no_source(source)
        given = source
    number, waiting = 0, []
    for item in given:
        if isinstance(item, Mapping):
            number += 1
            waiting.append(_line(item, number))
            if len(waiting) == _RECORDS_A_PIECE:
                yield RECORDS, iter([b"".join(waiting)])
                waiting.clear()
            continue
        if waiting:
            yield RECORDS, iter([b"".join(waiting)])
            waiting.clear()
        if isinstance(item, bytes | bytearray | memoryview):
            yield BYTES, iter([bytes(item)])
        elif isinstance(item, str | os.PathLike):
            for path in _files(item):
                yield str(path), _unpacked(path)
        elif callable(getattr(item, "read", None)):
            yield _name_of(item), _stream_pieces(item)
        else:
            raise _no_source(item)
    if waiting:
        yield RECORDS, iter([b"".join(waiting)])


def _name_of(stream: Any) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else "<stream>"


def _joined(parts: Iterator[Part], sources: SentSources) -> Iterator[bytes]:
    """Yield all pieces; each part begins on a line of its own, without the mark of its encoding."""
    last, breaks = b"\n", 0
    for name, part in parts:
        is_first = True
        for piece in part:
            shown = piece.removeprefix(_BOM) if is_first else piece
            if not shown:
                continue
            if is_first and last != b"\n":
                shown = b"\n" + shown
            if is_first:
                sources.begin(name, breaks + 1 + (last != b"\n"))
            breaks += shown.count(b"\n")
            yield shown
            is_first, last = False, shown[-1:]


def _line(record: Mapping[str, Any], number: int) -> bytes:
    try:
        try:
            return _COMPACT.encode(dict(record)).encode() + b"\n"
        except UnicodeEncodeError:
            # A lone surrogate has no bytes; escaped, it reaches the reader, which says where it is.
            return _ESCAPED.encode(dict(record)).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"record {number} cannot be written as JSON: {error}; use strings, numbers, booleans, dates, "
            "bytes, lists and dicts",
            record=number,
        ) from None


_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=record_form)
_ESCAPED: Final = json.JSONEncoder(separators=(",", ":"), default=record_form)


def _no_source(given: object) -> BadRequest:
    return BadRequest(
        f"a Python {type(given).__name__} is no source of records; give paths, bytes of JSON lines, or "
        "records as dicts (a frame goes to load_table)"
    )


def _files(given: PathLike) -> Iterator[Path]:
    """Yield the files that a path, glob or directory names, sorted by name."""
    text = os.fspath(given)
    path = Path(text)
    refuse_data(text)
    if "://" in text:
        raise BadRequest(f'"{text}" is no path; fetch it first, or load it where the graph is')
    if path.is_dir():
        found = sorted(one for one in path.rglob("*") if one.name.lower().endswith(_LINES))
    elif glob.has_magic(text) and not path.exists():
        found = [Path(one) for one in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207
    else:
        found = [path]
    if not found:
        raise BadRequest(f'there are no files of JSON lines at "{text}"; check the path')
    yield from found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def _file_pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from _stream_pieces(file)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unpacked(path: Path) -> Iterator[bytes]:
    packing = _PACKED.get(path.suffix.lower())
    if packing is None:
        yield from _file_pieces(path)
        return
    import pyarrow as pa

    try:
        with pa.input_stream(str(path), compression=packing) as file:
            yield from _stream_pieces(file)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f'"{path}" cannot be read: {error.strerror or error}; check the path')


def _stream_pieces(stream: Any) -> Iterator[bytes]:
    while piece := stream.read(PIECE):
        if isinstance(piece, str):
            raise BadRequest("the file is open for text; open it for bytes, with mode rb")
        yield bytes(piece)


def _batches(frame: Any) -> pa.RecordBatchReader:
    """Return a frame of any library as Arrow batches; rows as dicts are one, too."""
    import pyarrow as pa

    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    elif hasattr(frame, "to_arrow"):
        frame = frame.to_arrow()
    elif type(frame).__module__.partition(".")[0] == "pandas":
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    elif hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, pa.Table):
        return pa.RecordBatchReader.from_stream(frame)
    elif isinstance(frame, Iterable) and not isinstance(frame, pa.Table):
        frame = pa.Table.from_pylist(list(frame))
    if not isinstance(frame, pa.Table):
        raise BadRequest(
            f"a Python {type(frame).__name__} is no frame; give Arrow, pandas, polars, rows as dicts, or "
            "the path of a Parquet, CSV or Arrow file"
        )
    return frame.to_reader()


class _Pieces:
    """A file that keeps what is written to it, until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._written = 0

    def write(self, piece: Any) -> int:
        self._kept.append(bytes(piece))
        self._written += len(self._kept[-1])
        return len(self._kept[-1])

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Do nothing: what was written can be taken at once."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing: bytes that were not taken yet can still be taken."""

    def take(self) -> bytes:
        taken, self._kept = b"".join(self._kept), []
        return taken


def _frame_pieces(batches: pa.RecordBatchReader) -> Iterator[bytes]:
    """Yield a frame as the bytes of an Arrow file."""
    import pyarrow as pa

    sink = _Pieces()
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), batches.schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()
