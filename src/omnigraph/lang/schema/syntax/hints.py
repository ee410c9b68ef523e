"""Rename hints in a source: which it has, and its text without them.

A `@rename_from` does its work once. In the text of the schema that is accepted by then, it only says
what happened before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse

RENAME = "rename_from"

_TRIVIA = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*[\s\S]*?\*/)*")


def hints_in(text: str) -> frozenset[tuple[str, str]]:
    """The hints of a source: the declaration or property that has it, and the name it had before."""
    return frozenset(
        (entity, hint.value.text) for entity, hint in _hints(parse(text)) if hint.value is not None
    )


def without_hints(text: str) -> str:
    """The same source without its hints; everything else, comments too, stays as it is.

    A line that held nothing but a hint goes with it.
    """
    for _, hint in sorted(_hints(parse(text)), key=lambda one: -one[1].span.start):
        start, end = hint.span.start, _end(text, hint)
        before = text[:start].rstrip(" \t")
        after = text[end:].lstrip(" \t")
        if before.endswith("\n") and after.startswith(("\n", "\r\n")):
            text = before + after.partition("\n")[2]
        else:
            # Blanks on both sides become one, none where the line ends.
            gap = "" if not after or after[0] in "\r\n" else " "
            text = before + gap + after
    return text


def _end(text: str, hint: ast.Annotation) -> int:
    """Where a hint ends: behind the bracket after its argument."""
    assert hint.value is not None
    gap = _TRIVIA.match(text, hint.value.span.end)
    assert gap is not None
    return gap.end() + 1


def _hints(tree: ast.Schema) -> Iterator[tuple[str, ast.Annotation]]:
    for declaration in tree.declarations:
        kind = type(declaration).__name__.lower()
        entity = f"{kind}:{declaration.name.text}"
        if not isinstance(declaration, ast.Interface):
            yield from ((entity, one) for one in declaration.annotations if one.name == RENAME)
        for prop in declaration.properties:
            label = f"{entity}.{prop.name.text}"
            yield from ((label, one) for one in prop.annotations if one.name == RENAME)
