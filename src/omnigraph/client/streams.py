"""What both clients share of answers that come in pieces, and of connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import httpx2

from omnigraph.client.core import DONE, Core, PreparedCall
from omnigraph.client.read_methods import TargetNames
from omnigraph.errors import ApiError, BadRequest, BlobRange, OmniGraphError
from omnigraph.service import wire

if TYPE_CHECKING:
    import pyarrow as pa

CONNECT_SECONDS: Final = 10.0
_ALIVE: Final = [
    (getattr(socket, level), getattr(socket, name), value)
    for level, name, value in (
        ("SOL_SOCKET", "SO_KEEPALIVE", 1),
        ("IPPROTO_TCP", "TCP_KEEPIDLE", 30),
        ("IPPROTO_TCP", "TCP_KEEPINTVL", 10),
        ("IPPROTO_TCP", "TCP_KEEPCNT", 6),
        ("IPPROTO_TCP", "TCP_NODELAY", 1),
    )
    if hasattr(socket, name)
]
"""A server that is gone is noticed after a minute and a half, however long an answer may take."""


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Received(Generic[P]):
    """An answer in pieces, and the commit that it was read at, where it says one."""

    pieces: P
    commit: str | None


class ConnectionOptions(NamedTuple):
    """How connections are made and waited for."""

    sockets: list[tuple[int, int, int]]
    timeout: httpx2.Timeout
    trusted: ssl.SSLContext | bool


def connection_options(core: Core, timeout: float | None) -> ConnectionOptions:
    """Return how to connect; ``timeout`` bounds the silence of a server in seconds."""
    # Reading the certificates of the system takes longer than many a request. Without TLS none are needed,
    # so this context has none.
    is_plain = core.base_url.startswith("http://")
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True
    return ConnectionOptions(_ALIVE, httpx2.Timeout(timeout, connect=CONNECT_SECONDS), trusted)


def refusal_of(core: Core, asked: PreparedCall, error: Exception) -> OmniGraphError:
    """Return the error for what went wrong on the way to a server or back."""
    why = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        timed_out = isinstance(error, httpx2.ConnectTimeout)
        return core.unreachable("nobody answered in time" if timed_out else why)
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return BadRequest(f"{core.base_url} cannot be asked: {why}; check the URL")
    if isinstance(error, httpx2.DecodingError):
        return ApiError(
            f"{core.base_url} gave an answer that cannot be unpacked; check what stands between",
            kind="foreign_answer",
        )
    return core.lost(
        asked, "it took too long" if isinstance(error, httpx2.TimeoutException) else why
    )


def export_request(
    core: Core, type_names: Sequence[str] | None, target: TargetNames
) -> PreparedCall:
    """Return the request for the records of one state of the graph."""
    named = None if type_names is None else list(type_names)
    return core.prepare("export", wire.ExportBody(type_names=named, **target))


def baseline_request(
    core: Core,
    branch: str | None,
    kinds: Sequence[wire.Kind],
    types: Sequence[str],
    ops: Sequence[wire.Change],
) -> PreparedCall:
    """Return the request for the newest state of a branch, and the cursor after it."""
    body = wire.BaselineBody(branch=branch, kinds=list(kinds), types=list(types), ops=list(ops))
    return core.prepare("baseline", body)


def arrow_table(core: Core, data: bytes) -> pa.Table:
    """Return the rows of a query that came as an Arrow stream."""
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(data).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise core.foreign(DONE, "no Arrow stream") from error
    if b"omnigraph" not in (table.schema.metadata or {}):
        raise core.foreign(DONE, "an Arrow stream of somebody else")
    return table


def blob_request(
    core: Core, named: wire.BlobParameters, offset: int = 0, length: int | None = None
) -> PreparedCall:
    """Return the request for the bytes of a blob; refuse a range that no blob has."""
    if offset < 0:
        raise BadRequest(f"the offset is {offset}; give a whole number, 0 or more")
    if length is not None and length < 1:
        raise BadRequest(f"the length is {length}; give a whole number, 1 or more")
    asked = core.prepare("blob", named)
    # Packed on the way, the numbers of bytes would mean others.
    headers = {**asked.headers, "Accept-Encoding": "identity"}
    if offset or length is not None:
        end = "" if length is None else str(offset + length - 1)
        headers["Range"] = f"bytes={offset}-{end}"
    return replace(asked, headers=headers)


def is_empty_range(error: OmniGraphError, offset: int) -> bool:
    """Whether a range from the first byte on was refused because there is no byte."""
    return isinstance(error, BlobRange) and offset == 0 and error.details.get("length") == 0
