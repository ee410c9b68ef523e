"""Query text to syntax tree: grammar, parser, advice for texts that do not parse, and the printer.

Imports only `lang.source`, `lang.parse_failures`, `errors` and `types`: it knows words, not meanings.
"""
