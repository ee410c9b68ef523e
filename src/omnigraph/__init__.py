"""A typed property graph that branches, merges and time-travels like Git, stored in Lance tables.

The public names load on first use, so importing the package is cheap::

    import omnigraph as og

    schema = og.parse_schema("node Person { name: String @key }")
    report = og.lint(schema, "query all() { match { $p: Person } return { $p.name } }")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from omnigraph.version import __version__

if TYPE_CHECKING:
    from omnigraph import errors as errors
    from omnigraph.embeddings.provider import Embedder as Embedder
    from omnigraph.graph import Graph as Graph
    from omnigraph.graph import at as at
    from omnigraph.graph import init as init
    from omnigraph.graph import open as open
    from omnigraph.language import lint as lint
    from omnigraph.language import parse_schema as parse_schema


__all__ = [
    "Embedder",
    "Graph",
    "__version__",
    "at",
    "errors",
    "init",
    "lint",
    "open",
    "parse_schema",
]

_HOMES = {
    "Embedder": "omnigraph.embeddings.provider",
    "Graph": "omnigraph.graph",
    "at": "omnigraph.graph",
    "init": "omnigraph.graph",
    "lint": "omnigraph.language",
    "open": "omnigraph.graph",
    "parse_schema": "omnigraph.language",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value: object = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = import_module(f"omnigraph.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
