"""`omnigraph blob get`, `blob stat` and `blob put`."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast
from uuid import uuid4

import typer

from omnigraph.cli.call import Invocation
from omnigraph.cli.output import OutputLost, StdoutBytes, made_commit, replayed
from omnigraph.cli.shared_options import (
    STDIN,
    BranchOption,
    CommitFlags,
    IfCommitOption,
    TargetOptions,
    UriOption,
    open_stdin,
)
from omnigraph.display.text import counted
from omnigraph.errors import BadRequest
from omnigraph.service import wire

if TYPE_CHECKING:
    from omnigraph.service.documents import TargetValues
    from omnigraph.write.blobs import BlobSourceLike


@dataclass(frozen=True, slots=True)
class BlobArguments:
    """The arguments that name one blob."""

    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="`node` or `edge`.")]
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="The type.")]
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the node or edge.")]
    property: Annotated[str, typer.Argument(metavar="PROPERTY", help="The Blob property.")]

    def selector(self) -> tuple[Literal["node", "edge"], str, str, str]:
        """Return the arguments as the methods of `graph.blobs` take them."""
        if self.entity not in ("node", "edge"):
            raise typer.BadParameter(f"ENTITY is `node` or `edge`, not `{self.entity}`")
        return cast("Any", self.entity), self.type_name, self.id, self.property

    def request(self, target: TargetValues) -> wire.BlobParameters:
        """Return the request to read or describe the blob at one state of the graph."""
        kind, type_name, id_, property_ = self.selector()
        return wire.BlobParameters(kind=kind, type=type_name, id=id_, property=property_, **target)


def get(
    call: Invocation,
    blob: BlobArguments,
    target: TargetOptions,
    offset: Annotated[
        int, typer.Option("--offset", metavar="N", help="The first byte, counted from 0.")
    ] = 0,
    length: Annotated[
        int | None, typer.Option("--length", metavar="N", help="At most N bytes.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to a file, not to stdout.")
    ] = None,
    uri: UriOption = None,
) -> None:
    """Write the bytes of a blob, or of a range of it, to stdout or to a file."""
    if call.flags.json:
        raise BadRequest("--json cannot be used with blob get, which writes bytes; leave it out")
    request = blob.request(target.read())
    destination = StdoutBytes() if out is None else _Destination(out)
    try:
        with call.reach(call.address(uri)) as side:
            side.read_blob(request, offset, length, cast("Any", destination))
        destination.flush()
    finally:
        if isinstance(destination, _Destination):
            destination.close()


def stat(
    call: Invocation, blob: BlobArguments, target: TargetOptions, uri: UriOption = None
) -> None:
    """Describe a blob without opening it."""
    request = blob.request(target.read())
    with call.reach(call.address(uri)) as side:
        document = side.stat_blob(request)
    if document["kind"] == "external":
        said = f"external, {document['uri']}"
    else:
        said = f"managed, {counted(document['size'], 'byte')}, etag {document['etag']}"
    call.answer(document, said)


def put_blob(
    call: Invocation,
    blob: BlobArguments,
    made: CommitFlags,
    data: Annotated[
        str | None, typer.Option("--data", metavar="FILE", help="The new bytes; `-` is stdin.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Make the value null.")] = False,
    branch: BranchOption = None,
    if_match: Annotated[
        str | None,
        typer.Option("--if-match", metavar="ETAG", help="Only if the value has this ETag."),
    ] = None,
    if_commit: IfCommitOption = None,
    uri: UriOption = None,
) -> None:
    """Replace or clear a blob as one commit; other properties stay."""
    if (data is None) != clear:
        raise typer.BadParameter("give --data FILE, `--data -` for stdin, or --clear")
    kind, type_name, id_, property_ = blob.selector()
    request = wire.BlobWriteParameters(
        kind=kind,
        type=type_name,
        id=id_,
        property=property_,
        branch=branch,
        message=made.message,
    )
    source: BlobSourceLike = open_stdin("--data") if data == STDIN else data
    with call.reach(call.address(uri)) as side:
        document = side.put_blob(request, source, made.conditions(if_commit, if_match))
    size = document["size"]
    what = "cleared" if size is None else f"wrote {counted(size, 'byte')} to"
    commit = f"commit {document['commit']['graph_commit_id']}{replayed(document)}"
    said = f"{what} {blob.property} of {blob.type_name} {blob.id}; {commit}"
    call.answer(document, said, made_commit(document))


class _Destination:
    """A file that is replaced when all bytes are there: until then they are in a file beside it.

    A device or a pipe is written to at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # A link stays, and the file it leads to is replaced.
        self._place = path.resolve()
        self._is_file = path.is_file() or not path.exists()
        self._part = (
            self._place.with_name(f".{path.name[:100]}.{uuid4().hex}.part")
            if self._is_file
            else self._place
        )
        self._stream: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Write a piece; raise if it could not be written."""
        with self._told():
            self._opened().write(data)
        return len(data)

    def flush(self) -> None:
        """Finish: an empty blob makes an empty file."""
        with self._told():
            self._opened().close()
            if self._is_file:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copymode(self._place, self._part)
                self._part.replace(self._place)

    def close(self) -> None:
        """Close the file, if one was opened, and leave no part of one that is not complete."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            if self._is_file:
                with contextlib.suppress(OSError):
                    self._part.unlink(missing_ok=True)

    def _opened(self) -> IO[bytes]:
        if self._stream is None:
            self._stream = self._part.open("xb" if self._is_file else "wb")
        return self._stream

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputLost(f'cannot write "{self._path}": {error.strerror or error}') from error
