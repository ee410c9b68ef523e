"""Syntax tree to shape: checks names, types, annotations and constraints, and expands interfaces.

``resolve.resolve`` is the way in. Imports `lang.schema.{declared, shape, syntax}`.
"""
