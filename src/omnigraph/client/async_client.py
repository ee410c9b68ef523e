"""The client for programs that await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
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


class AsyncClient(ReadMethods[Awaitable[Document]], WriteMethods[Awaitable[Document]]):
    """One graph of a server, as ``Client`` has it; every method that gives a document is awaited."""

    def __init__(
        self,
        base_url: str,
        graph: str | None,
        token: str | None = None,
        *,
        timeout: float | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.core = Core(base_url, graph, token)
        settings = connection_options(self.core, timeout)
        made = httpx2.AsyncHTTPTransport(verify=settings.trusted, socket_options=settings.sockets)
        self._http = httpx2.AsyncClient(
            transport=transport or made, timeout=settings.timeout, follow_redirects=False
        )

    def __repr__(self) -> str:
        return f"<omnigraph.client.AsyncClient of {self.core.base_url}, graph {self.core.graph}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # -------------------------------------------------------------- sending

    async def send(self, asked: PreparedCall) -> Document:
        """Send a request and return the document of its answer, or raise its error."""
        async with self._answer(asked) as answer:
            again = asked.for_the_error() if answer.status_code >= REFUSED else None
            if again is not None:
                await answer.aclose()
                return await self.send(again)
            is_read = answer.status_code >= REFUSED or not asked.headers_only
            body = await answer.aread() if is_read else b""
            return self.core.read(asked, answer.status_code, answer.headers, body)

    @asynccontextmanager
    async def receive(self, asked: PreparedCall) -> AsyncIterator[Received[AsyncIterator[bytes]]]:
        """Send a request and give the pieces of its answer as they come; an error is raised before them."""
        async with self._answer(asked) as answer:
            if answer.status_code >= REFUSED:
                raise self.core.failure(asked, answer.status_code, await answer.aread())
            self.core.check_stream(asked, answer.status_code, answer.headers)
            commit = answer.headers.get(SNAPSHOT_ID)
            yield Received(self._pieces(asked, answer), commit)

    async def _pieces(self, asked: PreparedCall, answer: httpx2.Response) -> AsyncIterator[bytes]:
        # Here, not around the caller: it may read after the block that it received them in.
        try:
            async for piece in answer.aiter_bytes():
                yield piece
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise refusal_of(self.core, asked, error) from error

    @asynccontextmanager
    async def _answer(self, asked: PreparedCall) -> AsyncIterator[httpx2.Response]:
        """Send a request; what goes wrong on the way is an error with what to do."""
        content = asked.content
        try:
            request = self._http.build_request(
                asked.method,
                asked.url,
                headers=dict(asked.headers),
                content=content
                if content is None or isinstance(content, bytes)
                else _read(content),
            )
            answer = await self._http.send(request, stream=True)
            try:
                yield answer
            finally:
                await answer.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise refusal_of(self.core, asked, error) from error

    # -------------------------------------------------------------- rows, records and bytes

    async def query_rows(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the server's, which stops the query
        **target: Unpack[SeenNames],
    ) -> AsyncIterator[Document]:
        """Run a read query and yield its rows as they come, however many there are."""
        asked = self.question(
            query, name, params, max_rows=max_rows, timeout=timeout, **target
        ).asking_for(LINES)
        reader = RowReader()
        async with self.receive(asked) as answer:
            async for piece in answer.pieces:
                for row in reader.feed(piece):
                    yield row
        for row in reader.finish():
            yield row

    async def query_arrow(
        self,
        query: str,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rows: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the server's, which stops the query
        **target: Unpack[SeenNames],
    ) -> pa.Table:
        """Run a read query and return its rows as an Arrow table.

        The rest of the answer is JSON under `omnigraph` in the metadata of its schema.
        """
        asked = self.question(
            query, name, params, max_rows=max_rows, timeout=timeout, **target
        ).asking_for(ARROW)
        async with self.receive(asked) as answer:
            data = b"".join([piece async for piece in answer.pieces])
        return arrow_table(self.core, data)

    async def export(
        self, type_names: Sequence[str] | None = None, **target: Unpack[TargetNames]
    ) -> AsyncIterator[Document]:
        """Yield the records of one state of the graph, nodes first; ``load`` takes them back."""
        async for record in self._lines(export_request(self.core, type_names, target)):
            yield record

    async def baseline(
        self,
        branch: str | None = None,
        *,
        kinds: Sequence[wire.Kind] = (),
        types: Sequence[str] = (),
        ops: Sequence[wire.Change] = (),
    ) -> AsyncIterator[Document]:
        """Yield the newest state of a branch; the last line has the cursor after it, under `baseline`."""
        async for line in self._lines(baseline_request(self.core, branch, kinds, types, ops)):
            yield line

    async def _lines(self, asked: PreparedCall) -> AsyncIterator[Document]:
        splitter = LineSplitter()
        async with self.receive(asked) as answer:
            async for piece in answer.pieces:
                for line in splitter.feed(piece):
                    yield decoded_line(line)
        for line in splitter.finish():
            yield decoded_line(line)

    async def blob(
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
        pieces = self.blob_pieces(named, offset=offset, length=length)
        return b"".join([piece async for piece in pieces])

    async def blob_pieces(
        self, named: wire.BlobParameters, *, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the bytes of a blob as they come, however many there are."""
        asked = blob_request(self.core, named, offset, length)
        async with self._answer(asked) as answer:
            if answer.status_code >= REFUSED:
                error = self.core.failure(asked, answer.status_code, await answer.aread())
                if is_empty_range(error, offset):
                    return
                raise error
            self.core.check_stream(asked, answer.status_code, answer.headers)
            async for piece in answer.aiter_bytes():
                yield piece


async def _read(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Give the pieces of a body; files are read in another thread."""
    waiting = iter(pieces)
    while True:
        piece = await asyncio.to_thread(next, waiting, None)
        if piece is None:
            return
        yield piece
