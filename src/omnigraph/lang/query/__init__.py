"""The query language: grammar, parser, checker, parameters, IR, lint, registry. Pure."""
