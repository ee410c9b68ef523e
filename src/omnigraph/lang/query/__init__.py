"""The query language: grammar, parser, checker, parameters, IR, lint, registry. Pure."""

from omnigraph.lang.query.compile import compile_query

__all__ = ["compile_query"]
