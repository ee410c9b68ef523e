"""Puts the text of a merged schema together from the texts of both sides.

A declaration that says what the merge decided is taken over as it stands, with its comments; any other is
printed anew, below its comments. Each of both texts is parsed once, and what is made of them not again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from omnigraph.errors import CatalogError, ParseError
from omnigraph.lang.schema.merge.by_identity import TypeView
from omnigraph.lang.schema.merge.deciding import Decided
from omnigraph.lang.schema.merge.join_added import JoinedSchemas
from omnigraph.lang.schema.merge.sides import SchemaSide
from omnigraph.lang.schema.resolve_shape import resolve
from omnigraph.lang.schema.shape import Shape, TypeShape
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.parser import parse
from omnigraph.lang.schema.syntax.pieces import DeclarationText, DeclarationTexts, element_of
from omnigraph.lang.schema.syntax.printer import render
from omnigraph.lang.source import Source


def put_together(parts: Iterable[tuple[str, str]], rest: str) -> str:
    """The text of declarations, each with its comments, a blank line between them."""
    texts = [f"{comments}{body.strip()}" for comments, body in parts]
    if rest.strip():
        texts.append(rest.strip())
    return "\n\n".join(texts) + "\n" if texts else ""


class MergedText(NamedTuple):
    """The text of a merged schema, and what it says: with properties in the order in which it has them."""

    text: str
    shape: Shape


def merged_text(
    shape: Shape,
    decided: Decided,
    trees: dict[int, ast.Declaration],
    schemas: JoinedSchemas,
    sides: tuple[SchemaSide, SchemaSide, SchemaSide],
) -> MergedText:
    """The text of a merged shape. ``trees`` are its declarations as they would be printed.

    Where one side changed, that is its text. Otherwise declarations follow in the order of the target,
    then those the source added.
    """
    base, source, target = sides
    hashes = [each.ir.shape.shape_hash for each in sides]
    of_source = shape.shape_hash == hashes[1]
    if of_source and target.ir == base.ir:
        return MergedText(source.text, source.ir.shape)
    if shape.shape_hash == hashes[2]:
        return MergedText(target.text, target.ir.shape)
    if of_source and hashes[2] == hashes[0]:
        return MergedText(source.text, source.ir.shape)
    return _Assembly(shape, decided, trees, schemas).put_together(source.pieces, target.pieces)


class _Part(NamedTuple):
    """One declaration of a merged text."""

    tree: ast.Declaration
    comments: str
    body: str


class _Assembly:
    def __init__(
        self,
        shape: Shape,
        decided: Decided,
        trees: dict[int, ast.Declaration],
        schemas: JoinedSchemas,
    ) -> None:
        self.decided = decided
        self.trees = trees
        self.schemas = schemas
        self.types = {type_.entity: type_ for type_ in shape}
        self.interfaces = tuple(each for each in trees.values() if isinstance(each, ast.Interface))

    def put_together(self, source: DeclarationTexts, target: DeclarationTexts) -> MergedText:
        written = {"target": target.by_element(), "source": source.by_element()}
        numbers: dict[int, None] = {}
        for pieces, view in ((target, self.schemas.target), (source, self.schemas.source)):
            by_element = {type_.element: type_.number for type_ in view.types.values()}
            for piece in pieces.pieces:
                numbers[by_element[element_of(piece.tree)]] = None
        parts = [
            self._part(number, written["target"], written["source"])
            for number in numbers
            if number in self.decided
        ]
        text = put_together(((part.comments, part.body) for part in parts), target.rest)
        tree = ast.Schema(tuple(part.tree for part in parts))
        return MergedText(text, resolve(Source(text), tree))

    def _part(
        self, number: int, ours: dict[str, DeclarationText], theirs: dict[str, DeclarationText]
    ) -> _Part:
        """The comments and the text of one declaration."""
        tree = self.trees[number]
        decided = self.types[element_of(tree)]
        pieces = []
        for view, written in ((self.schemas.target, ours), (self.schemas.source, theirs)):
            type_ = view.types.get(number)
            if type_ is not None:
                pieces.append((type_, written[type_.element]))
        for type_, piece in pieces:
            if self._says(type_, piece.tree, decided):
                return _Part(piece.tree, piece.comments, piece.body)
        comments = next((piece.comments for _, piece in pieces if piece.comments), "")
        printed = render(ast.Schema((tree,)))
        return _Part(parse(printed).declarations[0], comments, printed)

    def _says(self, type_: TypeView, tree: ast.Declaration, decided: TypeShape) -> bool:
        """Whether a declaration of a side means a decided type, among the merged interfaces."""
        if not type_.implements:
            return _digest(type_.ir.shape) == _digest(decided)
        try:
            found = resolve(Source(""), ast.Schema((*self.interfaces, tree)))
        except (CatalogError, ParseError):
            return False
        said = next((each for each in found if each.entity == element_of(tree)), None)
        return said is not None and _digest(said) == _digest(decided)


def _digest(type_: TypeShape) -> str:
    return Shape(nodes=(type_,)).shape_hash
