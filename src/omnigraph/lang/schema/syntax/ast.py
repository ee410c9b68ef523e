"""The syntax tree of a `.pg` source. Spans take no part in equality."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import get_args

from omnigraph.spans import Span
from omnigraph.types import PropType

NOWHERE = Span(0, 1, 1, 1)

LiteralKind = OneOf["string", "int", "float", "bool", "word", "list"]
GroupKind = OneOf["key", "unique", "index"]

GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)
CONSTRAINT_WORDS = (*GROUP_KINDS, "range", "check", "valid")


@dataclass(frozen=True, slots=True)
class Name:
    """A name and where it stands."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """An argument of an annotation: a string's value, or any other word as written.

    ``items`` are those of a list, whose ``text`` is empty.
    """

    kind: LiteralKind
    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    items: tuple[Literal, ...] = ()


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name`, `@name(value)` or `@name(value, keyword=literal)`."""

    name: str
    value: Literal | None = None
    keywords: tuple[tuple[Name, Literal], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Property:
    """`name: type` with its annotations."""

    name: Name
    type: PropType
    annotations: tuple[Annotation, ...] = ()
    type_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Group:
    """`@key(a, b)`, `@unique(a, b)` or `@index(a, b)` in a body."""

    kind: GroupKind
    members: tuple[Name, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a `@range`: the number as written, without white space."""

    text: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Range:
    """`@range(property, min..max)`; at least one bound is given."""

    property: Name
    min: Bound | None
    max: Bound | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Check:
    """`@check(property, "pattern")`."""

    property: Name
    pattern: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    pattern_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Valid:
    """`@valid(since, until)`; other numbers of members are refused once the type is known."""

    members: tuple[Name, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Constraint = Group | Range | Check | Valid


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`@card(min..max)`; `max` is None when left open."""

    min: int
    max: int | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Interface:
    """`interface Name { … }`."""

    name: Name
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """`node Name @… implements A, B { … }`."""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """`edge Name: From -> To @card(…) @… { … }`."""

    name: Name
    from_type: Name
    to_type: Name
    cardinality: Cardinality | None = None
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()


Declaration = Interface | Node | Edge


@dataclass(frozen=True, slots=True)
class Schema:
    """A `.pg` source."""

    declarations: tuple[Declaration, ...] = ()

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interface declarations, as written."""
        return tuple(d for d in self.declarations if isinstance(d, Interface))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The node declarations, as written."""
        return tuple(d for d in self.declarations if isinstance(d, Node))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edge declarations, as written."""
        return tuple(d for d in self.declarations if isinstance(d, Edge))
