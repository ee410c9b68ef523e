"""The schema language: grammar, parser, shape, identity, catalog, planner, lint. Pure.

    text ── parse ──> ast ── resolve ──> Shape ── create / evolve ──> Ir ── catalog_of ──> Catalog
                                            └──── plan(accepted Ir, …) ──> MigrationPlan

The names below load what they need on first use, so that importing the catalog costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.lang.schema.catalog import Catalog
    from omnigraph.lang.schema.compile import Compiled, compile_schema
    from omnigraph.lang.schema.identities import create, evolve
    from omnigraph.lang.schema.ir import Ir
    from omnigraph.lang.schema.migrate.migration import MigrationPlan, plan
    from omnigraph.lang.schema.shape import Shape
    from omnigraph.lang.schema.syntax.parser import parse
    from omnigraph.lang.schema.syntax.printer import render

__all__ = [
    "Catalog",
    "Compiled",
    "Ir",
    "MigrationPlan",
    "Shape",
    "compile_schema",
    "create",
    "evolve",
    "parse",
    "plan",
    "render",
]

_HOMES = {
    "Catalog": "catalog",
    "Compiled": "compile",
    "Ir": "ir",
    "MigrationPlan": "migrate.migration",
    "Shape": "shape",
    "compile_schema": "compile",
    "create": "identities",
    "evolve": "identities",
    "parse": "syntax.parser",
    "plan": "migrate.migration",
    "render": "syntax.printer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
