"""The declaration of one type, cut out of a schema."""

from __future__ import annotations

from omnigraph.errors import BadRequest
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse
from omnigraph.lang.schema.syntax.printer import render
from omnigraph.spelling import did_you_mean


def declaration(source: str, name: str) -> str:
    """Return the declaration of a type or interface, after those of the interfaces it implements."""
    declared = parse(source).declarations
    found = [one for one in declared if one.name.text == name]
    if not found:
        known = [one.name.text for one in declared]
        hint = did_you_mean(name, known) or ".schema shows them all"
        raise BadRequest(f"there is no type `{name}`; {hint}")
    implemented = {
        word.text for one in found if isinstance(one, ast.Node) for word in one.implements
    }
    shown = [one for one in declared if one.name.text in implemented] + found
    return render(ast.Schema(tuple(shown)))
