"""Of which type each variable of a query text is, as far as the text says; half a query has no syntax tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from omnigraph.cli.shell.statements import Kind, ShellToken
from omnigraph.lang.schema.catalog import Catalog


class WrittenHop(NamedTuple):
    """A traversal as written: `$source [$edge:] word [{1,2}] $target`."""

    source: str
    word: str
    target: str
    edge: str | None


def variable_types(tokens: Sequence[ShellToken], catalog: Catalog) -> dict[str, str]:
    """Return the node or edge type of each variable whose type follows from the text."""
    known = {name: bound for name, bound in _bindings(tokens) if bound in catalog.nodes}
    for hop in _hops(tokens):
        edge = catalog.edge(hop.word)
        if edge is None:
            continue
        ends = (edge.from_type, edge.to_type)
        # An edge may be followed against its direction where only that fits.
        is_backward = known.get(hop.source) == edge.to_type != edge.from_type
        source, target = reversed(ends) if is_backward else ends
        known.setdefault(hop.source, source)
        known.setdefault(hop.target, target)
        if hop.edge is not None:
            known[hop.edge] = edge.name
    return known


def described(tokens: Sequence[ShellToken], known: dict[str, str]) -> dict[str, str]:
    """Return every variable and parameter of a text with its type, or with nothing."""
    written = dict(_bindings(tokens))
    names = (token.text for token in tokens if token.kind is Kind.VARIABLE and token.text != "$")
    return {name: known.get(name) or written.get(name, "") for name in names}


def _bindings(tokens: Sequence[ShellToken]) -> Iterator[tuple[str, str]]:
    """Yield each `$variable: Type`, also of parameters."""
    for at, token in enumerate(tokens[:-2]):
        colon, name = tokens[at + 1], tokens[at + 2]
        if token.kind is Kind.VARIABLE and colon.text == ":" and name.kind is Kind.TYPE:
            yield token.text, name.text


def _hops(tokens: Sequence[ShellToken]) -> Iterator[WrittenHop]:
    """Yield the traversals in the text."""
    for at, token in enumerate(tokens):
        if token.kind is Kind.VARIABLE:
            hop = _hop_at(tokens, at)
            if hop is not None:
                yield hop


def _hop_at(tokens: Sequence[ShellToken], at: int) -> WrittenHop | None:
    rest = tokens[at : at + 12]
    source, edge, rest = rest[0].text, None, rest[1:]
    if [token.kind for token in rest[:1]] == [Kind.VARIABLE] and _texts(rest, 1, 2) == [":"]:
        edge, rest = rest[0].text, rest[2:]
    if _texts(rest, 0, 1) == ["<"] and _texts(rest, 2, 3) == [">"]:
        rest = [rest[1], *rest[3:]]
    if not rest or rest[0].kind is not Kind.WORD:
        return None
    word, rest = rest[0].text, rest[1:]
    if _texts(rest, 0, 1) == ["{"]:
        closing = next((n for n, token in enumerate(rest) if token.text == "}"), len(rest))
        rest = rest[closing + 1 :]
    if not rest or rest[0].kind is not Kind.VARIABLE:
        return None
    return WrittenHop(source, word, rest[0].text, edge)


def _texts(tokens: Sequence[ShellToken], start: int, end: int) -> list[str]:
    return [token.text for token in tokens[start:end]]
