"""The sources of a load as the one body that a server takes: JSON lines, or columns of one type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from omnigraph.client.sent_bodies import ColumnFormat, RawBody, columns_body, lines_body
from omnigraph.client.sent_sources import SentSources
from omnigraph.errors import BadRequest
from omnigraph.pipeline.formats.frame_files import frame_sources, is_csv, is_json
from omnigraph.pipeline.sources.locations import LocalFile, open_plain
from omnigraph.pipeline.sources.sources import PARQUET, InputSource, json_sources
from omnigraph.service import wire
from omnigraph.service.loads import STREAM, LoadRequest, TypedFile

Sent = tuple[str, wire.Wire, RawBody]
"""The operation, its parameters and the body."""


def refuse_unsendable(request: LoadRequest) -> None:
    """Refuse what only a load can do that opens the graph itself."""
    typed = len(request.nodes) + len(request.edges)
    if typed > 1 or (typed and request.data):
        raise BadRequest(
            "a load on a server is one commit of --data, or of one --node or one --edge; leave the "
            "others out, or pass --store URI to load all of them at once"
        )
    given = {
        "--rejects": request.rejects is not None,
        "--engine": request.engine != "auto",
        "--spark-master": request.spark_master is not None,
        "--spark-conf": request.spark_conf is not None,
    }
    unusable = [flag for flag, is_given in given.items() if is_given]
    if unusable:
        raise BadRequest(
            f"{' and '.join(unusable)} cannot be used with load on a server, which has its own engine and "
            "no files of yours; leave it out, or pass --store URI to load beside the server"
        )


@contextmanager
def sending(request: LoadRequest, stream: BinaryIO | None) -> Iterator[Sent]:
    """Open the sources while the block runs, and give them as they are sent."""
    refuse_unsendable(request)
    with ExitStack() as opened, TemporaryDirectory(prefix="omnigraph-load-") as spool:
        if request.data:
            sources = list(_lines(request, stream, Path(spool)))
            yield "load_ndjson", wire.LoadParameters(**_fields(request)), lines_body(sources)
        else:
            yield _columns(request, opened)


def _lines(request: LoadRequest, stream: BinaryIO | None, spool: Path) -> Iterator[Any]:
    """Yield the files of JSON lines in their order; they are read as they are sent."""
    for item in request.data:
        if item == STREAM:
            assert stream is not None, "a request that reads a stream comes with one"
            yield _Stdin(stream)
            continue
        for source in json_sources([item], spool):
            yield _Later(source)


class _Stdin:
    """What is piped into the command, under the name that messages have for it."""

    name = "<stdin>"

    def __init__(self, stream: BinaryIO) -> None:
        self.read = stream.read


class _Later:
    """A file that is opened when it is read, and closed at its end: a load may have thousands."""

    def __init__(self, source: InputSource) -> None:
        self.name = source.name
        self._source = source
        self._opened = ExitStack()
        self._file: BinaryIO | None = None

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end."""
        source = self._source
        if self._file is None:
            self._file = self._opened.enter_context(
                open_plain(source.location, source.compression, source.name)
            )
        piece = self._file.read(size)
        if not piece:
            self._opened.close()
        return piece


def _columns(request: LoadRequest, opened: ExitStack) -> Sent:
    kind: wire.Kind = "node" if request.nodes else "edge"
    typed: TypedFile = (*request.nodes, *request.edges)[0]
    source = _only(frame_sources(typed.file), typed.file, f"--{kind}")
    given: Any
    if isinstance(source.location, LocalFile):
        given = source.location.path
    else:
        given = opened.enter_context(open_plain(source.location, source.compression, source.name))
    chosen, body = columns_body(given, _format(source))
    body = body._replace(sources=SentSources(source.name))
    parameters = wire.TableParameters(
        kind=kind,
        type=typed.type,
        format=chosen,
        from_col=request.from_col,
        to_col=request.to_col,
        map=[f"{old}={new}" for old, new in request.columns.items()],
        ignore_extra=request.ignore_extra,
        delimiter=request.delimiter,
        header=request.header,
        names=None if request.names is None else list(request.names),
        null=list(request.null),
        encoding=request.encoding,
        **_fields(request),
    )
    return "load_table", parameters, body


def _only(sources: list[InputSource], named: str, flag: str) -> InputSource:
    if len(sources) != 1:
        raise BadRequest(
            f'{flag} names {len(sources)} files with "{named}", and a server takes one; name one, or '
            "pass --store URI to load all of them at once"
        )
    source = sources[0]
    if is_json(source) or source.folders:
        what = (
            "JSON lines" if is_json(source) else "a file with columns in the names of its folders"
        )
        raise BadRequest(
            f'"{source.name}" is {what}, and {flag} on a server takes one Parquet, CSV or Arrow file; '
            "load records with --data, or pass --store URI"
        )
    return source


def _format(source: InputSource) -> ColumnFormat:
    if is_csv(source):
        return "csv"
    return "parquet" if source.name.lower().endswith(PARQUET) else "arrow"


def _fields(request: LoadRequest) -> dict[str, Any]:
    names = ("branch", "from_", "mode", "check", "on_bad", "embed", "message")
    return {name: getattr(request, name) for name in names}
