"""A graph that is opened in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from omnigraph.cancel import Cancel, watching
from omnigraph.cli.sides.side import NO_CONDITIONS, Counts, WriteConditions
from omnigraph.service import wire
from omnigraph.service.calls import Call
from omnigraph.service.documents import Document, Streamed
from omnigraph.service.operations import OPERATIONS

if TYPE_CHECKING:
    from omnigraph.changes.export.export_files import Out
    from omnigraph.graph.session import Session
    from omnigraph.pipeline.progress import ProgressCallback
    from omnigraph.service.loads import ExportRequest, LoadRequest
    from omnigraph.write.blobs import BlobSourceLike


class EmbeddedSide:
    """An open graph; ``deadline`` is when a call gives up."""

    def __init__(self, session: Session, uri: str, deadline: Cancel | None = None) -> None:
        self.uri = uri
        self._session = session
        self._deadline = deadline

    def ask(
        self, name: str, request: wire.Wire, *path: str, said: WriteConditions = NO_CONDITIONS
    ) -> Document:
        """Run an operation that answers with a document."""
        answer: Document = self._run(name, request, *path, said=said)
        return answer

    def query(self, request: wire.QueryBody) -> Streamed:
        """Run a read query."""
        answer: Streamed = self._run("query", request)
        return answer

    def _run(
        self, name: str, request: wire.Wire, *path: str, said: WriteConditions = NO_CONDITIONS
    ) -> Any:
        call = Call(
            session=self._session,
            uri=self.uri,
            operation_id=said.operation_id,
            if_commit=said.if_commit,
            if_match=said.if_match,
        )
        with watching(self._deadline):
            return OPERATIONS[name].run(call, request, *path)

    def diff(self, request: wire.DiffBody) -> Streamed:
        """Compare two states as the changes are read; pages would compare from the start for each."""
        from omnigraph.service import history as service
        from omnigraph.service.calls import diff_request

        return service.diff(self._session, diff_request(request))

    def load(
        self, request: LoadRequest, stream: BinaryIO | None, progress: ProgressCallback | None
    ) -> Document:
        """Load all sources as one commit, or nothing."""
        from omnigraph.service import loads as service

        return service.load(self._session, request, self.uri, stream=stream, progress=progress)

    def embed(
        self, request: wire.EmbedBody, said: WriteConditions, progress: Counts | None
    ) -> Document:
        """Fill the vectors that are missing."""
        from omnigraph.service import loads as service

        asked = service.FillRequest(
            branch=request.branch,
            types=None if request.types is None else tuple(request.types),
            limit=request.limit,
            operation_id=said.operation_id,
            message=request.message,
        )
        return service.embed(self._session, asked, self.uri, progress=progress)

    def export(self, request: ExportRequest, out: Out, progress: Counts | None) -> Document:
        """Write the records of one state."""
        from omnigraph.service import loads as service

        return service.export(self._session, request, out, progress)

    def baseline(self, request: wire.BaselineBody, out: str, progress: Counts | None) -> Document:
        """Write the newest state of a branch to a file."""
        from omnigraph.service import history as service

        asked = service.BaselineRequest(
            branch=request.branch,
            kinds=tuple(request.kinds),
            types=tuple(request.types),
            ops=tuple(request.ops),
        )
        return service.baseline(self._session, asked, out, progress)

    def stat_blob(self, request: wire.BlobParameters) -> Document:
        """Describe a blob without reading it."""
        from omnigraph.service import blobs as service

        return service.stat_blob(self._session, _blob_request(request))

    def read_blob(
        self, request: wire.BlobParameters, offset: int, length: int | None, out: BinaryIO
    ) -> None:
        """Write the bytes of a blob, or of a range of it, to a file."""
        from omnigraph.service import blobs as service

        service.read_blob(self._session, _blob_request(request, offset, length), out)

    def put_blob(
        self, request: wire.BlobWriteParameters, source: BlobSourceLike, said: WriteConditions
    ) -> Document:
        """Replace a blob, or clear it, as one commit."""
        from omnigraph.service import blobs as service

        asked = service.PutBlobRequest(
            kind=request.kind,
            type=request.type,
            id=request.id,
            property=request.property,
            branch=request.branch,
            if_match=said.if_match,
            if_commit=said.if_commit,
            operation_id=said.operation_id,
            message=request.message,
        )
        return service.put_blob(self._session, asked, source)


def _blob_request(request: wire.BlobParameters, offset: int = 0, length: int | None = None) -> Any:
    from omnigraph.service.blobs import BlobRequest

    return BlobRequest(
        kind=request.kind,
        type=request.type,
        id=request.id,
        property=request.property,
        offset=offset,
        length=length,
        **request.target,
    )


@contextmanager
def opened(
    uri: str, *, writes: bool, actor: str | None, seconds: int | None = None
) -> Iterator[EmbeddedSide]:
    """Open the graph while the block runs; after ``seconds`` the opening and what is asked give up."""
    import omnigraph

    deadline = None if seconds is None else Cancel(seconds)
    with watching(deadline):
        graph = omnigraph.open(uri, mode="rw" if writes else "r", actor=actor)
    with graph:
        yield EmbeddedSide(graph, uri, deadline)
