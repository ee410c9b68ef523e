"""From the path and method of a request to an operation and the values in its path.

Paths are matched as they came, segment by segment, and decoded afterwards: `branches/etl%2Frun-1` has two
segments, `branches/etl/run-1` has three.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from omnigraph.errors import BadRequest
from omnigraph.server.refusals import Refusal
from omnigraph.service.operations import OPERATIONS, Operation

Own = Literal["healthz", "openapi", "graphs"]
"""What a server answers itself, without a graph."""

_OWN: Final[dict[bytes, tuple[Own, tuple[str, ...]]]] = {
    b"/healthz": ("healthz", ("GET", "HEAD")),
    b"/openapi.json": ("openapi", ("GET",)),
    b"/graphs": ("graphs", ("GET",)),
}
_BELOW_GRAPHS: Final = b"/graphs/"


@dataclass(slots=True)
class Matched:
    """An operation, and its parts of the path as they came. ``head``: only the head of its answer."""

    operation: Operation
    graph_id: bytes
    values: tuple[bytes, ...] = ()
    head: bool = False


class Routes:
    """The paths of operations below a graph."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._fixed: dict[bytes, dict[str, Operation]] = {}
        self._with_values: dict[int, list[tuple[tuple[bytes, ...], dict[str, Operation]]]] = {}
        for operation in operations:
            self._methods_of(operation)[operation.method] = operation

    def _methods_of(self, operation: Operation) -> dict[str, Operation]:
        """The methods of the path that an operation has, made if it is the first one there."""
        path = operation.path.encode()
        if not operation.names_in_path:
            return self._fixed.setdefault(path, {})
        pattern = tuple(b"" if part[:1] == b"{" else part for part in path.split(b"/"))
        same_length = self._with_values.setdefault(len(pattern), [])
        for known, methods in same_length:
            if known == pattern:
                return methods
        methods = {}
        same_length.append((pattern, methods))
        return methods

    def match(self, raw_path: bytes, method: str) -> Matched | Own:
        """Return what a request asks for; a ``Refusal`` if there is no such path or method."""
        if not raw_path.startswith(_BELOW_GRAPHS):
            return _match_own(raw_path, method)
        graph_id, _, path = raw_path[len(_BELOW_GRAPHS) :].partition(b"/")
        methods = self._fixed.get(path)
        if methods is not None and method in methods:
            return Matched(methods[method], graph_id)
        return self._match_rest(graph_id, path, method, methods or {})

    def _match_rest(
        self, graph_id: bytes, path: bytes, method: str, fixed: dict[str, Operation]
    ) -> Matched:
        """The rarer cases: values in the path, HEAD, and paths or methods that are not there."""
        there = set(fixed)
        parts = path.split(b"/")
        for pattern, methods in self._with_values.get(len(parts), ()):
            values = tuple(part for part, known in zip(parts, pattern, strict=True) if not known)
            if all(values) and all(
                not known or part == known for part, known in zip(parts, pattern, strict=True)
            ):
                if method in methods:
                    return Matched(methods[method], graph_id, values)
                there |= set(methods)
        if "GET" in fixed and _has_head(fixed["GET"]):
            there.add("HEAD")
            if method == "HEAD":
                return Matched(fixed["GET"], graph_id, head=True)
        raise _no_method(method, there) if there else no_route()


def _has_head(operation: Operation) -> bool:
    """Only blobs: what the head of another answer says is not known without making it."""
    return operation.answer == "BlobAnswer"


def _match_own(raw_path: bytes, method: str) -> Own:
    own = _OWN.get(raw_path)
    if own is None:
        raise no_route()
    name, methods = own
    if method not in methods:
        raise _no_method(method, methods)
    return name


def no_route() -> Refusal:
    """The answer to a path that does not exist."""
    return Refusal(
        404,
        "route_not_found",
        "there is no such path; those of a graph begin with /graphs/{graph_id}/, and /openapi.json "
        "lists them all",
    )


def _no_method(method: str, there: Iterable[str]) -> Refusal:
    allowed = ", ".join(sorted(there))
    return Refusal(
        405,
        "method_not_allowed",
        f"this path does not take {method[:20]}; use {allowed}",
        [(b"allow", allowed.encode())],
    )


def decoded_segment(raw: bytes) -> str:
    """Return a part of a path as text; one that is not UTF-8 is refused."""
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError:
        raise BadRequest(
            "a part of the path is not UTF-8; encode names as UTF-8, then with percent signs"
        ) from None


ROUTES: Final = Routes(OPERATIONS.values())
