"""The entry point of the query language: from source text, and the query that is meant in it, to plan."""

from __future__ import annotations

from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.lang.query.check.check import check
from omnigraph.lang.query.check.lower import lower
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
    """The query called `name`, or the only one; `want` is the kind the entry point runs."""
    query = _only(file) if name is None else _named(file, name)
    if want == "read" and query.is_mutation:
        raise BadRequest(
            f"query `{query.name}` is a mutation and cannot run as a read; use `mutate`"
        )
    if want == "mutation" and not query.is_mutation:
        raise BadRequest(
            f"query `{query.name}` is a read and cannot run as a mutation; use `query`"
        )
    return query


def _only(file: ast.QueryFile) -> ast.Query:
    if len(file.queries) == 1:
        return file.queries[0]
    if not file.queries:
        raise QueryNotFound("the source holds no query; pass a source with one, and its name")
    raise QueryNotFound(
        f"the source holds {len(file.queries)} queries; pass the name of one: {_names(file)}"
    )


def _named(file: ast.QueryFile, name: str) -> ast.Query:
    for query in file.queries:
        if query.name == name:
            return query
    known = [query.name for query in file.queries]
    hint = did_you_mean(name, known) or f"it holds {_names(file) or 'no query'}"
    raise QueryNotFound(f"query `{name}` not found in the source; {hint}", name=name)


def _names(file: ast.QueryFile) -> str:
    return ", ".join(f"`{query.name}`" for query in file.queries)


def compile_query(
    catalog: Catalog,
    text: str,
    name: str | None = None,
    want: QueryKind | None = None,
    filename: str | None = None,
) -> Plan:
    """Parse, choose, check and lower one query of a source."""
    query = choose(parse(text, filename), name, want)
    return lower(check(query, catalog, Source(text, filename)))
