"""The client that waits for its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx2

from omnigraph.client.core import REFUSED, SNAPSHOT_ID, Core, Document, PreparedCall
from omnigraph.client.read_methods import ReadMethods, SeenNames, TargetNames
from omnigraph.client.row_lines import LineSplitter, RowReader, decoded_line
from omnigraph.client.streams import (
    Received,
    arrow_table,
    baseline_request,
    blob_request,
    connection_options,
    export_request,
    is_empty_range,
    refusal_of,
)
from omnigraph.client.write_methods import WriteMethods
from omnigraph.service import wire
from omnigraph.service.operations import ARROW, LINES

if TYPE_CHECKING:
    import pyarrow as pa


class Client(ReadMethods[Document], WriteMethods[Document]):
    """One graph of a server.

    ``base_url`` is that of the server, ``graph`` the id of the graph, ``token`` what the server knows the
    caller by. Documents are dicts, as `--json` of the command line prints them. Errors are those of
    ``omnigraph.errors``. Connections are kept until ``close``, or the end of a ``with`` block; threads may
    share a client. ``timeout``: give up when the server sends nothing for so many seconds; without it the
    limits of the server alone count.
    """

    def __init__(
        self,
        base_url: str,
        graph: str | None,
        token: str | None = None,
        *,
        timeout: float | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.core = Core(base_url, graph, token)
        settings = connection_options(self.core, timeout)
        made = httpx2.HTTPTransport(verify=settings.trusted, socket_options=settings.sockets)
        self._http = httpx2.Client(
            transport=transport or made, timeout=settings.timeout, follow_redirects=False
        )

    def __repr__(self) -> str:
        return f"<omnigraph.client.Client of {self.core.base_url}, graph {self.core.graph}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -------------------------------------------------------------- sending

    def send(self, asked: PreparedCall) -> Document:
        """Send a request and return the document of its answer, or raise its error."""
        with self._answer(asked) as answer:
            again = asked.for_the_error() if answer.status_code >= REFUSED else None
            if again is not None:
                answer.close()
                return self.send(again)
            is_read = answer.status_code >= REFUSED or not asked.headers_only
            body = answer.read() if is_read else b""
            return self.core.read(asked, answer.status_code, answer.headers, body)

    @contextmanager
    def receive(self, asked: PreparedCall) -> Iterator[Received[Iterator[bytes]]]:
        """Send a request and give the pieces of its answer as they come; an error is raised before them."""
        with self._answer(asked) as answer:
            if answer.status_code >= REFUSED:
                raise self.core.failure(asked, answer.status_code, answer.read())
            self.core.check_stream(asked, answer.status_code, answer.headers)
            commit = answer.headers.get(SNAPSHOT_ID)
            yield Received(self._pieces(asked, answer), commit)

    def _pieces(self, asked: PreparedCall, answer: httpx2.Response) -> Iterator[bytes]:
        # Here, not around the caller: it may read after the block that it received them in.
        try:
            yield from answer.iter_bytes()
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise refusal_of(self.core, asked, error) from error

    @contextmanager
    def _answer(self, asked: PreparedCall) -> Iterator[httpx2.Response]:
        """Send a request; what goes wrong on the way is an error with what to do."""
        try:
            request = self._http.build_request(
                asked.method, asked.url, headers=dict(asked.headers), content=asked.content
            )
            answer = self._http.send(request, stream=True)
            try:
                yield answer
            finally:
                answer.close()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise refusal_of(self.core, asked, error) from error

    # -------------------------------------------------------------- rows, records and bytes

    def query_rows(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        timeout: float | None = None,
        **target: Unpack[SeenNames],
    ) -> Iterator[Document]:
        """Run a read query and yield its rows as they come, however many there are."""
        asked = self.question(
            query, name, params, max_rows=max_rows, timeout=timeout, **target
        ).asking_for(LINES)
        reader = RowReader()
        with self.receive(asked) as answer:
            for piece in answer.pieces:
                yield from reader.feed(piece)
        yield from reader.finish()

    def query_arrow(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        timeout: float | None = None,
        **target: Unpack[SeenNames],
    ) -> pa.Table:
        """Run a read query and return its rows as an Arrow table.

        The rest of the answer is JSON under `omnigraph` in the metadata of its schema.
        """
        asked = self.question(
            query, name, params, max_rows=max_rows, timeout=timeout, **target
        ).asking_for(ARROW)
        with self.receive(asked) as answer:
            data = b"".join(answer.pieces)
        return arrow_table(self.core, data)

    def export(
        self, type_names: Sequence[str] | None = None, **target: Unpack[TargetNames]
    ) -> Iterator[Document]:
        """Yield the records of one state of the graph, nodes first; ``load`` takes them back."""
        yield from self._lines(export_request(self.core, type_names, target))

    def baseline(
        self,
        branch: str | None = None,
        *,
        kinds: Sequence[wire.Kind] = (),
        types: Sequence[str] = (),
        ops: Sequence[wire.Change] = (),
    ) -> Iterator[Document]:
        """Yield the newest state of a branch; the last line has the cursor after it, under `baseline`."""
        yield from self._lines(baseline_request(self.core, branch, kinds, types, ops))

    def _lines(self, asked: PreparedCall) -> Iterator[Document]:
        splitter = LineSplitter()
        with self.receive(asked) as answer:
            for piece in answer.pieces:
                yield from map(decoded_line, splitter.feed(piece))
        yield from map(decoded_line, splitter.finish())

    def blob(
        self,
        kind: wire.Kind,
        type: str,
        id: str,
        property: str,
        *,
        offset: int = 0,
        length: int | None = None,
        **target: Unpack[TargetNames],
    ) -> bytes:
        """Return the bytes of a blob, or of a range of it."""
        named = wire.BlobParameters(kind=kind, type=type, id=id, property=property, **target)
        return b"".join(self.blob_pieces(named, offset=offset, length=length))

    def blob_pieces(
        self, named: wire.BlobParameters, *, offset: int = 0, length: int | None = None
    ) -> Iterator[bytes]:
        """Yield the bytes of a blob as they come, however many there are."""
        asked = blob_request(self.core, named, offset, length)
        with self._answer(asked) as answer:
            if answer.status_code >= REFUSED:
                error = self.core.failure(asked, answer.status_code, answer.read())
                if is_empty_range(error, offset):
                    return
                raise error
            self.core.check_stream(asked, answer.status_code, answer.headers)
            yield from answer.iter_bytes()
