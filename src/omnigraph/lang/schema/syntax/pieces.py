"""Cuts the text of a schema into its declarations, each with the comments before it and the rest of its last line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse

_TOKEN = re.compile(
    r'(?P<trivia>\s+|//[^\n]*|/\*[\s\S]*?\*/)|"[^"\\]*(?:\\.[^"\\]*)*"|\w+|.', re.DOTALL
)
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/[ \t]*(?=\n|$))?\n?")


@dataclass(frozen=True, slots=True)
class DeclarationText:
    """One declaration of a text. ``before`` are the comments and blank lines above it."""

    tree: ast.Declaration
    before: str
    body: str

    @property
    def comments(self) -> str:
        """The comments above the declaration as they stand, without the blank lines above them."""
        return self.before.lstrip() if self.before.strip() else ""


@dataclass(frozen=True, slots=True)
class DeclarationTexts:
    """The declarations of a text in their order, and what follows the last one."""

    pieces: tuple[DeclarationText, ...]
    rest: str

    def by_element(self) -> dict[str, DeclarationText]:
        """The declarations by element."""
        return {element_of(piece.tree): piece for piece in self.pieces}


def element_of(node: ast.Declaration) -> str:
    """How conflicts name a declaration."""
    kind = {ast.Interface: "interface", ast.Node: "node", ast.Edge: "edge"}[type(node)]
    return f"{kind}:{node.name.text}"


def cut(text: str) -> DeclarationTexts:
    """Cut a text that compiles into its declarations; together they are the text again."""
    tokens = [match.span() for match in _TOKEN.finditer(text) if match["trivia"] is None]
    starts_at = {start: at for at, (start, _) in enumerate(tokens)}
    declarations = parse(text).declarations
    # The keyword of a declaration is the token before its name.
    first = [starts_at[each.name.span.start] - 1 for each in declarations]
    pieces = []
    end = 0
    for at, each in enumerate(declarations):
        start = tokens[first[at]][0]
        last = (first[at + 1] if at + 1 < len(first) else len(tokens)) - 1
        rest = _REST_OF_LINE.match(text, tokens[last][1])
        stop = tokens[last][1] if rest is None else rest.end()
        pieces.append(DeclarationText(each, text[end:start], text[start:stop]))
        end = stop
    return DeclarationTexts(tuple(pieces), text[end:])
