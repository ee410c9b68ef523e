"""What can stand at the cursor: types, properties, edges, variables, keywords, dot commands.

The parser reads the text up to the word at the cursor and says which terminals it would accept there.
What such a terminal means follows from what it would stand behind: in `match { $p: Person $p ` a NAME
is accepted, and behind a variable it is an edge; in `match { $p: Person { ` it is a property, because a
colon would have to follow. A text that the parser cannot follow is not completed. The first Tab builds
the parser, which takes a tenth of a second; the others take a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from omnigraph.cli.shell.statements import (
    DOTS,
    TAKES_QUERY,
    Kind,
    meaningful,
    split_dot,
)
from omnigraph.cli.shell.variables import described, variable_types
from omnigraph.errors import OmniGraphError
from omnigraph.lang.query import functions
from omnigraph.lang.query.syntax.ast import AGGREGATES, RANKINGS, TEXT_CALLS
from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.types import Scalar

KEYWORDS = {
    "QUERY": "query ",
    "FOR": "for ",
    "MATCH": "match {",
    "RETURN": "return {",
    "DISTINCT": "distinct ",
    "HAVING": "having {",
    "ORDER": "order {",
    "LIMIT": "limit ",
    "OFFSET": "offset ",
    "SET": "set {",
    "WHERE": "where ",
    "NOT": "not {",
    "EXISTS": "exists {",
    "OPTIONALLY": "optional {",
    "AND": "and ",
    "OR": "or ",
    "BY": "by ",
    "INSERT": "insert ",
    "UPSERT": "upsert ",
    "UPDATE": "update ",
    "DELETE": "delete ",
    "END": "end ",
    "ASSERT": "assert ",
    "AT_WORD": "at ",
    "AS": "as ",
    "ASC": "asc",
    "DESC": "desc",
    "CONTAINS": "contains ",
    "STARTS_WITH": "starts_with ",
    "ENDS_WITH": "ends_with ",
    "IN": "in ",
    "IS": "is ",
    "NULL": "null",
    "NOT_NULL": "not null",
}
_PLAIN = (functions.WORDS, "function")
FUNCTIONS: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "MATCH": [(TEXT_CALLS, "text search"), _PLAIN],
    "RETURN": [(AGGREGATES, "aggregate"), _PLAIN],
    "HAVING": [_PLAIN],
    "ORDER": [(AGGREGATES, "aggregate"), (RANKINGS, "ranking"), _PLAIN],
    "": [_PLAIN],
}
_BLOCKS = frozenset({"NOT", "EXISTS", "OPTIONALLY"})
"""What begins a block of clauses inside `match`."""
VALUES = ("true", "false", "now()", 'date("', 'datetime("')
ENDS = ("from", "to")


class Candidate(NamedTuple):
    """A text that may replace the word at the cursor, and what it is."""

    text: str
    about: str = ""


def _nothing() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names of a graph. Branches and tags are looked up when they are wanted."""

    catalog: Catalog = field(default_factory=Catalog)
    branches: Callable[[], Sequence[str]] = _nothing
    tags: Callable[[], Sequence[str]] = _nothing


def complete(text: str, cursor: int, names: Vocabulary) -> tuple[int, list[Candidate]]:
    """Return what may stand at the cursor, and where the word begins that it replaces."""
    line = text[:cursor].lstrip()
    if line.startswith("."):
        word, _ = split_dot(line)
        if word not in TAKES_QUERY or line == word:
            return _complete_dot(text[:cursor], line, names)
        text = text.replace(word, " " * len(word), 1)
    before = meaningful(text[:cursor])
    partial = ""
    if before and before[-1].end == cursor and before[-1].kind in _WORDS:
        partial = before[-1].text
    start = cursor - len(partial)
    known = variable_types(meaningful(text), names.catalog)
    others = [token for token in meaningful(text) if token.end != cursor]
    variables = [Candidate(*each) for each in described(others, known).items()]
    place = _Place.behind(text[:start])
    if place is None:
        return cursor, []
    return start, _starting(partial, _fitting(place, known, variables, names.catalog))


_WORDS = {Kind.WORD, Kind.TYPE, Kind.VARIABLE}


def _starting(partial: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that begin with what is typed, ignoring case, each once."""
    fitting = {
        each.text: each
        for each in candidates
        if each.text.lower().startswith(partial.lower()) and each.text != partial
    }
    return list(fitting.values())


def _complete_dot(before: str, line: str, names: Vocabulary) -> tuple[int, list[Candidate]]:
    """Complete the word of a dot command, or its argument."""
    word, _ = split_dot(line)
    if line == word:
        known = [Candidate(dot.word, dot.about) for dot in DOTS]
        return len(before) - len(word), _starting(word, known)
    partial = before[before.rfind(" ") + 1 :]
    return len(before) - len(partial), _starting(partial, _arguments(word, names))


def _arguments(word: str, names: Vocabulary) -> Iterator[Candidate]:
    dot = next((dot for dot in DOTS if dot.word == word), None)
    match dot and dot.completes:
        case "branch":
            yield from (Candidate(name, "branch") for name in names.branches())
        case "target":
            yield from (Candidate(name, "branch") for name in names.branches())
            yield from (Candidate(f"tag:{name}", "tag") for name in names.tags())
        case "type":
            yield from _types(names.catalog)
        case tuple() as words:
            yield from map(Candidate, words)
        case _:
            pass


# ------------------------------------------------------------------ queries


class _Place:
    """A place in a query, as the parser has reached it."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    @cached_property
    def accepts(self) -> set[str]:
        """The terminals that can stand here."""
        accepted: set[str] = self._parser.accepts()
        return accepted

    @classmethod
    def behind(cls, text: str) -> _Place | None:
        """Return the place at the end of a text; None if the parser cannot follow the text."""
        from lark.exceptions import UnexpectedInput

        from omnigraph.lang.query.syntax.grammar import lark_parser
        from omnigraph.lang.query.syntax.parse_state import READING, Reading
        from omnigraph.lang.source import Source

        outer = READING.set(Reading(Source(text, None)))
        try:
            parser = lark_parser(builds=False).parse_interactive(text)
            parser.exhaust_lexer()
            return cls(parser)
        except (UnexpectedInput, OmniGraphError):
            return None
        finally:
            READING.reset(outer)

    def then(self, terminal: str) -> _Place:
        """Return the place behind a terminal that is accepted here."""
        from lark import Token as Read

        parser = self._parser.copy()
        parser.feed_token(Read(terminal, terminal))
        return _Place(parser)

    def takes_keyword(self, terminal: str) -> bool:
        """Return whether a keyword is accepted as such: most of them are names where a name can stand."""
        if terminal not in self.accepts:
            return False
        return "NAME" not in self.accepts or (
            self.then(terminal).accepts != self.then("NAME").accepts
        )

    def read(self) -> list[tuple[str, str]]:
        """Return the terminals, each with its text, of all that is not finished, innermost last."""
        stack = self._parser.parser_state.value_stack
        return [(str(each.type), str(each)) for each in stack if hasattr(each, "type")]

    def block(self) -> str | None:
        """Return the word that the innermost block begins with; None in the braces of a query itself."""
        known = {"MATCH", "RETURN", "HAVING", "ORDER", *_BLOCKS}
        words = [kind for kind, _ in self.read() if kind in known]
        return None if not words else "MATCH" if words[-1] in _BLOCKS else words[-1]


def _fitting(
    place: _Place, known: dict[str, str], variables: Sequence[Candidate], catalog: Catalog
) -> Iterator[Candidate]:
    """Yield what can stand at a place of a query."""
    if "NAME" in place.accepts:
        yield from _named(place.then("NAME"), known, catalog)
    if "TYPE" in place.accepts:
        yield from _typed(place.then("TYPE"), catalog)
    if "VAR" in place.accepts and "LBRACE" in dict(place.read()):  # elsewhere it is a new parameter
        yield from variables
    for terminal, text in KEYWORDS.items():
        if place.takes_keyword(terminal):
            yield Candidate(text, "keyword")
    if "FUNCTION" in place.accepts:
        for names, about in FUNCTIONS.get(place.then("FUNCTION").block() or "", []):
            yield from (Candidate(f"{name}(", about) for name in names)
    if "STRING" in place.accepts and place.read()[-1][0] in {"COLON", "COMPARE", "LESS", "GREATER"}:
        yield from (Candidate(text, "value") for text in VALUES)


def _named(behind: _Place, known: dict[str, str], catalog: Catalog) -> Iterator[Candidate]:
    """Yield what a name can be, by what it stands behind."""
    *before, _ = behind.read()
    kinds = [kind for kind, _ in before]
    if kinds[-1:] == ["DOT"]:
        yield from _properties(catalog, known.get(before[-2][1]))
    elif kinds[-1:] == ["VAR"]:
        yield from _edges(catalog, known.get(before[-1][1]))
    elif kinds[-3:] == ["VAR", "VAR", "COLON"]:
        yield from _edges(catalog, known.get(before[-3][1]))
    elif "TYPE" in kinds:
        entity = next(text for kind, text in reversed(before) if kind == "TYPE")
        sign = ": " if "COLON" in behind.accepts else ""
        for each in _properties(catalog, entity, ends=True):
            yield Candidate(f"{each.text}{sign}", each.about)


def _typed(behind: _Place, catalog: Catalog) -> Iterator[Candidate]:
    """Yield what a type can be: of a parameter, of a variable, or of what is written."""
    kinds = [kind for kind, _ in behind.read()]
    if "LBRACE" not in kinds:
        yield from (Candidate(scalar.value, "type") for scalar in Scalar)
        yield Candidate("Vector(", "type")
    elif kinds[-2] == "COLON":
        yield from _nodes(catalog)
    else:
        yield from _types(catalog)


# ------------------------------------------------------------------ names


def _types(catalog: Catalog) -> Iterator[Candidate]:
    yield from _nodes(catalog)
    yield from (Candidate(edge.name, _ends(edge)) for edge in catalog.edges.values())


def _nodes(catalog: Catalog) -> Iterator[Candidate]:
    yield from (Candidate(name, "node") for name in catalog.nodes)


def _edges(catalog: Catalog, node: str | None) -> Iterator[Candidate]:
    """Yield the edges that touch a node type, or all if it is not known, as queries spell them."""
    for edge in catalog.edges.values():
        if node is None or node in {edge.from_type, edge.to_type}:
            yield Candidate(edge.name[0].lower() + edge.name[1:], _ends(edge))


def _ends(edge: EdgeType) -> str:
    return f"{edge.from_type} -> {edge.to_type}"


def _properties(
    catalog: Catalog, type_name: str | None, *, ends: bool = False
) -> Iterator[Candidate]:
    """Yield the properties of a type, or of all types if it is not known."""
    for entity in (*catalog.nodes.values(), *catalog.edges.values()):
        if type_name not in {None, entity.name}:
            continue
        if ends and isinstance(entity, EdgeType):
            yield from (Candidate(end, "end of the edge") for end in ENDS)
        for prop in entity.properties.values():
            yield Candidate(prop.name, prop.type.display)
