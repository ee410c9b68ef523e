"""The entry point of the schema language: from source text to shape, with its diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.display.text import counted
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.lang.schema.catalog_of import catalog_of
from omnigraph.lang.schema.identities import create, inert_hints
from omnigraph.lang.schema.lint import Diagnostic
from omnigraph.lang.schema.resolve_shape import resolve
from omnigraph.lang.schema.shape import Shape
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse
from omnigraph.lang.source import Source


@dataclass(frozen=True, slots=True, repr=False)
class Compiled:
    """A source that passed every rule of the language."""

    ast: ast.Schema
    shape: Shape
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def catalog(self) -> Catalog:
        """The catalog a new graph of this schema would have."""
        return catalog_of(create(self.shape))

    def __repr__(self) -> str:
        found = self.catalog
        types = (
            f"{counted(len(found.nodes), 'node type')}, {counted(len(found.edges), 'edge type')}"
        )
        return f"<omnigraph.Compiled {types}, {counted(len(self.diagnostics), 'diagnostic')}>"


def compile_schema(text: str, filename: str | None = None) -> Compiled:
    """Parse and check a source. Its diagnostics are those of a new graph: rename hints do nothing."""
    tree = parse(text, filename)
    shape = resolve(Source(text, filename), tree)
    return Compiled(tree, shape, inert_hints(shape))
