"""The entry point of the query language: from source text to plan."""

from __future__ import annotations

from omnigraph.lang.query.check.check import check
from omnigraph.lang.query.check.lower import lower
from omnigraph.lang.query.choose_query import choose
from omnigraph.lang.query.ir import Plan
from omnigraph.lang.query.syntax.ast import QueryKind
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.source import Source


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
