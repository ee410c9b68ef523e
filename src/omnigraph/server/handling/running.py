"""The engine's part of a request: in which lane it runs, what it holds meanwhile, and how its answer leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

from omnigraph.cancel import Cancel
from omnigraph.read.limits import ReadLimits
from omnigraph.server.handling.admission import HeldAnswers, Streams, Writers, WriteSlot
from omnigraph.server.handling.blob_answers import BlobReply, blob_reply, is_known
from omnigraph.server.handling.bodies import DeclaredBody, SpoolFile
from omnigraph.server.handling.error_bodies import (
    JSON_TYPE,
    Addresses,
    encode,
    without_address,
    without_former_places,
)
from omnigraph.server.handling.exchange import Exchange
from omnigraph.server.handling.lanes import ClientGone, Lanes, Watch
from omnigraph.server.handling.read_lane import ReadJob
from omnigraph.server.handling.sending import Pipe, puller, send_pulled
from omnigraph.server.limits import PIECE_BYTES
from omnigraph.server.refusals import Header, Refusal
from omnigraph.service.calls import Call, look_at_blob
from omnigraph.service.documents import Document, Streamed
from omnigraph.service.operations import Operation, Run
from omnigraph.service.wire import BlobParameters, Wire

if TYPE_CHECKING:
    from omnigraph.server.figures import Figures
    from omnigraph.server.state import ServerState

T = TypeVar("T")

_WITH_RECORDS: Final = frozenset(
    {
        "EntityAnswer",
        "NeighborsAnswer",
        "SubgraphAnswer",
        "DiffAnswer",
        "CommitChangesAnswer",
        "FeedAnswer",
        "MergeAnswer",
        "MergePlanAnswer",
        "RevertAnswer",
    }
)
"""Answers with values of users, in which nothing is replaced: a user may have stored such a text."""

_WITH_COMMITS: Final = frozenset({"CommitsAnswer", "CommitAnswer", "HistoryAnswer", "StatusAnswer"})
"""Answers that show commits of every operation with their facts."""


@dataclass(slots=True)
class AskedOperation:
    """A request that was understood: the operation, in the form of answer that is wanted, and its arguments."""

    operation: Operation
    run: Run
    media_type: str
    call: Call
    request: Wire
    values: tuple[str, ...]
    addresses: Addresses
    head: bool = False

    def work(self) -> Any:
        """Do it; in a thread of a lane."""
        return self.run(self.call, self.request, *self.values)


@dataclass(slots=True)
class Whole:
    """An answer that is complete."""

    body: bytes
    headers: list[Header]
    status: int = 200


@dataclass(slots=True)
class Long:
    """An answer that is not at its end: what is made of it, what makes the rest, and the bytes it holds."""

    first: bytes
    rest: Iterator[bytes]
    held: int


class OperationRunner:
    """Runs operations for requests, within the bounds of a server."""

    def __init__(self, state: ServerState) -> None:
        limits = state.limits
        self.lanes = Lanes(limits.read_concurrency)
        self.reads = self.lanes.reads
        self.writers = Writers(limits.per_actor_inflight_max, limits.per_actor_bytes_max)
        self.streams = Streams()
        self.answers = HeldAnswers(limits.answers_mb << 20, limits.read_concurrency)
        self.read_limits = ReadLimits(
            query_rows=limits.query_max_rows or None,
            query_bytes=(limits.query_max_mb << 20) or None,
        )
        self._timeout = limits.query_timeout_ms / 1000 or None

    def measure(self, figures: Figures) -> None:
        """Say how much is under way."""
        figures.set("queries_running", self.reads.running)
        figures.set("queries_waiting", self.reads.waiting)
        waiting = self.lanes.waiting_writes
        figures.set("writes_running", self.writers.running - waiting)
        figures.set("writes_waiting", waiting)
        figures.set("streams_running", self.streams.running)
        figures.set("answer_bytes", self.answers.held)

    async def read(self, exchange: Exchange, asked: AskedOperation) -> None:
        """Run a read in its turn, and send its answer."""
        token = Cancel()
        job = ReadJob(exchange.actor, partial(_made, exchange, asked), token, self._timeout)
        watch = Watch(
            exchange.receive,
            token,
            lambda: self.reads.forget(job, ClientGone()),
            lambda: self.reads.end_by(job, self._seconds_of(asked.request)),
        )
        watch.begin_soon(self.lanes.unwatched)
        try:
            answer = await self.reads.run(job)
            await self._send_read(exchange, asked, watch, answer)
        except Exception:
            if watch.gone:
                raise ClientGone from None
            raise
        finally:
            watch.end()

    def _seconds_of(self, request: Wire) -> float | None:
        """Return how long a read may take: as long as it asks for, and the server allows."""
        asked = getattr(request, "timeout_ms", None)
        given = [self._timeout, None if asked is None else asked / 1000]
        return min((each for each in given if each is not None), default=None)

    async def _send_read(
        self,
        exchange: Exchange,
        asked: AskedOperation,
        watch: Watch,
        answer: Whole | Long | BlobReply,
    ) -> None:
        if isinstance(answer, BlobReply):
            await self._send_blob(exchange, watch, answer)
        elif isinstance(answer, Long):
            headers = [(b"content-type", asked.media_type.encode())]
            await self._send_long(exchange, watch, answer, headers)
        elif (size := len(answer.body)) > PIECE_BYTES:
            await watch.unless_gone(self.answers.hold(size), lambda: self.answers.free(size))
            try:
                await exchange.out.whole(answer.status, answer.headers, answer.body)
            finally:
                self.answers.free(size)
        else:
            await exchange.out.whole(answer.status, answer.headers, answer.body)

    async def _send_long(
        self, exchange: Exchange, watch: Watch, answer: Long, headers: list[Header]
    ) -> None:
        refuse_old(exchange)
        await watch.unless_gone(
            self.answers.hold(answer.held), lambda: self.answers.free(answer.held)
        )
        try:
            await exchange.out.begin(200, headers)
            pull = puller(answer.rest)
            await send_pulled(exchange.out, watch, self.lanes.encoding, answer.first, pull)
        finally:
            self.answers.free(answer.held)

    async def _send_blob(self, exchange: Exchange, watch: Watch, reply: BlobReply) -> None:
        try:
            await exchange.out.begin(reply.status, reply.headers)
            if reply.file is None or not reply.length:
                await exchange.out.piece(b"", more=False)
                return
            pull = puller(reply.pieces())
            first = await asyncio.get_running_loop().run_in_executor(self.lanes.encoding, pull)
            await send_pulled(exchange.out, watch, self.lanes.encoding, first, pull)
        finally:
            reply.close()

    async def write(self, exchange: Exchange, asked: AskedOperation) -> None:
        """Run a write, and send its document."""
        slot = self.writers.enter(exchange.actor)
        await self._write(exchange, asked, asked.work, slot.leave)

    async def write_received(
        self,
        exchange: Exchange,
        asked: AskedOperation,
        declared: DeclaredBody,
        slot: WriteSlot,
        spool: SpoolFile,
    ) -> None:
        """Run a write that was let in and whose body lies in a file; the file goes when the engine is done."""

        def leave() -> None:
            spool.remove()
            slot.leave()

        def work() -> Any:
            if declared.packed is None:
                return asked.work()
            unpacked = spool.unpacked(declared.packed, declared.limit)
            try:
                asked.call = replace(asked.call, received=unpacked.path)
                return asked.work()
            finally:
                unpacked.remove()

        await self._write(exchange, asked, work, leave)

    async def _write(
        self,
        exchange: Exchange,
        asked: AskedOperation,
        work: Callable[[], Any],
        leave: Callable[[], object],
    ) -> None:
        watch = Watch(exchange.receive, Cancel())
        watch.begin_soon(self.lanes.unwatched)
        try:
            lanes = self.lanes
            is_mutation = asked.operation.answer == "MutationAnswer"
            answer = await lanes.run(
                lanes.mutations if is_mutation else lanes.writes,
                lambda: _document(exchange, asked, work()),
                watch.token,
                leave,
            )
            await exchange.out.whole(answer.status, answer.headers, answer.body)
        except Exception:
            if watch.gone:
                raise ClientGone from None
            raise
        finally:
            watch.end()

    async def aside(self, work: Callable[[], T]) -> T:
        """Do a short piece of work that would keep the event loop from others."""
        return await asyncio.get_running_loop().run_in_executor(self.lanes.encoding, work)

    async def stream(self, exchange: Exchange, asked: AskedOperation) -> None:
        """Run an operation that writes its answer itself, and send what it writes."""
        self.streams.enter()
        loop = asyncio.get_running_loop()
        pipe = Pipe(loop)
        headers = [(b"content-type", b"application/x-ndjson; charset=utf-8")]

        def tell(commit: str) -> None:  # in the thread of the producer, before its first byte
            headers.append((b"omnigraph-snapshot-id", commit.encode()))

        asked.call = replace(asked.call, out=cast("BinaryIO", pipe), on_pinned=tell)
        watch = Watch(exchange.receive, Cancel())
        watch.begin_soon(self.lanes.unwatched)

        def work() -> None:
            asked.work()
            pipe.flush()

        producer = loop.create_task(
            self.lanes.run(self.lanes.streams, work, watch.token, self.streams.leave)
        )
        try:
            await pipe.send_all(exchange.out, headers, producer)
        except Exception:
            if watch.gone:
                raise ClientGone from None
            raise
        finally:
            watch.end()
            if not producer.cancel() and not producer.cancelled():
                producer.exception()  # told here, or told to nobody because the client has gone


def _made(exchange: Exchange, asked: AskedOperation) -> Whole | Long | BlobReply:
    """Make a whole answer, or the beginning of a long one; in a thread."""
    if asked.operation.answer == "BlobAnswer":
        return _open_blob(exchange, asked)
    made = asked.work()
    if isinstance(made, dict):
        return _document(exchange, asked, made)
    if isinstance(made, Streamed):
        held, pieces = made.held, (text.encode() for text in made.json_text())
    else:
        held, pieces = getattr(made, "held", 0), iter(made)
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > PIECE_BYTES:
            return Long(b"".join(parts), pieces, held)
    return Whole(b"".join(parts), [(b"content-type", asked.media_type.encode())])


def _document(exchange: Exchange, asked: AskedOperation, document: Document) -> Whole:
    """Make the answer of an operation that gives a document."""
    assert exchange.served is not None
    if asked.operation.name == "status":
        document = without_address(document, exchange.url)
    if asked.operation.answer in _WITH_COMMITS:
        document = without_former_places(document)
    headers = [JSON_TYPE]
    if asked.operation.name == "catalog":
        etag = b'"%b"' % document["schema_hash"].encode()
        headers.append((b"etag", etag))
        if is_known(exchange.headers.get(b"if-none-match"), etag.strip(b'"')):
            return Whole(b"", [(b"etag", etag)], 304)
    body = encode(document)
    if asked.operation.answer not in _WITH_RECORDS:
        body = asked.addresses.hidden(body, exchange.url)
    return Whole(body, headers)


def _open_blob(exchange: Exchange, asked: AskedOperation) -> BlobReply:
    if asked.head:
        return blob_reply(
            look_at_blob(asked.call, cast("BlobParameters", asked.request)), exchange.headers
        )
    file = asked.work()
    reply = None
    try:
        reply = blob_reply(file.stat, exchange.headers, file)
        return reply
    finally:
        if reply is None or reply.file is None:
            file.close()


def refuse_old(exchange: Exchange) -> None:
    """Refuse a client that could not see that an answer was cut off."""
    if exchange.is_old:
        raise Refusal(
            426,
            "http_version",
            "this answer is sent in pieces, which needs HTTP/1.1; with it the end can be seen",
            [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")],
        )
