"""The entry point of the query language: from source text, and the query that is meant in it, to plan."""

from __future__ import annotations

from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.lang.query.check.check import check
from omnigraph.lang.query.ir import Plan
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.ast import QueryKind
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.source import Source
from omnigraph.spelling import did_you_mean


def choose(
    file: ast.QueryFile, name: str | None = None, want: ast.QueryKind | None = None
) -> ast.Query:
    """The query called `name`, else the one without a name, else the only one.

    `want` is the kind the entry point runs.
    """
    query = _unnamed(file) if name is None else _named(file, name)
    called = "the query" if query.name is None else f"query `{query.name}`"
    if want == "read" and query.is_mutation:
        raise BadRequest(f"{called} is a mutation and cannot run as a read; use `mutate`")
    if want == "mutation" and not query.is_mutation:
        raise BadRequest(f"{called} is a read and cannot run as a mutation; use `query`")
    return query


def _unnamed(file: ast.QueryFile) -> ast.Query:
    """The query that is meant without a name: what stands before an anonymous one are its sources."""
    if len(file.queries) == 1 or (file.queries and file.queries[-1].name is None):
        return file.queries[-1]
    if not file.queries:
        raise QueryNotFound("the source holds no query; pass a source with one, and its name")
    raise QueryNotFound(
        f"the source holds {len(file.queries)} queries; pass the name of one: {_names(file)}"
    )


def _named(file: ast.QueryFile, name: str) -> ast.Query:
    for query in file.queries:
        if query.name == name:
            return query
    known = _declared(file)
    hint = did_you_mean(name, known) or f"it holds {_names(file) or 'no query of a name'}"
    raise QueryNotFound(f"query '{name}' not found in the source; {hint}", name=name)


def _names(file: ast.QueryFile) -> str:
    return ", ".join(f"`{name}`" for name in _declared(file))


def _declared(file: ast.QueryFile) -> list[str]:
    return [query.name for query in file.queries if query.name is not None]


def compile_query(
    catalog: Catalog,
    text: str,
    name: str | None = None,
    want: QueryKind | None = None,
    filename: str | None = None,
) -> Plan:
    """Parse, choose, check and lower one query of a source."""
    file = parse(text, filename)
    query = choose(file, name, want)
    return check(query, catalog, Source(text, filename), file.queries)


def reads_graph(text: str, name: str | None = None, filename: str | None = None) -> bool:
    """Whether a mutation has a match or a `return`, by which it shows or uses what the graph holds."""
    body = choose(parse(text, filename), name, "mutation").body
    return isinstance(body, ast.WriteBody) and (body.match is not None or body.items is not None)
