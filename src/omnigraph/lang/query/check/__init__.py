"""Syntax tree to plan: checks a query against a catalog and builds its IR.

``check`` is the way in; each other module holds the rules of one part of a query, with the rule's
number (T1, T2, …) in every refusal. ``lower`` then orders the steps of a checked query.
Imports `lang.query.syntax`, `lang.query.ir` and the catalog of `lang.schema`.
"""
