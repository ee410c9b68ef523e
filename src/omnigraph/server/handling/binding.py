"""From the query string, the body and the headers of a request to what an operation takes.

Nothing is passed over: an unknown or repeated parameter, an unknown field, a value of another type and a header
that does not fit are all refused, and the nearest known name is said.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec

from omnigraph.clock import is_ulid
from omnigraph.errors import BadRequest
from omnigraph.manifest.actors import check_if_commit
from omnigraph.server.refusals import Refusal
from omnigraph.service.operations import JSON, OPERATIONS, Operation, Run
from omnigraph.service.wire import WITH_COMMAS, Wire
from omnigraph.spelling import nearest_name

Headers = Mapping[bytes, bytes]

_UNKNOWN_FIELD: Final = re.compile(
    r"Object contains unknown field `(.*?)`(?: - at `(.*)`)?", re.DOTALL
)
_MEDIA_TYPES: Final = {
    "json": {b"application/json"},
    "lines": {b"application/x-ndjson"},
    "columns": {
        b"application/vnd.apache.parquet",
        b"text/csv",
        b"application/vnd.apache.arrow.file",
        b"application/octet-stream",
    },
}
_PACKED: Final = {b"gzip": "gzip", b"zstd": "zstd"}

_DECODERS: Final = {
    name: msgspec.json.Decoder(operation.request)
    for name, operation in OPERATIONS.items()
    if operation.content == "json"
}


def headers_of(given: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name; what is sent several times is joined, as one list."""
    pairs = list(given)
    headers = dict(pairs)
    if len(headers) != len(pairs):
        headers = {}
        for name, value in pairs:
            headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def check_media_type(operation: Operation, headers: Headers) -> str | None:
    """Refuse a body of another kind than the operation takes; return how it is packed, if it is."""
    if operation.content == "none" or (
        operation.body_optional and headers.get(b"content-length", b"0") == b"0"
    ):
        return None
    packed = headers.get(b"content-encoding", b"identity").strip().lower()
    if packed != b"identity":
        if operation.content in {"lines", "columns"} and packed in _PACKED:
            return _check_type(operation, headers, _PACKED[packed])
        raise Refusal(
            415,
            "media_type",
            "the body is packed in a way that this route does not take; "
            + (
                "send it as it is, or with Content-Encoding gzip or zstd"
                if operation.content in {"lines", "columns"}
                else "send it as it is"
            ),
        )
    return _check_type(operation, headers, None)


def _check_type(operation: Operation, headers: Headers, packed: str | None) -> str | None:
    takes = _MEDIA_TYPES.get(operation.content)
    if takes is None:
        return packed
    given = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if given not in takes:
        names = " or ".join(sorted(kind.decode() for kind in takes))
        shown = given.decode("latin-1")[:80] or "none"
        raise Refusal(
            415, "media_type", f"the Content-Type is {shown}; this route takes {names}, say so"
        )
    return packed


def declared_length(headers: Headers) -> int | None:
    """Return the length that a request says its body has."""
    given = headers.get(b"content-length")
    return int(given) if given is not None and given.isdigit() else None


def decode_body(operation: Operation, body: bytes | bytearray) -> Wire:
    """Return the request that a JSON body holds."""
    if not body and operation.body_optional:
        return operation.request()
    if not body:
        raise BadRequest("the body is empty; send a JSON object, {} if there is nothing to say")
    try:
        return _DECODERS[operation.name].decode(body)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), operation.request, "field") from None
    except msgspec.DecodeError as error:
        if body[:3] == b"\xef\xbb\xbf":
            raise BadRequest("the body begins with a byte order mark; send JSON without") from None
        raise BadRequest(f"the body is not JSON: {error}; send a JSON object") from None
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8; send a JSON object in UTF-8") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply to be read; send a flatter one") from None


def bind_parameters(operation: Operation, query_string: bytes) -> Wire:
    """Return the request that the query string holds."""
    if not query_string:
        given: dict[str, Any] = {}
    else:
        given = _parameters(query_string, *_fields_of(operation.request))
    try:
        return msgspec.convert(given, operation.request, strict=False)
    except msgspec.ValidationError as error:
        raise _misfit(str(error), operation.request, "parameter") from None


def refuse_parameters(query_string: bytes) -> None:
    """Refuse a query string where none is taken."""
    if query_string:
        _parameters(query_string, frozenset(), frozenset())


_FIELDS: dict[type[Wire], tuple[frozenset[str], frozenset[str]]] = {}


def _fields_of(request: type[Wire]) -> tuple[frozenset[str], frozenset[str]]:
    """The names of all fields of a request as they travel, and of those that are lists."""
    known = _FIELDS.get(request)
    if known is None:
        hints = get_type_hints(request)
        names = dict(zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True))
        lists = {sent for name, sent in names.items() if _is_list(hints[name])}
        known = _FIELDS[request] = frozenset(names.values()), frozenset(lists)
    return known


def _is_list(hint: Any) -> bool:
    if get_origin(hint) in {Union, types.UnionType}:
        return any(_is_list(part) for part in get_args(hint))
    return get_origin(hint) is list


def _parameters(
    query_string: bytes, known: frozenset[str], lists: frozenset[str]
) -> dict[str, Any]:
    """Read a query string; refuse what is unknown, repeated or not UTF-8."""
    found: dict[str, Any] = {}
    for pair in query_string.split(b"&"):
        if not pair:
            continue
        raw_name, _, raw_value = pair.partition(b"=")
        name, value = _text(raw_name), _text(raw_value)
        if name not in known:
            raise _unknown("parameter", name, known)
        if name in lists:
            found.setdefault(name, []).extend(value.split(",") if name in WITH_COMMAS else [value])
        elif name in found:
            raise BadRequest(f"the parameter `{name}` is given twice; give it once")
        else:
            found[name] = value
    return found


def _text(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise BadRequest(
            "a parameter is not UTF-8; encode values as UTF-8, then with percent signs"
        ) from None


def _unknown(what: str, name: str, known: Iterable[str]) -> BadRequest:
    near = nearest_name(name[:100], sorted(known))
    if near is not None:
        advice = f"did you mean `{near}`?"
    elif known:
        advice = f"there are {', '.join(sorted(known))}"
    else:
        advice = "this route takes none"
    return BadRequest(f"there is no {what} `{name[:100]}`; {advice}")


def _misfit(message: str, request: type[Wire], what: str) -> BadRequest:
    """The words for a value that does not fit, from those of the decoder."""
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown is None:
        advice = "" if what == "field" else " in the parameters"
        return BadRequest(f"{message[:1].lower()}{message[1:]}{advice}; see /openapi.json")
    name, place = unknown[1], unknown[2]
    known = _fields_of(request)[0] if place is None else _inner_fields(request)
    return _unknown(what if place is None else f"{what} at `{place}` called", name, known)


def _inner_fields(request: type[Wire]) -> frozenset[str]:
    """The names of the fields of all objects inside a request."""
    inner: set[str] = set()

    def collect(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, Wire):
            inner.update(_fields_of(hint)[0])
        for part in get_args(hint):
            collect(part)

    for hint in get_type_hints(request).values():
        collect(hint)
    return frozenset(inner)


def chosen_form(operation: Operation, headers: Headers) -> tuple[str, Run]:
    """Return the media type of the answer that the caller would like best, and what makes it."""
    if operation.forms and (accept := headers.get(b"accept")) is not None:
        best, weight = JSON, 0.0
        for part in accept.decode("latin-1").lower().split(","):
            kind, _, parameters = part.partition(";")
            kind = kind.strip()
            given = _weight(parameters)
            if given > weight and (kind in operation.forms or kind == operation.gives):
                best, weight = kind, given
        if best in operation.forms:
            return best, operation.forms[best]
    return operation.gives, operation.run


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def operation_id(operation: Operation, headers: Headers) -> str | None:
    """Return the id of the caller's choice; a malformed one is refused, also where none is kept.

    A stored query may write, so the id is looked at whether this one does or not: the answer would tell.
    """
    given = headers.get(b"omnigraph-operation-id")
    if given is None or not (operation.admitted or operation.identified):
        return None
    text = given.decode("latin-1").strip()
    if not is_ulid(text.upper()):
        raise BadRequest(
            f"Omnigraph-Operation-Id is {text[:80]!r}; give one ULID, 26 characters such as "
            "01JZZZZZZZZZZZZZZZZZZZZZZ1, or leave it out"
        )
    return text.upper() if operation.identified else None


def if_commit(operation: Operation, headers: Headers) -> str | None:
    """Return the head that the branch must have."""
    given = headers.get(b"omnigraph-if-graph-commit")
    if given is None:
        return None
    if not operation.conditional:
        raise BadRequest(
            "Omnigraph-If-Graph-Commit is a condition on a write that makes a commit, which this route "
            "does not; leave it out"
        )
    return check_if_commit(given.decode("latin-1").strip(), "Omnigraph-If-Graph-Commit")
