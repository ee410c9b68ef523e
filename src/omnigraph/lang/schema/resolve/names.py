"""Checks names: no repeats, no edge names that differ only in case, no reserved properties."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.errors import CatalogError
from omnigraph.lang.schema.declared import IMPLICIT_COLUMNS, ROW_COLUMNS, Kind
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.source import Source
from omnigraph.spans import Span


def check_names(source: Source, tree: ast.Schema) -> None:
    """Refuse repeated declarations and properties, and reserved property names."""
    namespaces: tuple[tuple[Kind, tuple[ast.Declaration, ...]], ...] = (
        ("interface", tree.interfaces),
        ("node", tree.nodes),
        ("edge", tree.edges),
    )
    for kind, declarations in namespaces:
        _check_distinct(source, kind, [declaration.name for declaration in declarations])
        for declaration in declarations:
            _check_properties(source, kind, declaration)
    _check_folding(source, [edge.name for edge in tree.edges])


def check_reserved(source: Source, kind: Kind, type_name: str, prop: str, span: Span) -> None:
    """Refuse a property whose name is a column of the product or of the table format."""
    if prop in ROW_COLUMNS:
        source.fail(
            f"`{type_name}.{prop}`: the property name `{prop}` is reserved for row metadata", span
        )
    if prop in IMPLICIT_COLUMNS[kind]:
        columns = ", ".join(f"`{column}`" for column in IMPLICIT_COLUMNS[kind])
        source.fail(
            f"`{type_name}.{prop}`: the property name `{prop}` is reserved",
            span,
            f"every {kind} has its own: {columns}",
        )


def _check_distinct(source: Source, kind: Kind, names: Iterable[ast.Name]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise source.error(
                CatalogError,
                f"duplicate {kind} `{name.text}`",
                name.span,
                "declare it once, or give one of them another name",
                entity=f"{kind}:{name.text}",
            )
        seen.add(name.text)


def _check_folding(source: Source, names: Iterable[ast.Name]) -> None:
    folded: dict[str, str] = {}
    for name in names:
        other = folded.setdefault(name.text.lower(), name.text)
        if other != name.text:
            raise source.error(
                CatalogError,
                f"edges `{other}` and `{name.text}` are one name after case folding",
                name.span,
                "edges are also looked up without regard to case: rename one",
                entity=f"edge:{name.text}",
            )


def _check_properties(source: Source, kind: Kind, declaration: ast.Declaration) -> None:
    type_name = declaration.name.text
    seen: set[str] = set()
    for prop in declaration.properties:
        name = prop.name.text
        check_reserved(source, kind, type_name, name, prop.name.span)
        if name in seen:
            raise source.error(
                CatalogError,
                f"duplicate property `{name}` in {kind} `{type_name}`",
                prop.name.span,
                entity=f"{kind}:{type_name}.{name}",
            )
        seen.add(name)
