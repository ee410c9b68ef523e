"""What can stand at the cursor: types, properties, edges, variables, keywords, dot commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from omnigraph.cli.shell.dots import DOTS
from omnigraph.cli.shell.place import Block, Place, find_place, statement_type
from omnigraph.cli.shell.statements import TAKES_QUERY, split_dot
from omnigraph.cli.shell.tokens import Kind, Token, meaningful
from omnigraph.cli.shell.variables import described, variable_types
from omnigraph.lang.query.syntax.ast import AGGREGATES, RANKINGS, TEXT_CALLS
from omnigraph.lang.schema.catalog import Catalog, EdgeType
from omnigraph.types import Scalar

WRITES = ("insert", "update", "delete")
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
    before = text[:cursor]
    found = meaningful(before)
    if any(token.is_open for token in found):
        return cursor, []  # inside of a string
    partial = ""
    if (
        found
        and found[-1].end == cursor
        and found[-1].kind in {Kind.WORD, Kind.TYPE, Kind.VARIABLE}
    ):
        partial = found.pop().text
    others = [token for token in meaningful(text) if token.end != cursor]
    known = variable_types(meaningful(text), names.catalog)
    variables = [Candidate(*one) for one in described(others, known).items()]
    candidates = _in_query(find_place(found), partial, known, variables, names.catalog)
    return cursor - len(partial), _starting(partial, candidates)


def _starting(partial: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that begin with what is typed, ignoring case, each once."""
    fitting = {
        one.text: one
        for one in candidates
        if one.text.lower().startswith(partial.lower()) and one.text != partial
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


def _in_query(
    place: Place,
    partial: str,
    known: dict[str, str],
    variables: Sequence[Candidate],
    catalog: Catalog,
) -> Iterator[Candidate]:
    """Yield what can stand at a place of a query."""
    last = place.last
    if last is not None and last.text == "." and len(place.inside) > 1:
        yield from _properties(catalog, known.get(place.inside[-2].text))
    elif place.block is Block.NONE:
        if last is None or last.text in {"}", ";"}:
            yield Candidate("query ", "a read or a mutation")
    elif partial.startswith("$"):
        if place.block is not Block.PARAMETERS:
            yield from variables
    elif place.block is Block.PARAMETERS:
        if last is not None and last.text in {":", "["}:
            yield from (Candidate(scalar.value, "type") for scalar in Scalar)
            yield Candidate("Vector(", "type")
    elif place.block is Block.BODY:
        yield from _in_body(place, catalog)
    elif place.block is Block.MATCH:
        yield from _in_match(place, known, variables, catalog)
    elif place.block is Block.ENTRIES:
        yield from _in_entries(place, variables, catalog)
    elif place.block in {Block.RETURN, Block.ORDER}:
        yield from _in_output(place, variables)


def _in_body(place: Place, catalog: Catalog) -> Iterator[Candidate]:
    """Yield what can stand directly in the braces of a query."""
    words = [token.text for token in place.inside if token.kind is Kind.WORD]
    last = place.last
    if last is None:
        yield from _keywords("match {", "insert ", "update ", "delete ")
    elif last.text in WRITES:
        yield from _types(catalog)
    elif last.kind is Kind.TYPE:
        yield from _keywords(*{"update": ["set {"], "delete": ["where "]}.get(words[-1], []))
    elif last.text == "where":
        yield from _properties(catalog, statement_type(place), ends=True)
    elif last.text == "}":
        after = {
            "match": ["return {"],
            "return": ["order {", "limit "],
            "order": ["limit "],
            "set": ["where "],
            "insert": ["insert ", "update "],
        }
        yield from _keywords(*after.get(words[-1], []))


def _in_match(
    place: Place, known: dict[str, str], variables: Sequence[Candidate], catalog: Catalog
) -> Iterator[Candidate]:
    """Yield what can stand in a match or a not."""
    last, inside = place.last, place.inside
    if last is not None and last.text == ":":
        source = inside[:-2]  # `$source $edge:` names an edge, `$node:` a node
        is_edge = bool(source) and source[-1].kind is Kind.VARIABLE and not _is_target(source)
        yield from _edges(catalog, known.get(source[-1].text)) if is_edge else _nodes(catalog)
    elif last is not None and last.kind is Kind.VARIABLE and not _is_target(inside):
        yield from _edges(catalog, known.get(last.text))
        yield from _keywords("contains ", "starts_with ")
    else:
        yield from variables
        yield from _keywords("not {")
        yield from (Candidate(f"{name}(", "text search") for name in TEXT_CALLS)


def _is_target(inside: Sequence[Token]) -> bool:
    """Return whether the last variable is the right side of a traversal or comparison."""
    before = list(inside[:-1])
    if before and before[-1].text == "}":
        before = before[:-2]  # the braces of hops, of entries or of a `not`
        return bool(before) and before[-1].kind is Kind.WORD and before[-1].text != "not"
    if not before:
        return False
    if before[-1].kind is Kind.WORD:
        is_property = len(before) > 1 and before[-2].text == "."
        return not is_property and before[-1].text not in {"true", "false"}
    return before[-1].kind is Kind.SIGN and before[-1].text not in {")", "]"}


def _in_entries(
    place: Place, variables: Sequence[Candidate], catalog: Catalog
) -> Iterator[Candidate]:
    last = place.last
    if last is not None and last.text == ":":
        yield from variables
        yield from _keywords(*VALUES)
    elif last is None or last.text == ",":
        for one in _properties(catalog, place.type_name, ends=True):
            yield Candidate(f"{one.text}: ", one.about)


def _in_output(place: Place, variables: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield what can stand in a return or an order."""
    yield from variables
    yield from (Candidate(f"{name}(", "aggregate") for name in AGGREGATES)
    if place.block is Block.ORDER:
        yield from (Candidate(f"{name}(", "ranking") for name in RANKINGS)
        yield from _keywords("asc", "desc")
    else:
        yield from _keywords("as ")


# ------------------------------------------------------------------ names


def _keywords(*words: str) -> Iterator[Candidate]:
    yield from (Candidate(word, "keyword") for word in words)


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
    types = (catalog.nodes.get(type_name or ""), catalog.edges.get(type_name or ""))
    found = [one for one in types if one is not None]
    if type_name is None:
        found = [*catalog.nodes.values(), *catalog.edges.values()]
    for entity in found:
        if ends and isinstance(entity, EdgeType):
            yield from (Candidate(end, "end of the edge") for end in ENDS)
        for prop in entity.properties.values():
            yield Candidate(prop.name, prop.type.display)
