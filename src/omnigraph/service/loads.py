"""`load`, `embed` and `export`: many records in, the vectors they lack, and all of them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.pipeline.load_options import FIRST_BAD, LoadMode, OnBad
from omnigraph.pipeline.progress import ProgressCallback
from omnigraph.runner.executors import EngineName
from omnigraph.service.documents import Document, TargetRequest

if TYPE_CHECKING:
    from omnigraph.changes.export.column_files import ExportFormat
    from omnigraph.changes.export.export_files import Out
    from omnigraph.graph.session import Session
    from omnigraph.pipeline.frame_options import FrameOptions
    from omnigraph.pipeline.load_input import LoadInput
    from omnigraph.pipeline.sources.sources import ColumnFormat


STREAM = "-"
"""What stands for the stream of the caller among the sources of JSON lines."""


@dataclass(frozen=True, slots=True)
class TypedFile:
    """A file, glob or directory of columns of one type."""

    type: str
    file: str


@dataclass(frozen=True, slots=True)
class ReceivedColumns:
    """Columns of one type that somebody sent, and the file that holds them."""

    kind: Literal["node", "edge"]
    type: str
    format: ColumnFormat
    path: Path


def renames(texts: Iterable[str]) -> dict[str, str]:
    """Return renames of columns, `A=b` each, as a dict from the names sent to those of the type."""
    found: dict[str, str] = {}
    for text in texts:
        column, equals, name = text.partition("=")
        if not equals or not column:
            raise BadRequest(f"map takes A=b, the column A to be read as b, not {text!r}")
        if column in found:
            raise BadRequest(f"map names the column `{column}` twice; drop one")
        found[column] = name
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Sources of records, and how they meet what is there.

    ``data`` are JSON lines: paths, globs, directories, addresses, bytes, and ``STREAM``. The options
    from ``columns`` on say how ``nodes``, ``edges`` and what was ``received`` are read. With ``check``
    nothing is written. ``first_bad`` is how many bad records are listed.
    """

    mode: LoadMode
    data: tuple[str | Path | bytes, ...] = ()
    nodes: tuple[TypedFile, ...] = ()
    edges: tuple[TypedFile, ...] = ()
    received: ReceivedColumns | None = None
    from_col: str | None = None
    to_col: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    ignore_extra: bool = False
    delimiter: str | None = None
    header: bool = True
    names: tuple[str, ...] | None = None
    null: tuple[str, ...] = ()
    encoding: str | None = None
    branch: str | None = None
    from_: str | None = None
    check: bool = False
    on_bad: OnBad = "fail"
    rejects: str | Path | None = None
    first_bad: int | None = None
    engine: EngineName = "auto"
    spark_master: str | None = None
    spark_conf: Mapping[str, str] | None = None
    embed: bool = False
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None

    def check_sources(self) -> FrameOptions:
        """Refuse what no source can use, and return how files of columns are read.

        A caller may ask before it opens a graph.
        """
        from omnigraph.pipeline.frame_options import COMMA, UTF_8, FrameOptions

        columns = [*self.nodes, *self.edges, *([self.received] if self.received else [])]
        if not (self.data or columns):
            raise BadRequest("there is nothing to load; give data, nodes or edges (--data FILE, …)")
        if self.data.count(STREAM) > 1:
            raise BadRequest("`-` is among the data twice, and stdin can be read once; drop one")
        any_edges = self.edges or (self.received is not None and self.received.kind == "edge")
        for flag, column in (("--from-col", self.from_col), ("--to-col", self.to_col)):
            if column is not None and not any_edges:
                raise BadRequest(
                    f"{flag} names a column of files of edges (--edge) and there is none; drop it"
                )
        options = FrameOptions.of(
            self.columns,
            self.ignore_extra,
            COMMA if self.delimiter is None else self.delimiter,
            self.header,
            self.names,
            self.null,
            UTF_8 if self.encoding is None else self.encoding,
            shared=len(columns) > 1,
        )
        if not columns and options != FrameOptions():
            raise BadRequest(
                "renames and the options of CSV say how files of nodes and edges (--node, --edge) are "
                "read, and there is none; drop them"
            )
        return options

    def gather(self, inputs: LoadInput, stream: BinaryIO | Path | None, stream_name: str) -> None:
        """Add the sources to an input: data, then nodes, then edges, then what was received."""
        options = self.check_sources()
        for source in self.data:
            if source != STREAM:
                inputs.json(source)
            elif isinstance(stream, Path):
                inputs.received(stream, stream_name)
            else:
                assert stream is not None, "a request that reads a stream comes with one"
                inputs.stream(stream, stream_name)
        for typed in self.nodes:
            inputs.nodes(typed.type, typed.file, options)
        ends = self.from_col or "from", self.to_col or "to"
        for typed in self.edges:
            inputs.edges(typed.type, typed.file, *ends, options)
        if self.received is not None:
            self._add_received(inputs, self.received, options)

    def _add_received(
        self, inputs: LoadInput, received: ReceivedColumns, options: FrameOptions
    ) -> None:
        from omnigraph.pipeline.sources.sources import ReceivedFile

        file = ReceivedFile(received.path, received.format)
        if received.kind == "node":
            inputs.nodes(received.type, file, options)
        else:
            ends = self.from_col or "from", self.to_col or "to"
            inputs.edges(received.type, file, *ends, options)


def load(
    session: Session,
    request: LoadRequest,
    uri: str,
    *,
    stream: BinaryIO | Path | None = None,
    stream_name: str = "<stdin>",
    progress: ProgressCallback | None = None,
) -> Document:
    """Load all sources as one commit, or nothing; ``uri`` is how the caller knows the graph.

    ``stream`` is the stream of the caller, or a file that holds what came from it, which then is not
    copied; messages say ``stream_name`` of it.
    """
    from omnigraph.graph.session import access_of
    from omnigraph.graph.writes import load_gathered

    done = load_gathered(
        access_of(session),
        lambda inputs: request.gather(inputs, stream, stream_name),
        mode=request.mode,
        branch=MAIN if request.branch is None else request.branch,
        from_branch=request.from_,
        check=request.check,
        on_bad=request.on_bad,
        rejects=request.rejects,
        first_bad=FIRST_BAD if request.first_bad is None else request.first_bad,
        engine=request.engine,
        spark_master=request.spark_master,
        spark_conf=request.spark_conf,
        embed=request.embed,
        if_commit=request.if_commit,
        operation_id=request.operation_id,
        message=request.message,
        progress=progress,
    )
    return {"uri": uri, **done.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FillRequest:
    """The node types whose vectors are filled, all by default, and at most how many vectors."""

    branch: str | None = None
    types: tuple[str, ...] | None = None
    limit: int | None = None
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None


def embed(
    session: Session,
    request: FillRequest,
    uri: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Document:
    """Fill vectors, a commit for every 1,000 rows; ``uri`` is how the caller knows the graph."""
    done = session.embed(
        MAIN if request.branch is None else request.branch,
        request.types,
        request.limit,
        if_commit=request.if_commit,
        operation_id=request.operation_id,
        message=request.message,
        progress=progress,
    )
    return {"uri": uri, **done.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest(TargetRequest):
    """What to write: the types that are named, or all of them, as JSON lines or files of columns."""

    type_names: tuple[str, ...] | None = None
    format: ExportFormat | None = None
    engine: EngineName = "auto"


def export(
    session: Session,
    request: ExportRequest,
    out: Out,
    progress: Callable[[int, int], object] | None = None,
    *,
    on_pinned: Callable[[str], object] | None = None,
) -> Document:
    """Write the lines, and return what was written; whatever is refused is refused before the first.

    ``out`` is the path of a file, or a file that is open for writing. ``on_pinned`` is told the commit
    before the first line.
    """
    from omnigraph.graph import exports_and_diffs
    from omnigraph.graph.arguments import check_types
    from omnigraph.graph.session import access_of
    from omnigraph.manifest.snapshot import Target

    done = exports_and_diffs.export(
        access_of(session),
        out,
        Target.of(**request.target),
        check_types(request.type_names),
        request.engine,
        progress,
        format=request.format,
        # A handle that only reads has to be told: cleanup must know about the export.
        lease=True,
        on_pinned=on_pinned,
    )
    return done.to_json()
