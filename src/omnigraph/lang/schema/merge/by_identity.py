"""A schema seen by identity: its types, properties and rules refer to each other by number.

The numbers are those that ``Joins`` gives, so the same element has one number in all schemas in play,
whatever it is called in each and whether it was joined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omnigraph.lang.schema.ir import Ir, TypeIr
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.shape import (
    Check,
    Constraint,
    Group,
    Kind,
    PropertyShape,
    Range,
    Valid,
)

Member = int | str
"""A property by number; `src` and `dst`, and what is no property of its type, by name."""


@dataclass(frozen=True, slots=True)
class NumberedRule:
    """A constraint over properties by number. ``value`` is what a range or a check says; of a period
    its members in their order."""

    kind: str
    members: frozenset[Member]
    value: Any = None


@dataclass(frozen=True, slots=True)
class NumberedEmbed:
    """An `@embed` whose source is a property by number."""

    source: Member
    model: str | None


@dataclass(frozen=True, slots=True)
class PropertyView:
    """A property of one schema. ``follows``: the interface properties it is injected from, if it is
    not declared on its own type."""

    number: int
    shape: PropertyShape
    embed: NumberedEmbed | None
    follows: frozenset[int]

    @property
    def name(self) -> str:
        """Its name in this schema."""
        return self.shape.name

    @property
    def is_injected(self) -> bool:
        """Whether an interface declares it, and not its own type."""
        return not self.shape.declared_directly


@dataclass(frozen=True, slots=True)
class TypeView:
    """A type of one schema."""

    number: int
    ir: TypeIr
    properties: dict[int, PropertyView]
    implements: frozenset[int]
    ends: tuple[int, ...]
    rules: frozenset[NumberedRule]

    @property
    def name(self) -> str:
        """Its name in this schema."""
        return self.ir.name

    @property
    def element(self) -> str:
        """Its name in this schema with its kind: `node:Ship`."""
        return self.ir.shape.entity

    def named(self, name: str) -> PropertyView | None:
        """The property of that name."""
        return next((each for each in self.properties.values() if each.name == name), None)


class SchemaView:
    """One schema by the numbers of some joins."""

    def __init__(self, ir: Ir, joins: Joins) -> None:
        self.ir = ir
        self.joins = joins

    @cached_property
    def types(self) -> dict[int, TypeView]:
        """All types by number."""
        return {self.joins.one(type_.type_id): self._type(type_) for type_ in self.ir}

    def of_kind(self, kind: Kind) -> list[TypeView]:
        """The types of one kind, by name."""
        return [self.types[self.joins.one(type_.type_id)] for type_ in self.ir.of_kind(kind)]

    def _type(self, type_: TypeIr) -> TypeView:
        shape = type_.shape
        properties = [self._property(type_, prop) for prop in shape.properties]
        return TypeView(
            self.joins.one(type_.type_id),
            type_,
            {each.number: each for each in properties},
            frozenset(self._number("interface", name) for name in shape.implements),
            tuple(self._number("node", name) for name in shape.endpoints or ()),
            frozenset(self._rule(type_, each) for each in _constraints(type_)),
        )

    def _number(self, kind: Kind, name: str) -> int:
        found = self.ir.type(kind, name)
        assert found is not None
        return self.joins.one(found.type_id)

    def _property(self, type_: TypeIr, prop: PropertyShape) -> PropertyView:
        embed = prop.embed
        follows: frozenset[int] = frozenset()
        if not prop.declared_directly:
            owners = [self.ir.type("interface", name) for name in prop.satisfies]
            follows = frozenset(
                self.joins.one(owner.property_ids[prop.name]) for owner in owners if owner
            )
        return PropertyView(
            self.joins.one(type_.property_ids[prop.name]),
            prop,
            None
            if embed is None
            else NumberedEmbed(self._member(type_, embed.source), embed.model),
            follows,
        )

    def _member(self, type_: TypeIr, name: str) -> Member:
        found = type_.member_id(name)
        return self.joins.one(found) if isinstance(found, int) else found

    def _rule(self, type_: TypeIr, constraint: Constraint) -> NumberedRule:
        match constraint:
            case Group(kind, names):
                return NumberedRule(kind, frozenset(self._member(type_, name) for name in names))
            case Range(name, low, high):
                return NumberedRule("range", frozenset({self._member(type_, name)}), (low, high))
            case Check(name, pattern):
                return NumberedRule("check", frozenset({self._member(type_, name)}), pattern)
            case Valid(since, until):
                members = (self._member(type_, since), self._member(type_, until))
                return NumberedRule("valid", frozenset(members), members)


def _constraints(type_: TypeIr) -> list[Constraint]:
    """The constraints of a type; of an interface those that its properties imply."""
    implied = [
        Group(kind, (prop.name,)) for prop in type_.shape.properties for kind in prop.markers
    ]
    return [*type_.shape.constraints, *implied]
