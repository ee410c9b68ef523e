"""Lints a `.gq` source against a catalog, without touching data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omnigraph.display.panel import Panel, Shown
from omnigraph.display.text import counted
from omnigraph.errors import OmniGraphError, ParseError, SourceError
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.check import check
from omnigraph.lang.query.describe import describe_operation
from omnigraph.lang.query.plan_findings import Finding, Severity, plan_findings
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.source import Source

PARSE_FAILURE = "Q000"


@dataclass(frozen=True, slots=True)
class LintedQuery:
    """Lint's result for one query. `failure` keeps the error itself, for its underline."""

    name: str | None
    kind: ast.QueryKind
    warnings: tuple[str, ...] = ()
    failure: OmniGraphError | None = None
    operation: dict[str, Any] | None = None

    @property
    def diagnostic(self) -> dict[str, Any] | None:
        """Where the query fails and what kind of error it is."""
        return None if self.failure is None else self.failure.diagnostic()

    def to_json(self) -> dict[str, Any]:
        """The result without its empty fields."""
        facts: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "status": "error" if self.failure else "ok",
        }
        if self.warnings:
            facts["warnings"] = list(self.warnings)
        if self.failure is not None:
            facts["error"] = str(self.failure)
            facts["diagnostic"] = self.diagnostic
        if self.operation is not None:
            facts["operation"] = self.operation
        return facts


@dataclass(frozen=True, slots=True, repr=False)
class LintReport(Shown):
    """The whole answer; `status` is `error` exactly when there is an error."""

    schema_source: dict[str, str]
    query_path: str | None
    results: tuple[LintedQuery, ...] = ()
    findings: tuple[Finding, ...] = ()
    failure: SourceError | None = field(default=None, compare=False)

    @property
    def errors(self) -> int:
        """How many queries fail, plus findings of that severity."""
        return self._count("error") + sum(result.failure is not None for result in self.results)

    @property
    def warnings(self) -> int:
        """How many warnings, per query and per file."""
        return self._count("warning") + sum(len(result.warnings) for result in self.results)

    @property
    def infos(self) -> int:
        """The number of remarks, per query and per file."""
        return self._count("info")

    @property
    def status(self) -> str:
        """`ok` or `error`."""
        return "error" if self.errors else "ok"

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The document of `omnigraph lint --json`."""
        return {
            "status": self.status,
            "schema_source": self.schema_source,
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [result.to_json() for result in self.results],
            "findings": [finding.to_json() for finding in self.findings],
        }

    def _panel(self) -> Panel:
        rows = [
            (
                one.name or "(anonymous)",
                "ok" if one.failure is None else "error",
                "; ".join(one.warnings) if one.failure is None else str(one.failure),
            )
            for one in self.results
        ]
        rows += [(one.code, one.severity, one.message) for one in self.findings]
        title = (
            f"{self.status}: {counted(len(self.results), 'query', 'queries')}, "
            f"{counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}"
        )
        return Panel.of_rows(title, ("query", "status", "message"), rows) if rows else Panel(title)


def lint(
    catalog: Catalog,
    text: str,
    *,
    query_path: str | None = None,
    schema_source: dict[str, str] | None = None,
) -> LintReport:
    """Check every query of a source, and look for properties that no query ever updates."""
    where = schema_source if schema_source is not None else {"kind": "file"}
    try:
        file = parse(text, query_path)
    except ParseError as error:
        finding = Finding("error", PARSE_FAILURE, str(error), diagnostic=error.diagnostic())
        return LintReport(where, query_path, findings=(finding,), failure=error)
    source = Source(text, query_path)
    checked = [_check_one(query, file, catalog, source) for query in file.queries]
    valid = [
        (query, plan)
        for query, (_, plan) in zip(file.queries, checked, strict=True)
        if plan is not None
    ]
    findings = plan_findings(catalog, [plan for _, plan in valid], [query for query, _ in valid])
    results = tuple(result for result, _ in checked)
    return LintReport(where, query_path, results, tuple(findings))


def _check_one(
    query: ast.Query, file: ast.QueryFile, catalog: Catalog, source: Source
) -> tuple[LintedQuery, ir.Plan | None]:
    kind: ast.QueryKind = "mutation" if query.is_mutation else "read"
    warnings: tuple[str, ...] = ()
    if query.is_mutation and not query.params and query.name is not None:
        warnings = (f"mutation `{query.name}` declares no parameters: it does the same each time",)
    try:
        plan = check(query, catalog, source, file.queries)
    except OmniGraphError as error:
        return LintedQuery(query.name, kind, warnings, error), None
    operation = describe_operation(plan, catalog)
    return LintedQuery(query.name, kind, warnings, None, operation), plan
