"""Stored queries: those that a server keeps under a name, and how one of them is invoked.

They come from a directory, every declaration of every `*.gq` file under its own name. Nothing of them
is compiled ahead: they run as any other text does, by the plans that the graph caches for a schema. So
one that no longer fits after a schema change says so when it is invoked, and works again once the schema
fits again.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import (
    BadRequest,
    OmniGraphError,
    PolicyDenied,
    SchemaConflict,
    SourceError,
    StoredQueryNotFound,
)
from omnigraph.lang.query.registry import Registry, StoredQuery, StoredSource
from omnigraph.manifest.branch_names import MAIN
from omnigraph.policy.checker import Action
from omnigraph.read.limits import NO_LIMITS, ReadLimits
from omnigraph.service import query as service
from omnigraph.service.documents import Document, SeenRequest, Streamed

if TYPE_CHECKING:
    from omnigraph.graph.session import Session
    from omnigraph.lang.schema.catalog import Catalog

NO_QUERIES = Registry({})


def read_directory(directory: Path, reserved: Container[str] = ()) -> Registry:
    """Return the queries of all `*.gq` files of a directory, files in the order of their names.

    Everything wrong with them comes in one error. ``reserved`` are names of tools that are taken.
    """
    from omnigraph.lang.query.syntax.parser import parse
    from omnigraph.language import read_source

    if not directory.is_dir():
        raise BadRequest(f"{directory} is no directory; give one with .gq files")
    sources: list[StoredSource] = []
    problems: list[str] = []
    for path in sorted(directory.glob("*.gq")):
        try:
            text, _ = read_source(path)
            declared = parse(text, path.name).queries
        except OmniGraphError as error:
            problems.append(f"{path.name}: {_told(error)}")
            continue
        named = [query.name for query in declared if query.name is not None]
        if len(named) < len(declared):
            problems.append(
                f"{path.name}: a query without a name cannot be stored; "
                "write it as `query name(…) { … }`"
            )
        else:
            sources += [StoredSource(name, text, filename=path.name) for name in named]
    return Registry.load(sources, reserved, *problems)


def check_fit(session: Session, registry: Registry) -> None:
    """Refuse queries that do not fit the schema of a graph, all of them in one error.

    Whoever serves the graph asks, so no policy does.
    """
    broken = registry.validate(_catalog(session)).breakages
    if broken:
        listed = "; ".join(f"`{name}`: {_told(error)}" for name, error in broken.items())
        raise BadRequest(f"stored queries do not fit the schema: {listed}", queries=sorted(broken))


def check_new_schema(session: Session, registry: Registry, schema_source: str) -> None:
    """Refuse a schema that would break queries that fit the present one, before anything is written.

    Whoever may not change the schema is refused first: what breaks would tell of the queries.
    """
    from omnigraph.graph.session import access_of

    access_of(session).ask(Action.SCHEMA_APPLY, target=MAIN)
    broken = newly_broken(session, registry, schema_source)
    if broken:
        listed = "; ".join(f"`{name}`: {_told(error)}" for name, error in broken.items())
        raise BadRequest(
            f"the schema would break stored queries: {listed}; change them first",
            queries=sorted(broken),
        )


def newly_broken(
    session: Session, registry: Registry, schema_source: str
) -> dict[str, OmniGraphError]:
    """Return what is wrong with each query that fits the present schema of `main`, and would not fit this one."""
    from omnigraph.language import parse_schema

    before = registry.validate(_catalog(session)).breakages
    broken = registry.validate(parse_schema(schema_source).catalog).breakages
    return {name: error for name, error in broken.items() if name not in before}


def _catalog(session: Session) -> Catalog:
    from omnigraph.graph.session import access_of

    return access_of(session).state.schemas.of(MAIN).catalog


def described(registry: Registry) -> list[Document]:
    """Return all queries of a registry by name, those that clients do not see as well."""
    entries = []
    for name in sorted(registry.queries):
        entry = registry.queries[name]
        shown = entry.to_json()
        shown["mcp_expose"] = entry.stored.expose
        shown["params"] = [
            {"name": one.name, "type": one.type.display, "nullable": one.type.nullable}
            for one in entry.query.params
        ]
        entries.append(shown)
    return entries


def validation(session: Session, registry: Registry) -> Document:
    """Return which queries do not fit the schema of a graph, and why."""
    checked = registry.validate(session.schema.catalog)
    breakages = [
        {"query": name, "message": _told(error)} for name, error in checked.breakages.items()
    ]
    return {"ok": not breakages, "breakages": breakages, "warnings": list(checked.warnings)}


def list_queries(session: Session, registry: Registry) -> Document:
    """Return the queries that clients may see, by name."""
    from omnigraph.graph.session import access_of

    access_of(session).ask(Action.READ)
    return {"queries": [entry.to_json() for entry in registry.exposed()]}


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeRequest(SeenRequest):
    """Parameters of a stored query, and the state of the graph it reads, or the branch it writes.

    ``expect_mutation``: refuse unless it writes, or unless it does not.
    """

    params: dict[str, Any] | None = None
    max_rows: int | None = None
    expect_mutation: bool | None = None
    if_commit: str | None = None
    operation_id: str | None = None
    message: str | None = None


def find_query(session: Session, registry: Registry, name: str) -> StoredQuery:
    """Return a stored query that the caller may invoke.

    To others all names are unknown, in the same words, so that nobody learns which there are.
    """
    from omnigraph.graph.session import access_of

    try:
        access_of(session).ask(Action.INVOKE_QUERY)
    except PolicyDenied:
        raise StoredQueryNotFound(
            "there is no such stored query; list them, or send the text of a query",
            stored_query="",
        ) from None
    if name not in registry.queries:
        raise _unknown(name)
    return registry.queries[name]


def invoke(
    session: Session,
    registry: Registry,
    name: str,
    request: InvokeRequest,
    limits: ReadLimits = NO_LIMITS,
) -> Document | Streamed:
    """Run a stored query, and return what the query or mutation of its text returns."""
    entry = find_query(session, registry, name)
    writes = entry.query.is_mutation
    if request.expect_mutation is not None and request.expect_mutation != writes:
        raise BadRequest(
            f"stored query `{name}` is a {'mutation' if writes else 'read'}, and expect_mutation is "
            f"{str(request.expect_mutation).lower()}; leave it out, or invoke another query"
        )
    try:
        if writes:
            return service.mutate(session, _mutation(entry, request))
        return service.query(session, _read(entry, request), limits)
    except SourceError as error:
        # The text was right for the schema it was written for, so the caller is not at fault.
        raise SchemaConflict(
            f"stored query `{name}` does not fit the schema any more: {_told(error)}; change the query, or "
            "the schema",
            stored_query=name,
        ) from error


def _mutation(entry: StoredQuery, request: InvokeRequest) -> service.MutateRequest:
    named: dict[str, object] = {**request.seen}
    past = [
        key for key in ("snapshot", "tag", "version", "time", "as_of") if named[key] is not None
    ]
    if past or request.max_rows is not None:
        given = past[0] if past else "max_rows"
        raise BadRequest(
            f"stored query `{entry.stored.name}` is a mutation, which takes no {given}; leave it out"
        )
    return service.MutateRequest(
        query=entry.stored.text,
        name=entry.stored.name,
        params=request.params,
        branch=request.branch,
        if_commit=request.if_commit,
        operation_id=request.operation_id,
        message=request.message,
    )


def _read(entry: StoredQuery, request: InvokeRequest) -> service.QueryRequest:
    for given, what in (
        (request.if_commit, "condition on the head"),
        (request.message, "message"),
    ):
        if given is not None:
            raise BadRequest(
                f"stored query `{entry.stored.name}` is a read, which takes no {what}; leave it out"
            )
    return service.QueryRequest(
        query=entry.stored.text,
        name=entry.stored.name,
        params=request.params,
        max_rows=request.max_rows,
        **request.seen,
    )


def _unknown(name: str) -> StoredQueryNotFound:
    return StoredQueryNotFound(
        f"there is no stored query `{name}`; list them, or send the text of a query",
        stored_query=name,
    )


def _told(error: OmniGraphError) -> str:
    """Return an error with the place in its source."""
    span = getattr(error, "span", None)
    filename = getattr(error, "filename", None)
    if span is None:
        return str(error)
    where = f"{filename}, " if filename else ""
    return f"{where}line {span.line}: {error}"
