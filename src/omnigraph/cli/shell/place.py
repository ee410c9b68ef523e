"""Where in a query a text stops: in which block, and after what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from omnigraph.cli.shell.tokens import Kind, Token


class Block(Enum):
    """A pair of brackets, by what may stand inside."""

    NONE = auto()
    """Outside of all brackets."""
    PARAMETERS = auto()
    BODY = auto()
    MATCH = auto()
    ENTRIES = auto()
    """`name: value` pairs of a type: of a binding, an insert or a set."""
    RETURN = auto()
    ORDER = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a query: its block, the type that the block belongs to, and the tokens before it.

    ``inside`` are the tokens since the block began, with what inner brackets held left out.
    """

    block: Block
    type_name: str | None
    inside: tuple[Token, ...]

    def ends_with(self, *texts: str) -> bool:
        """Return whether the last tokens of the block are these."""
        return tuple(token.text for token in self.inside[-len(texts) :]) == texts

    @property
    def last(self) -> Token | None:
        """The token right before this place, in this block."""
        return self.inside[-1] if self.inside else None


_WORDS = {"match": Block.MATCH, "not": Block.MATCH, "return": Block.RETURN, "order": Block.ORDER}
_CLOSING = {"}": "{", ")": "(", "]": "["}


@dataclass(slots=True)
class _Open:
    block: Block
    type_name: str | None
    inside: list[Token]


def find_place(tokens: Sequence[Token]) -> Place:
    """Return the place behind these tokens."""
    stack = [_Open(Block.NONE, None, [])]
    for token in tokens:
        if token.text in _CLOSING.values():
            top = stack[-1]
            block, type_name = _opened(top, token.text)
            top.inside.append(token)
            stack.append(_Open(block, type_name, []))
        elif token.text in _CLOSING and len(stack) > 1:
            stack.pop()
            stack[-1].inside.append(token)
        else:
            stack[-1].inside.append(token)
    top = stack[-1]
    return Place(top.block, top.type_name, tuple(top.inside))


def _opened(outer: _Open, bracket: str) -> tuple[Block, str | None]:
    """Return the block that a bracket opens, and its type."""
    last = outer.inside[-1] if outer.inside else None
    if bracket == "(":
        if outer.block is Block.NONE:
            return Block.PARAMETERS, None
        # The arguments of a function are of the kind that stands around it.
        return outer.block, outer.type_name
    if bracket != "{":
        return Block.OTHER, None
    if outer.block is Block.NONE:
        return Block.BODY, None
    if last is None:
        return Block.OTHER, None
    if last.kind is Kind.TYPE:
        return Block.ENTRIES, last.text
    if last.text == "set":
        return Block.ENTRIES, _type_before(outer.inside)
    return _WORDS.get(last.text, Block.OTHER), None


def _type_before(inside: Sequence[Token]) -> str | None:
    """Return the newest type that was named."""
    return next((token.text for token in reversed(inside) if token.kind is Kind.TYPE), None)


def statement_type(place: Place) -> str | None:
    """Return the type of the insert, update or delete that the place is in."""
    return _type_before(place.inside)
