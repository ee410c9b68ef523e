"""Requests to a server, and what its answers mean. Nothing here sends or receives.

core = Core("https://graphs.example.org", "shop", token=None)
asked = core.prepare("snapshot", wire.TargetParameters(tag="v1"))
asked.url                                     # https://graphs.example.org/graphs/shop/snapshot?tag=v1
core.read(asked, 200, {}, b'{"branch": …}')   # the document; an answer of 400 or more raises its error
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from omnigraph.client.answer_checks import misfit
from omnigraph.client.sent_bodies import NO_BODY, RawBody
from omnigraph.client.sent_sources import SentSources
from omnigraph.clock import new_ulid
from omnigraph.errors import ApiError, BadRequest, OmniGraphError, SourceError
from omnigraph.service import wire
from omnigraph.service.graph_urls import check_server_url
from omnigraph.service.operations import BYTES, JSON, LINES, OPERATIONS, Operation
from omnigraph.version import __version__

Document = dict[str, Any]

OPERATION_ID: Final = "Omnigraph-Operation-Id"
IF_COMMIT: Final = "Omnigraph-If-Graph-Commit"
SNAPSHOT_ID: Final = "Omnigraph-Snapshot-Id"
DONE: Final = 200
REFUSED: Final = 400
"""From this status on an answer is an error."""
_MEDIA: Final = {"json": JSON, "lines": LINES, "bytes": BYTES}
_COLUMNS: Final = {
    "parquet": "application/vnd.apache.parquet",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.file",
}
_TOKEN: Final = re.compile(r"[!-~]+")


def _as_it_is(_: Mapping[str, str], document: Document) -> Document:
    return document


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A request that can be sent, and how its answer is read.

    ``source`` is the text in which an error shows its place, ``sources`` are the files of a raw body, which it
    names. ``finish`` turns headers and document of the
    answer into what the caller gets; ``rescue`` does so with an error that is an answer, too. With
    ``headers_only`` the body of a good answer is not read.
    """

    name: str
    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | Iterable[bytes] | None = field(default=None, repr=False)
    source: str | None = None
    sources: SentSources | None = None
    finish: Callable[[Mapping[str, str], Document], Document] = _as_it_is
    rescue: Callable[[Mapping[str, str], OmniGraphError], Document] | None = None
    headers_only: bool = False

    @property
    def operation_id(self) -> str | None:
        """The id by which the commit that it makes can be found; None for a write that makes none."""
        keeps = self.name in OPERATIONS and OPERATIONS[self.name].identified
        return self.headers.get(OPERATION_ID) if keeps else None

    @property
    def writes(self) -> bool:
        """Whether it may change the graph."""
        return self.name in OPERATIONS and OPERATIONS[self.name].admitted

    def for_the_error(self) -> PreparedCall | None:
        """Return the request whose answer has the body of an error, where this one's has none."""
        return replace(self, method="GET") if self.method == "HEAD" else None

    def asking_for(self, media: str) -> PreparedCall:
        """Return the request for an answer of another form."""
        return replace(self, headers={**self.headers, "Accept": media})


class Core:
    """Builds requests for one graph of a server, and reads the answers."""

    def __init__(self, base_url: str, graph: str | None, token: str | None) -> None:
        check_server_url(base_url)
        self.base_url = base_url.rstrip("/")
        self.graph = graph
        self._graph_url = (
            None if graph is None else f"{self.base_url}/graphs/{_segment('graph', graph)}"
        )
        if token is not None and not _TOKEN.fullmatch(token):
            raise BadRequest("the token has characters that no token has; give it as it was issued")
        self._common = {"User-Agent": f"omnigraph/{__version__}"}
        if token is not None:
            self._common["Authorization"] = f"Bearer {token}"

    def __repr__(self) -> str:
        return f"<omnigraph.client.Core of {self._graph_url or self.base_url}>"

    @property
    def graph_url(self) -> str:
        """The address of the graph, as the server itself shows it."""
        assert self._graph_url is not None, "a core for the server alone asks for no graph"
        return self._graph_url

    def prepare(
        self,
        name: str,
        request: wire.Wire,
        *path: str,
        body: RawBody | None = None,
        source: str | None = None,
        operation_id: str | None = None,
        if_commit: str | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> PreparedCall:
        """Return the request for an operation; ``path`` are the values in its path.

        Every write has an operation id, that of the caller or a new one.
        """
        operation = OPERATIONS[name]
        raw = NO_BODY if body is None else body
        given = {"Accept": operation.gives, **raw.headers, **(headers or {})}
        content = raw.pieces
        if operation.identified or operation.admitted:
            given[OPERATION_ID] = new_ulid() if operation_id is None else operation_id
        given[IF_COMMIT] = if_commit
        url = f"{self.graph_url}/{_filled(operation, path)}"
        if operation.content == "json":
            content = encode(request)
        elif said := _parameters(request):
            url += f"?{urlencode(said, quote_via=quote)}"
        if operation.content != "none":
            given.setdefault("Content-Type", _media(operation, request))
        sent = {name: value for name, value in given.items() if value is not None}
        return PreparedCall(
            name,
            operation.method,
            url,
            self._headers(sent),
            content=content,
            source=source,
            sources=raw.sources,
        )

    def prepare_plain(self, name: str, path: str) -> PreparedCall:
        """Return a request that is about the server, not about a graph."""
        return PreparedCall(name, "GET", f"{self.base_url}/{path}", self._headers({"Accept": JSON}))

    def _headers(self, given: Mapping[str, str]) -> dict[str, str]:
        for name, value in given.items():
            if not value.isascii() or not value.isprintable():
                raise BadRequest(f"{name} is `{value}`, which no header can carry; check it")
        return {**self._common, **given}

    def read(
        self, asked: PreparedCall, status: int, headers: Mapping[str, str], body: bytes
    ) -> Document:
        """Return the document of an answer, or raise the error that it is."""
        if status >= REFUSED and (asked.name, status) != _DRAINING:
            error = self.failure(asked, status, body)
            if asked.rescue is None:
                raise error
            return asked.rescue(headers, error)
        if status < REFUSED and status != DONE:
            raise self.foreign(status, _way_elsewhere(headers))
        if asked.headers_only:
            return asked.finish(headers, {})
        document = _decoded(body)
        if not isinstance(document, dict):
            raise self.foreign(status)
        if (fault := misfit(asked.name, document)) is not None:
            raise self.foreign(status, fault)
        return asked.finish(
            headers, document if asked.sources is None else asked.sources.told(document)
        )

    def failure(self, asked: PreparedCall, status: int, body: bytes) -> OmniGraphError:
        """Return the error that an answer is; one in a source shows the text that was sent."""
        document = _decoded(body)
        if not isinstance(document, dict) or "error" not in document:
            return self.foreign(status)
        if asked.sources is not None:
            document = asked.sources.told(document)
        error = OmniGraphError.from_body(document, status)
        if isinstance(error, SourceError) and asked.source is not None:
            error.shown_in(asked.source)
        return error

    def check_stream(self, asked: PreparedCall, status: int, headers: Mapping[str, str]) -> None:
        """Refuse an answer in pieces that no OmniGraph server gave, such as a page of a proxy."""
        if status != (_PART if "Range" in asked.headers else DONE):
            raise self.foreign(status, _way_elsewhere(headers))
        if "Range" in asked.headers:
            first = asked.headers["Range"].removeprefix("bytes=").partition("-")[0]
            given = headers.get("content-range", "")
            if not given.startswith(f"bytes {first}-"):
                raise self.foreign(status, f"other bytes than from {first} on")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        # A blob may have any media type. Like a state that is exported, it is told by its commit.
        has_commit = headers.get(SNAPSHOT_ID.lower()) is not None
        if not (has_commit if asked.name in _OF_A_COMMIT else kind == asked.headers["Accept"]):
            raise self.foreign(status)

    def foreign(self, status: int, why: str | None = None) -> ApiError:
        """Return the error for an answer that no OmniGraph server gives."""
        what = "something that is not of an OmniGraph server" + ("" if why is None else f" ({why})")
        return ApiError(
            f"{self.base_url} answered {status} with {what}; check the URL, and what stands between",
            status=status,
            kind="foreign_answer",
        )

    def unreachable(self, why: str) -> ApiError:
        """Return the error for a server that could not be asked."""
        return ApiError(
            f"cannot reach {self.base_url}: {why}; check the URL, and whether the server runs",
            kind="unreachable",
        )

    def lost(self, asked: PreparedCall, why: str) -> ApiError:
        """Return the error for an answer that never came, or not to its end."""
        said = f"the connection to {self.base_url} was lost before the whole answer came ({why})"
        advice = "send the request again"
        if asked.operation_id is not None:
            advice = (
                "whether it was done is not known: send it again with the operation id "
                f"{asked.operation_id}, which has no second effect"
            )
        elif asked.writes:
            advice = "look whether it was done, and send the request again if not"
        return ApiError(f"{said}; {advice}", kind="connection_lost")


_PART: Final = 206
_DRAINING: Final = ("health", 503)
"""The one answer above 400 that is no error."""
_OF_A_COMMIT: Final = ("export", "baseline", "blob")


def _way_elsewhere(headers: Mapping[str, str]) -> str | None:
    """Say where a server sends those who ask, if it does."""
    place = headers.get("location")
    return None if place is None else f"a redirect to {place[:200]}"


def quoted(etags: str | None) -> str | None:
    """Return ETags, as documents have them, as the header of a condition has them."""
    if etags is None:
        return None
    each = [tag.strip() for tag in etags.split(",")]
    return ", ".join(tag if tag == "*" or '"' in tag else f'"{tag}"' for tag in each)


def encode(request: wire.Wire) -> bytes:
    """Return the JSON body of a request."""
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, float) and not isfinite(value):
            # It would be sent as null, which means the default.
            raise BadRequest(f"{name} is {value}, which JSON cannot express; leave it out")
    try:
        return msgspec.json.encode(request)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the request cannot be written as JSON: {error}") from None


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (
        ValueError,
        RecursionError,
    ):  # DecodeError and UnicodeDecodeError are the first of these
        return None


def _parameters(request: wire.Wire) -> list[tuple[str, str]]:
    """Return the fields of a request that are not at their defaults, as a query string has them."""
    said: list[tuple[str, str]] = []
    for name, value in msgspec.to_builtins(request).items():
        if not isinstance(value, list):
            said.append((name, _text(value)))
        elif name in wire.WITH_COMMAS:
            said.append((name, _with_commas(name, value)))
        else:
            said += [(name, _text(item)) for item in value]
    return said


def _with_commas(name: str, items: list[Any]) -> str:
    if any("," in str(item) for item in items):
        raise BadRequest(f"`{name}` holds a name with a comma, which parts names; give others")
    return ",".join(map(_text, items))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(operation: Operation, values: tuple[str, ...]) -> str:
    """Return the path of an operation with its values, each of which is one segment."""
    left = iter(zip(operation.names_in_path, values, strict=True))
    return "/".join(
        _segment(*next(left)) if part.startswith("{") else part for part in operation.segments
    )


def _segment(name: str, value: str) -> str:
    """Return a value as a segment of a path; refuse what no path can hold."""
    if value.strip() in {"", ".", ".."}:
        raise BadRequest(f"{name} is `{value}`, which names nothing; give its name")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise BadRequest(f"{name} has half a surrogate pair, which is no text; check it") from None


def _media(operation: Operation, request: wire.Wire) -> str:
    if isinstance(request, wire.TableParameters):
        return _COLUMNS[request.format]
    return _MEDIA[operation.content]
