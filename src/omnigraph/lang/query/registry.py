"""Stored queries: named `.gq` sources that a graph serves to its clients."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import BadRequest, OmniGraphError, SourceError
from omnigraph.lang.query.check.check import check
from omnigraph.lang.query.describe import describe_value
from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.source import Source
from omnigraph.types import PropType


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source to load into a registry, and how its query appears to tools."""

    name: str
    text: str
    tool_name: str | None = None
    expose: bool = True
    filename: str | None = None


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """One entry of a loaded registry."""

    stored: StoredSource
    query: ast.Query
    declared: tuple[ast.Query, ...] = ()
    """All queries of its source, whose rows it may take."""

    @property
    def tool_name(self) -> str:
        """The name tools see."""
        return self.stored.tool_name or self.stored.name

    def to_json(self) -> dict[str, Any]:
        """The catalog entry clients get; `@description` and `@instruction` pass unchanged."""
        entry: dict[str, Any] = {"name": self.stored.name, "tool_name": self.tool_name}
        if self.query.description is not None:
            entry["description"] = self.query.description
        if self.query.instruction is not None:
            entry["instruction"] = self.query.instruction
        entry["mutation"] = self.query.is_mutation
        entry["params"] = [describe_value(param.name, param.type) for param in self.query.params]
        return entry


@dataclass(frozen=True, slots=True)
class Validation:
    """Breakages, by stored query, forbid serving the graph; warnings do not."""

    breakages: Mapping[str, OmniGraphError] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Registry:
    """The stored queries of one graph, by name."""

    def __init__(self, queries: Mapping[str, StoredQuery]) -> None:
        self.queries = dict(queries)

    @classmethod
    def load(
        cls, sources: Iterable[StoredSource], reserved: Container[str] = (), *others: str
    ) -> Registry:
        """Read all sources; every problem, and ``others`` found before, come in one error.

        ``reserved`` are names of tools that no query may take.
        """
        problems = list(others)
        queries: dict[str, StoredQuery] = {}
        tools: dict[str, str] = {}
        for stored in sources:
            loaded = _load_one(stored, problems)
            if loaded is None:
                continue
            if stored.name in queries:
                files = (queries[stored.name].stored.filename, stored.filename)
                where = " and ".join(dict.fromkeys(file for file in files if file is not None))
                problems.append(
                    f"stored query `{stored.name}` is given twice{f', in {where}' if where else ''}"
                )
                continue
            if stored.expose and loaded.tool_name in reserved:
                problems.append(
                    f"stored query `{stored.name}` has the tool name `{loaded.tool_name}`, which is a "
                    "tool of omnigraph; rename it"
                )
            elif stored.expose:
                other = tools.setdefault(loaded.tool_name, stored.name)
                if other != stored.name:
                    problems.append(
                        f"stored queries `{other}` and `{stored.name}` share the tool name "
                        f"`{loaded.tool_name}`"
                    )
            queries[stored.name] = loaded
        if problems:
            raise BadRequest("stored queries: " + "; ".join(problems), problems=problems)
        return cls(queries)

    def exposed(self) -> list[StoredQuery]:
        """The queries clients may see, by name."""
        return [
            self.queries[name] for name in sorted(self.queries) if self.queries[name].stored.expose
        ]

    def validate(self, catalog: Catalog) -> Validation:
        """Check every query against the live schema."""
        breakages: dict[str, OmniGraphError] = {}
        warnings: list[str] = []
        for name in sorted(self.queries):
            entry = self.queries[name]
            try:
                source = Source(entry.stored.text, entry.stored.filename)
                check(entry.query, catalog, source, entry.declared)
            except OmniGraphError as error:
                breakages[name] = error
            if entry.stored.expose:
                warnings += [
                    f"stored query `{name}`: agents cannot supply the vector `${param.name}`; "
                    "use a String parameter"
                    for param in entry.query.params
                    if isinstance(param.type, PropType) and param.type.is_vector
                ]
        return Validation(breakages, tuple(warnings))


def _load_one(stored: StoredSource, problems: list[str]) -> StoredQuery | None:
    try:
        file = parse(stored.text, stored.filename)
    except SourceError as error:
        problems.append(f"stored query `{stored.name}`: {error}")
        return None
    if any(query.name is None for query in file.queries):
        where = stored.filename or f"the source of `{stored.name}`"
        problems.append(f"{where} holds a query without a name, which cannot be stored; name it")
        return None
    for query in file.queries:
        if query.name == stored.name:
            return StoredQuery(stored, query, file.queries)
    found = ", ".join(query.name or "one without a name" for query in file.queries) or "none"
    problems.append(
        f"stored query `{stored.name}`: its source declares no query of that name (found: {found})"
    )
    return None
