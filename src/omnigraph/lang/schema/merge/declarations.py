"""Writes decided types as syntax trees, prints them, and finds the rules of the language they break."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

from omnigraph.errors import CatalogError, ParseError
from omnigraph.lang.schema.compile import compile_schema
from omnigraph.lang.schema.defaults import DEFAULT
from omnigraph.lang.schema.merge.by_identity import Member, NumberedRule
from omnigraph.lang.schema.merge.deciding import Decided, DecidedProperty, DecidedType
from omnigraph.lang.schema.resolve_shape import resolve
from omnigraph.lang.schema.shape import METRIC, METRICS, Annotation, Shape
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.schema.syntax.pieces import element_of
from omnigraph.lang.schema.syntax.printer import render
from omnigraph.lang.source import Source
from omnigraph.types import PropType


def declaration(type_: DecidedType, decided: Decided) -> ast.Declaration:
    """The declaration of a decided type; what its interfaces give it is left to them."""
    written = _Written(type_, decided)
    name = ast.Name(type_.name)
    properties, constraints = written.properties(), written.constraints()
    if type_.kind == "interface":
        return ast.Interface(name, properties)
    notes = tuple(_annotation(each) for each in type_.annotations)
    if type_.kind == "node":
        names = sorted(decided[number].name for number in type_.implements if number in decided)
        implements = tuple(ast.Name(each) for each in names)
        return ast.Node(name, notes, implements, properties, constraints)
    from_type, to_type = (
        ast.Name(decided[number].name if number in decided else end)
        for number, end in zip(type_.ends, type_.end_names, strict=True)
    )
    card = type_.cardinality
    bounds = None
    if card is not None and (card.min, card.max) != (0, None):
        bounds = ast.Cardinality(card.min, card.max)
    return ast.Edge(name, from_type, to_type, bounds, notes, properties, constraints)


class _Written:
    """The members of one type: which of them it declares itself, and where its rules stand."""

    def __init__(self, type_: DecidedType, decided: Decided) -> None:
        self.type = type_
        self.given: dict[str, DecidedProperty] = {}
        inherited: set[tuple[str, str]] = set()
        for number in type_.implements:
            interface = decided.get(number)
            if interface is None:
                continue
            for prop in interface.properties.values():
                self.given[prop.name] = prop
            for rule in interface.rules:
                names = {interface.properties[cast("int", each)].name for each in rule.members}
                inherited.add((rule.kind, names.pop()))
        self.own = {
            number: prop for number, prop in type_.properties.items() if not self._is_given(prop)
        }
        self.rules = [
            rule
            for rule in type_.rules
            if not (len(rule.members) == 1 and (rule.kind, self._name(rule)) in inherited)
        ]

    def _is_given(self, prop: DecidedProperty) -> bool:
        given = self.given.get(prop.name)
        return (
            prop.is_injected
            and given is not None
            and (given.type, given.annotations) == (prop.type, prop.annotations)
        )

    def _name(self, rule: NumberedRule) -> str:
        (member,) = rule.members
        return self._member(member)

    def _member(self, member: Member) -> str:
        return self.type.properties[member].name if isinstance(member, int) else member

    def properties(self) -> tuple[ast.Property, ...]:
        return tuple(self._property(prop) for prop in self.own.values())

    def _property(self, prop: DecidedProperty) -> ast.Property:
        notes = [ast.Annotation(kind) for kind in ast.GROUP_KINDS if self._has(kind, prop.number)]
        if prop.embed is not None:
            model = prop.embed.model
            keywords = () if model is None else ((ast.Name("model"), _string(model)),)
            known = prop.embed.source in self.type.properties
            text = self._member(prop.embed.source) if known else prop.embed_name
            source = ast.Literal("word", text)
            notes.append(ast.Annotation("embed", source, keywords))
        notes += [_annotation(each, prop.type) for each in prop.annotations]
        return ast.Property(ast.Name(prop.name), prop.type, tuple(notes))

    def _has(self, kind: str, number: int) -> bool:
        return NumberedRule(kind, frozenset({number})) in self.rules

    def constraints(self) -> tuple[ast.Constraint, ...]:
        """The rules that do not stand on a property: over several, over ends, ranges, checks, a period."""
        found = []
        for rule in self.rules:
            alone = len(rule.members) == 1 and rule.value is None
            if not (alone and next(iter(rule.members)) in self.own):
                found.append(self._constraint(rule))
        order = {word: at for at, word in enumerate(ast.CONSTRAINT_WORDS)}
        return tuple(each for _, _, each in sorted(found, key=lambda one: (order[one[0]], one[1])))

    def _constraint(self, rule: NumberedRule) -> tuple[str, tuple[str, ...], ast.Constraint]:
        names = tuple(sorted(map(self._member, rule.members)))
        if rule.kind == "range":
            low, high = (_bound(each) for each in rule.value)
            texts = (*names, str(rule.value))
            return rule.kind, texts, ast.Range(ast.Name(names[0]), low, high)
        if rule.kind == "valid":
            since, until = map(self._member, rule.value)
            return rule.kind, (since, until), ast.Valid((ast.Name(since), ast.Name(until)))
        if rule.kind == "check":
            return rule.kind, (*names, rule.value), ast.Check(ast.Name(names[0]), rule.value)
        kind = cast("ast.GroupKind", rule.kind)
        return rule.kind, names, ast.Group(kind, tuple(map(ast.Name, names)))


def _annotation(stored: Annotation, type_: PropType | None = None) -> ast.Annotation:
    value = None if stored.value is None else _string(stored.value)
    if stored.name == DEFAULT and stored.value is not None and type_ is not None:
        value = _default(type_, stored.value)
    if stored.name == METRIC and stored.value in METRICS:
        value = ast.Literal("word", stored.value)
    keywords = tuple((ast.Name(name), _string(text)) for name, text in stored.keywords)
    return ast.Annotation(stored.name, value, keywords)


def _string(text: str) -> ast.Literal:
    return ast.Literal("string", text)


def _default(type_: PropType, stored: str) -> ast.Literal:
    """The literal of a default: texts, enum values and times are strings, all else is JSON."""
    if (type_.scalar.is_text or type_.scalar.is_temporal) and not type_.is_list:
        return _string(stored)
    return _literal(json.loads(stored, parse_float=Decimal))


def _literal(value: Any) -> ast.Literal:
    """The literal of a JSON value, as the parser makes it of the text."""
    if isinstance(value, list):
        return ast.Literal("list", "", items=tuple(map(_literal, value)))
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return ast.Literal("bool", "true" if value else "false")
    return ast.Literal("int" if isinstance(value, int) else "float", _number_text(value))


def _bound(value: float | None) -> ast.Bound | None:
    return None if value is None else ast.Bound(_number_text(value))


def _number_text(value: float | Decimal) -> str:
    """A number as the language writes it: digits, without an exponent."""
    if isinstance(value, int):
        return str(value)
    text = format(value if isinstance(value, Decimal) else Decimal(repr(value)), "f")
    return text if "." in text else f"{text}.0"


# Compiling


class BrokenElement(NamedTuple):
    """An element, the rule of the language that it breaks, and the compiler's message."""

    element: str
    rule: str
    message: str


class BrokenRules(Exception):
    """Declarations do not fit together."""

    def __init__(self, rules: Sequence[BrokenElement]) -> None:
        super().__init__(rules)
        self.rules = rules


def compile_declarations(trees: Iterable[ast.Declaration]) -> Shape:
    """The shape of declarations, or BrokenRules. Their order, and that of properties, has no effect."""
    ordered = sorted(map(_sorted, trees), key=element_of)
    empty = tuple(_empty_enums(ordered))
    try:
        # Of what the parser refuses, a merge can only make an enum without values.
        if not empty:
            return resolve(Source(""), ast.Schema(tuple(ordered)))
        found = dict.fromkeys(empty)
    except (CatalogError, ParseError) as error:
        found = {BrokenElement("schema", error.code, error.message): None}
    # The compiler stops at the first fault: look at each declaration by itself for the others.
    alone = dict.fromkeys([*empty, *_broken_alone(ordered, {rule.element for rule in empty})])
    raise BrokenRules(tuple(alone or dict.fromkeys(_broken_names(ordered)) or found))


def _empty_enums(trees: Iterable[ast.Declaration]) -> Iterator[BrokenElement]:
    """The properties whose enum lost every value, because each side removed others."""
    for tree in trees:
        for prop in tree.properties:
            if prop.type.enum_values == ():
                yield BrokenElement(
                    f"{element_of(tree)}.{prop.name.text}",
                    ParseError.code,
                    "no value is left in its enum, because each side removed others",
                )


def _broken_alone(
    trees: Sequence[ast.Declaration], known_faults: Iterable[str]
) -> Iterator[BrokenElement]:
    """The faults of each declaration among the interfaces and node types that it names, less the faulty ones."""
    known = {element_of(tree): tree for tree in trees}
    faulty = {element.partition(".")[0] for element in known_faults}
    for tree in trees:
        named: list[ast.Declaration] = []
        if isinstance(tree, ast.Node):
            named = [known[f"interface:{name.text}"] for name in tree.implements]
        elif isinstance(tree, ast.Edge):
            ends = sorted({tree.from_type.text, tree.to_type.text})
            named = [ast.Node(ast.Name(name)) for name in ends if f"node:{name}" in known]
        if faulty.isdisjoint(map(element_of, [tree, *named])):
            found = list(_faults(named, tree))
            faulty |= {element_of(tree) for _ in found}
            yield from found


def _broken_names(trees: Sequence[ast.Declaration]) -> Iterator[BrokenElement]:
    """The edge types that are one name without regard to case."""
    edges = [ast.Edge(tree.name, _END, _END) for tree in trees if isinstance(tree, ast.Edge)]
    for at, edge in enumerate(edges):
        same = [other for other in edges[:at] if other.name.text.lower() == edge.name.text.lower()]
        if same:
            yield from _faults([ast.Node(_END), *same], edge)


_END = ast.Name("End")


def _faults(named: Sequence[ast.Declaration], tree: ast.Declaration) -> Iterator[BrokenElement]:
    before, text = render(ast.Schema(tuple(named))), render(ast.Schema((tree,)))
    try:
        compile_schema(f"{before}\n{text}")
    except (CatalogError, ParseError) as error:
        start = 0 if error.span is None else error.span.start - len(before) - 1
        line = text[text.rfind("\n", 0, max(start, 0)) + 1 :]
        member = _PROPERTY_LINE.match(line)
        element = element_of(tree) + ("" if member is None else f".{member[1]}")
        yield BrokenElement(error.details.get("entity") or element, error.code, error.message)


_PROPERTY_LINE = re.compile(r"\s+(\w+):")


def _sorted(tree: ast.Declaration) -> ast.Declaration:
    return replace(tree, properties=tuple(sorted(tree.properties, key=lambda each: each.name.text)))
