"""Puts the text of a merged schema together from the texts of both sides.

A text is cut into its declarations, each with the comments before it and the rest of its last line. A
declaration that says what the merge decided is taken over as it stands; any other is printed anew,
below its comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.errors import CatalogError, ParseError
from omnigraph.lang.schema.merge.deciding import Decided
from omnigraph.lang.schema.merge.declarations import element_of
from omnigraph.lang.schema.merge.join_added import Joined
from omnigraph.lang.schema.merge.sides import SchemaSide
from omnigraph.lang.schema.resolve_shape import resolve
from omnigraph.lang.schema.shape import Shape, TypeShape
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse
from omnigraph.lang.schema.syntax.printer import render
from omnigraph.lang.source import Source

_TOKEN = re.compile(
    r'(?P<trivia>\s+|//[^\n]*|/\*[\s\S]*?\*/)|"[^"\\]*(?:\\.[^"\\]*)*"|\w+|.', re.DOTALL
)
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/[ \t]*(?=\n|$))?\n?")


@dataclass(frozen=True, slots=True)
class Piece:
    """One declaration of a text. ``before`` are the comments and blank lines above it."""

    tree: ast.Declaration
    before: str
    body: str

    @property
    def comments(self) -> str:
        """The comments above the declaration as they stand, without the blank lines above them."""
        return self.before.lstrip() if self.before.strip() else ""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The declarations of a text in their order, and what follows the last one."""

    pieces: tuple[Piece, ...]
    rest: str

    def by_element(self) -> dict[str, Piece]:
        """The declarations by element."""
        return {element_of(piece.tree): piece for piece in self.pieces}


def cut(text: str) -> Pieces:
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
        pieces.append(Piece(each, text[end:start], text[start:stop]))
        end = stop
    return Pieces(tuple(pieces), text[end:])


def put_together(parts: Iterable[tuple[str, str]], rest: str) -> str:
    """The text of declarations, each with its comments, a blank line between them."""
    texts = [f"{comments}{body.strip()}" for comments, body in parts]
    if rest.strip():
        texts.append(rest.strip())
    return "\n\n".join(texts) + "\n" if texts else ""


def merged_text(
    shape: Shape,
    decided: Decided,
    trees: dict[int, ast.Declaration],
    schemas: Joined,
    sides: tuple[SchemaSide, SchemaSide, SchemaSide],
) -> str:
    """The text of a merged shape. ``trees`` are its declarations as they would be printed.

    Where one side changed, that is its text. Otherwise declarations follow in the order of the target,
    then those the source added.
    """
    base, source, target = sides
    hashes = [each.ir.shape.shape_hash for each in sides]
    of_source = shape.shape_hash == hashes[1]
    if of_source and target.ir == base.ir:
        return source.text
    if shape.shape_hash == hashes[2]:
        return target.text
    if of_source and hashes[2] == hashes[0]:
        return source.text
    return _Assembly(shape, decided, trees, schemas).text(source.text, target.text)


class _Assembly:
    def __init__(
        self,
        shape: Shape,
        decided: Decided,
        trees: dict[int, ast.Declaration],
        schemas: Joined,
    ) -> None:
        self.decided = decided
        self.trees = trees
        self.schemas = schemas
        self.types = {type_.entity: type_ for type_ in shape}
        self.interfaces = tuple(each for each in trees.values() if isinstance(each, ast.Interface))

    def text(self, source: str, target: str) -> str:
        ours, theirs = cut(target), cut(source)
        written = {"target": ours.by_element(), "source": theirs.by_element()}
        numbers: dict[int, None] = {}
        for pieces, view in ((ours, self.schemas.target), (theirs, self.schemas.source)):
            by_element = {type_.element: type_.number for type_ in view.types.values()}
            for piece in pieces.pieces:
                numbers[by_element[element_of(piece.tree)]] = None
        parts = [
            self._part(number, written["target"], written["source"])
            for number in numbers
            if number in self.decided
        ]
        return put_together(parts, ours.rest)

    def _part(
        self, number: int, ours: dict[str, Piece], theirs: dict[str, Piece]
    ) -> tuple[str, str]:
        """The comments and the text of one declaration."""
        tree = self.trees[number]
        decided = self.types[element_of(tree)]
        pieces = []
        for view, written in ((self.schemas.target, ours), (self.schemas.source, theirs)):
            type_ = view.types.get(number)
            if type_ is not None:
                pieces.append(written[type_.element])
        for piece in pieces:
            if self._says(piece.tree, decided):
                return piece.comments, piece.body
        comments = next((piece.comments for piece in pieces if piece.comments), "")
        return comments, render(ast.Schema((tree,)))

    def _says(self, tree: ast.Declaration, decided: TypeShape) -> bool:
        """Whether a declaration means a decided type, among the merged interfaces."""
        ends = () if decided.endpoints is None else sorted(set(decided.endpoints))
        others = tuple(ast.Node(ast.Name(name)) for name in ends)
        interfaces = self.interfaces if isinstance(tree, ast.Node) else ()
        try:
            found = resolve(Source(""), ast.Schema((*interfaces, *others, tree)))
        except (CatalogError, ParseError):
            return False
        said = next((each for each in found if each.entity == element_of(tree)), None)
        return said is not None and _digest(said) == _digest(decided)


def _digest(type_: TypeShape) -> str:
    return Shape(nodes=(type_,)).shape_hash
