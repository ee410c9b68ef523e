"""A graph behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

import msgspec

from omnigraph.cli.sides.side import NO_CONDITIONS, Counts, WriteConditions, all_changes
from omnigraph.client.client import Client
from omnigraph.client.core import quoted
from omnigraph.client.row_lines import AnswerLines, decoded_line, object_text
from omnigraph.client.sent_bodies import RawBody, bytes_body
from omnigraph.errors import (
    BadRequest,
    BlobRange,
    GraphNotFound,
    PolicyDenied,
    Unauthenticated,
)
from omnigraph.service import wire
from omnigraph.service.documents import Document, Streamed
from omnigraph.service.operations import LINES

if TYPE_CHECKING:
    from omnigraph.changes.export.export_files import Out
    from omnigraph.client.core import PreparedCall
    from omnigraph.pipeline.progress import ProgressCallback
    from omnigraph.service.loads import ExportRequest, LoadRequest
    from omnigraph.write.blobs import BlobSourceLike

DEFAULT_GRAPH = "default"
"""The graph of a server that does not tell which it has."""
_FACTS = ("query_name", "target", "as_of", "row_count", "columns", "schema")
_SOURCES = ("query", "source", "schema_source")
"""The field of a request in whose text an error may have its place."""


class ServedSide:
    """A graph that a server works on; ``is_guess``: its id was assumed, because nothing says it."""

    def __init__(self, client: Client, *, is_guess: bool = False) -> None:
        self.uri = client.core.graph_url
        self._client = client
        self._is_guess = is_guess
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(
        self, name: str, request: wire.Wire, *path: str, said: WriteConditions = NO_CONDITIONS
    ) -> Document:
        """Run an operation that answers with a document."""
        return self._send(self._prepared(name, request, *path, said=said))

    def _prepared(
        self,
        name: str,
        request: wire.Wire,
        *path: str,
        said: WriteConditions = NO_CONDITIONS,
        body: RawBody | None = None,
    ) -> PreparedCall:
        sources = (getattr(request, field, None) for field in _SOURCES)
        return self._client.core.prepare(
            name,
            request,
            *path,
            body=body,
            source=next((text for text in sources if isinstance(text, str)), None),
            operation_id=said.operation_id,
            if_commit=said.if_commit,
            headers={"If-Match": quoted(said.if_match)},
        )

    def _send(self, asked: PreparedCall) -> Document:
        with self._told():
            return self._client.send(asked)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say which option names the graph, if the one that was assumed is not there."""
        try:
            yield
        except GraphNotFound as error:
            if not self._is_guess:
                raise
            raise BadRequest(
                f"{self._client.core.base_url} does not tell which graphs it has, and there is no "
                f"`{DEFAULT_GRAPH}` among them; name one with --graph ID"
            ) from error

    def query(self, request: wire.QueryBody) -> Streamed:
        """Run a read query; its rows are read as they come."""
        pieces = self._pieces(self._prepared("query", request).asking_for(LINES))
        answer = AnswerLines()
        first: list[bytes] = []
        while answer.head is None and (piece := next(pieces, None)) is not None:
            first = answer.feed(piece)
        if answer.head is None:
            first = answer.finish()

        def rows() -> Iterator[list[str]]:
            waiting = first
            for piece in pieces:
                if waiting:
                    yield [object_text(line) for line in waiting]
                waiting = answer.feed(piece)
            if rest := [*waiting, *answer.finish()]:
                yield [object_text(line) for line in rest]

        about = dict(answer.head or {})
        # In the order of a graph here; an older server does not say `as_of`.
        head = {name: about.pop(name) for name in _FACTS if name in about}
        about.pop("kind", None)
        return Streamed(head, "rows", rows(), about)

    def _pieces(self, asked: PreparedCall) -> Iterator[bytes]:
        """Begin to receive an answer; an error is raised at once, the rest read until this is closed."""
        with self._told():
            return self._open.enter_context(self._client.receive(asked)).pieces

    def diff(self, request: wire.DiffBody) -> Streamed:
        """Return all that changed from one state to another."""
        return all_changes(self, request)

    def load(
        self, request: LoadRequest, stream: BinaryIO | None, progress: ProgressCallback | None
    ) -> Document:
        """Load one kind of source as one commit, or nothing."""
        del progress  # a server does not say how far it is
        from omnigraph.cli.sides.served_load import sending

        with sending(request, stream) as (name, parameters, body):
            said = WriteConditions(operation_id=request.operation_id, if_commit=request.if_commit)
            return self._send(self._prepared(name, parameters, said=said, body=body))

    def embed(
        self, request: wire.EmbedBody, said: WriteConditions, progress: Counts | None
    ) -> Document:
        """Fill the vectors that are missing; a server fills some of them at a time."""
        answer = self.ask("embed", request, said=said)
        filled, commit = answer["filled"], answer["commit"]
        while answer["pending"] and answer["filled"] and not answer["failed"]:
            if progress is not None:
                progress(filled, answer["failed"])
            left = None if request.limit is None else request.limit - filled
            if left is not None and left < 1:
                break
            answer = self.ask("embed", msgspec.structs.replace(request, limit=left))
            filled += answer["filled"]
            commit = answer["commit"] or commit
        return {**answer, "filled": filled, "commit": commit}

    def export(self, request: ExportRequest, out: Out, progress: Counts | None) -> Document:
        """Write the records of one state to a file or stream."""
        from omnigraph.changes.export.column_files import LINES as JSON_LINES
        from omnigraph.changes.export.column_files import format_of
        from omnigraph.changes.export.export_files import output_to

        if format_of(out, request.format) != JSON_LINES:
            raise _elsewhere("--format", "a server sends JSON lines")
        if request.engine != "auto":
            raise _elsewhere("--engine", "a server has its own")
        names = None if request.type_names is None else list(request.type_names)
        body = wire.ExportBody(type_names=names, **request.target)
        records = 0
        with self._told():
            answer = self._open.enter_context(self._client.receive(self._prepared("export", body)))
        with output_to(out) as output:
            for piece in answer.pieces:
                output.write(piece)
                records += piece.count(b"\n")
                if progress is not None:
                    progress(records, records)  # how many there are in all is not known
        return {"graph_commit_id": answer.commit, "stats": {"records": records}}

    def baseline(self, request: wire.BaselineBody, out: str, progress: Counts | None) -> Document:
        """Write the newest state of a branch to a file; the last line has the cursor after it."""
        from omnigraph.changes.export.export_files import output_to
        from omnigraph.changes.export.write_export import ExportStats

        asked = self._prepared("baseline", request)
        pieces = self._pieces(asked)
        held, records = b"", 0
        with output_to(out, durable=True) as output:
            for piece in pieces:
                held += piece
                # The last line is not one of the records.
                end = held.rfind(b"\n", 0, held.rfind(b"\n") if b"\n" in held else 0) + 1
                output.write(held[:end])
                records += held.count(b"\n", 0, end)
                held = held[end:]
                if progress is not None:
                    progress(records, records)
            found = decoded_line(held.strip()).get("baseline")
            if not isinstance(found, dict) or not all(
                isinstance(found.get(name), str) for name in ("snapshot_commit_id", "resume_cursor")
            ):
                raise self._client.core.lost(asked, "it has no cursor at its end")
        spent = ExportStats(records=records, bytes_written=output.bytes_written)
        return {**found, "stats": spent.to_json()}

    def stat_blob(self, request: wire.BlobParameters) -> Document:
        """Describe a blob without reading it."""
        from omnigraph.client.stat_blob import stat_document

        return self._send(stat_document(self._client.core, request))

    def read_blob(
        self, request: wire.BlobParameters, offset: int, length: int | None, out: BinaryIO
    ) -> None:
        """Write the bytes of a blob, or of a range of it, to a file."""
        try:
            with self._told():
                pieces = self._client.blob_pieces(request, offset=offset, length=length)
                for piece in pieces:  # `out` may have no more than `write`
                    _ = out.write(piece)
        except BlobRange as error:
            what = f"{request.property} of {request.type} {request.id!r}"
            size = error.details.get("length")
            raise BlobRange(
                f"{what} has {size} bytes and the range begins at {offset}; begin before its end",
                start=offset,
                end=error.details.get("end"),
                length=size,
            ) from None

    def put_blob(
        self, request: wire.BlobWriteParameters, source: BlobSourceLike, said: WriteConditions
    ) -> Document:
        """Replace a blob, or clear it, as one commit."""
        if source is None:
            return self.ask("clear_blob", request, said=said)
        body = bytes_body(cast("Any", source))
        return self._send(self._prepared("put_blob", request, said=said, body=body))


def _elsewhere(flag: str, why: str) -> BadRequest:
    return BadRequest(
        f"{flag} cannot be used with export on a server: {why}; leave it out, or pass --store URI to "
        "read the storage of the graph"
    )


@contextmanager
def reached(url: str, graph: str, token: str | None, *, is_guess: bool) -> Iterator[ServedSide]:
    """Talk to a graph of a server while the block runs."""
    with Client(url, graph, token) as client, ServedSide(client, is_guess=is_guess) as side:
        yield side


def list_graphs(url: str, token: str | None) -> Document:
    """Return the graphs that a server tells of."""
    with Client(url, None, token) as client:
        return client.graphs()


def only_graph(url: str, token: str | None) -> tuple[str, bool]:
    """Return the graph that is meant where nothing says which, and whether that is a guess."""
    try:
        ids = [graph["graph_id"] for graph in list_graphs(url, token)["graphs"]]
    except (Unauthenticated, PolicyDenied):
        return DEFAULT_GRAPH, True
    if len(ids) == 1:
        return ids[0], False
    if not ids:
        raise BadRequest(f"{url} has no graph that is ready; look at its log")
    raise BadRequest(f"{url} has the graphs {', '.join(ids)}; name one with --graph ID")
