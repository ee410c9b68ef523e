"""`lint`: check queries against a schema, without running them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.service.documents import Document

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


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

    found = check_queries(schema, request.source).to_json()
    return {**found, "schema_source": schema_source, "query_path": request.query_path}
