"""The bodies of requests: small ones in memory, raw ones in a file of the spool directory.

Each has a limit. What a body declares is looked at before any of it is read; what it turns out to have is
counted as it comes, and again when it is unpacked.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from omnigraph.cancel import look
from omnigraph.errors import BadRequest, ResourceLimit, StorageError
from omnigraph.server.handling.admission import WriteSlot
from omnigraph.server.handling.lanes import ClientGone, Receive
from omnigraph.server.handling.zstd_frames import check_windows
from omnigraph.server.limits import BODY_BYTES, LOAD_TEXT_BYTES
from omnigraph.service.operations import Operation
from omnigraph.service.wire import LoadBody

_AT_ONCE: Final = 1 << 20
"""Bytes that go to disk together: one change of threads for each."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How many bytes a body may have, and the name of that limit."""

    resource: str
    most: int

    def check(self, size: int) -> None:
        """Refuse a body of this size."""
        if size > self.most:
            raise ResourceLimit(
                f"the body has {size:,} bytes or more, and this route takes {self.most:,}; send less "
                "at a time",
                resource=self.resource,
                limit=self.most,
                actual=size,
            )


@dataclass(frozen=True, slots=True)
class DeclaredBody:
    """What a request says of its body before it sends it: its length, if that is known, and its packing."""

    limit: BodyLimit
    length: int | None = None
    packed: str | None = None


def limit_of(operation: Operation, load_mb: int, blob_mb: int) -> BodyLimit:
    """Return the limit on the bodies of an operation."""
    if operation.content in {"lines", "columns"}:
        return BodyLimit("load_body_bytes", load_mb << 20)
    if operation.content == "bytes":
        return BodyLimit("blob_body_bytes", blob_mb << 20)
    if issubclass(operation.request, LoadBody):
        return BodyLimit("graph_batch_request_bytes", LOAD_TEXT_BYTES)
    return BodyLimit("request_body_bytes", BODY_BYTES)


async def read_body(receive: Receive, limit: BodyLimit) -> bytes | bytearray:
    """Return the whole body of a request."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        limit.check(len(body))
        return body
    whole = bytearray()
    while True:
        if message["type"] != "http.request":
            raise ClientGone
        whole += message.get("body", b"")
        limit.check(len(whole))
        if not message.get("more_body", False):
            return whole
        message = await receive()


class SpoolFile:
    """A file that holds the raw body of one request, and is removed with it."""

    def __init__(self, directory: Path) -> None:
        with _told():
            handle, name = tempfile.mkstemp(prefix="body-", dir=directory)
        os.close(handle)
        self.path = Path(name)

    def remove(self) -> None:
        """Remove the file; it may be gone already."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    async def receive(
        self, receive: Receive, declared: DeclaredBody, slot: WriteSlot, pool: Executor
    ) -> None:
        """Write the body to the file. Its bytes are charged as they come, if their number was not declared."""
        loop = asyncio.get_running_loop()
        size, waiting = 0, bytearray()
        file = self.path.open("wb", buffering=0)
        try:
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                part = message.get("body", b"")
                more = message.get("more_body", False)
                size += len(part)
                declared.limit.check(size)
                if declared.length is None:
                    slot.charge(len(part))
                waiting += part
                if len(waiting) >= _AT_ONCE or (waiting and not more):
                    await loop.run_in_executor(pool, _write, file, waiting)
                    waiting = bytearray()
        finally:
            file.close()

    def unpacked(self, packing: str, limit: BodyLimit) -> SpoolFile:
        """Return the file unpacked, in another file; what it becomes is counted as it comes."""
        import pyarrow as pa

        if packing == "zstd":
            check_windows(self.path)
        unpacked = SpoolFile(self.path.parent)
        try:
            with (
                pa.OSFile(os.fspath(self.path)) as packed,
                pa.CompressedInputStream(packed, packing) as source,
                unpacked.path.open("wb", buffering=0) as target,
            ):
                size = 0
                while part := source.read(_AT_ONCE):
                    look()
                    size += len(part)
                    limit.check(size)
                    _write(target, part)
        except OSError as error:
            unpacked.remove()
            if error.errno is not None:
                raise
            raise BadRequest(
                f"the body cannot be unpacked as {packing}: it is damaged or cut off; pack it again"
            ) from None
        except BaseException:
            unpacked.remove()
            raise
        return unpacked


def _write(file: BinaryIO, data: bytes | bytearray) -> None:
    """Write all of the data; an unbuffered file may take a part at a time."""
    view = memoryview(data)
    with _told():
        while view:
            view = view[file.write(view) :]


@contextmanager
def _told() -> Iterator[None]:
    """Say of a full disk what it was to hold, to those who read the log."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"there is no room for the body of a request ({error.strerror}); free the disk of the "
            "directory for temporary files, or set TMPDIR to another one and start the server again"
        ) from error
