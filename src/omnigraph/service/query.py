"""`query`, `explain`, `mutate` and `lint`: what the text of a query asks for, or what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import MAIN
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.service.documents import Document, SeenRequest, Streamed

if TYPE_CHECKING:
    from omnigraph.graph.session import Session
    from omnigraph.read.output.query_result import QueryResult


MAX_ROWS = 100_000
"""The largest ``max_rows`` that may be asked for."""
LOOKS = 3
"""How often a query is explained and run until both see the same commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest(SeenRequest):
    """A query text, the name of one query where it has several, and parameters.

    With ``max_rows`` the answer has that many rows at most, and says how many there are in all.
    """

    query: str
    name: str | None = None
    params: Mapping[str, Any] | None = None
    max_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest(SeenRequest):
    """A query to explain. With ``profile`` it is run, too, and each phase is measured."""

    query: str
    name: str | None = None
    params: Mapping[str, Any] | None = None
    profile: bool = False


@dataclass(frozen=True, slots=True)
class Pieces:
    """An answer in bytes that are made as they are read, once; ``held`` bytes are in memory until then."""

    pieces: Iterator[bytes]
    held: int

    def __iter__(self) -> Iterator[bytes]:
        return self.pieces

    def __next__(self) -> bytes:
        return next(self.pieces)


def query(session: Session, request: QueryRequest, limits: ReadLimits = NO_LIMITS) -> Streamed:
    """Run a read query and return its rows. ``limits`` are those of the server that answers the request."""
    return read_output(_run(session, request, limits))


def query_lines(session: Session, request: QueryRequest, limits: ReadLimits = NO_LIMITS) -> Pieces:
    """Run a read query and return JSON lines: one with all but the rows, and then a line for each row."""
    from omnigraph.read.output.frames import json_rows

    result = _run(session, request, limits)
    about = json.dumps({"kind": "metadata", **_facts(result)}, ensure_ascii=False)

    def lines() -> Iterator[bytes]:
        yield f"{about}\n".encode()
        for texts in json_rows(result.table, result.schema):
            yield "".join(f"{text}\n" for text in texts).encode()

    return Pieces(lines(), result.table.nbytes)


def query_arrow(session: Session, request: QueryRequest, limits: ReadLimits = NO_LIMITS) -> Pieces:
    """Run a read query and return its rows as an Arrow stream, with the types that Python gets.

    What else the document of the answer has stands as JSON under `omnigraph` in the metadata of its schema.
    """
    from omnigraph.read.output.frames import arrow_pieces

    result = _run(session, request, limits)
    about = {"omnigraph": json.dumps(_facts(result), ensure_ascii=False)}
    return Pieces(arrow_pieces(result.table, about), result.table.nbytes)


def _run(session: Session, request: QueryRequest, limits: ReadLimits) -> QueryResult:
    if request.max_rows is not None:
        limits = replace(limits, max_rows=_check_max_rows(request.max_rows))
    return session.query(request.query, request.name, request.params, limits=limits, **request.seen)


def _facts(result: QueryResult) -> Document:
    """Return the document of an answer without its rows."""
    return {**result.document_head, **result.document_tail}


def read_output(result: QueryResult) -> Streamed:
    """Return the document of an answer; integers that JavaScript cannot hold are texts in its rows."""
    from omnigraph.read.output.frames import json_rows

    rows = json_rows(result.table, result.schema)
    head, tail = result.document_head, result.document_tail
    return Streamed(head, "rows", rows, tail, held=result.table.nbytes)


def explain(session: Session, request: ExplainRequest) -> Document:
    """Return what a read query would do; with a profile also what it did and how long that took."""
    asked = (request.query, request.name, request.params)
    if not request.profile:
        return session.explain(*asked, **request.seen).to_json()
    for _ in range(LOOKS):
        # A commit in between would explain one state and measure another.
        profiled = session.profile(*asked, **request.seen)
        explained = session.explain(*asked, **request.seen).to_json()
        if explained["graph_commit_id"] == profiled.result.graph_commit_id:
            break
    steps = [phase.to_json() for phase in profiled.steps]
    return {**explained, "profile": steps, "row_count": profiled.result.row_count}


def _check_max_rows(given: int | None) -> int | None:
    if given is None or (type(given) is int and 1 <= given <= MAX_ROWS):
        return given
    raise BadRequest(f"max_rows is {given!r}; give a whole number from 1 to {MAX_ROWS:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MutateRequest:
    """A query text that writes, the name of one query where it has several, and parameters.

    With ``if_commit`` it happens only if the branch is still at that commit.
    """

    query: str
    name: str | None = None
    params: Mapping[str, Any] | None = None
    branch: str | None = None
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None


def mutate(session: Session, request: MutateRequest) -> Document:
    """Run a mutation as one commit; ``commit`` is None if nothing changed."""
    done = session.mutate(
        request.query,
        request.name,
        request.params,
        MAIN if request.branch is None else request.branch,
        if_commit=request.if_commit,
        operation_id=request.operation_id,
        message=request.message,
    )
    return done.to_json(js_safe=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """Queries to check, and the name of the file they come from, if there is one."""

    source: str
    query_path: str | None = None


def lint(session: Session, request: LintRequest, uri: str) -> Document:
    """Check queries against the accepted schema of a graph; ``uri`` is how the caller knows it."""
    return _document(session.schema.source, {"kind": "graph", "uri": uri}, request)


def lint_with_schema(schema: str, schema_path: str, request: LintRequest) -> Document:
    """Check queries against a schema that came from a file; no graph is needed."""
    return _document(schema, {"kind": "file", "path": schema_path}, request)


def _document(schema: str, schema_source: Document, request: LintRequest) -> Document:
    from omnigraph.language import lint as check_queries

    checked = check_queries(schema, request.source).to_json()
    return {**checked, "schema_source": schema_source, "query_path": request.query_path}
