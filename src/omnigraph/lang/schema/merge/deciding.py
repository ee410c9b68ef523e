"""A merge while it decides: the three schemas, the words and the conflicts; and what it decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from omnigraph.lang.schema.merge.attributes import Undecided
from omnigraph.lang.schema.merge.by_identity import (
    NumberedEmbed,
    NumberedRule,
    PropertyView,
    SchemaView,
    TypeView,
)
from omnigraph.lang.schema.merge.conflicts import ElementConflict, divergent, drop_vs_change
from omnigraph.lang.schema.merge.join_added import JoinedSchemas
from omnigraph.lang.schema.merge.resolution_words import Words, theirs_is_gone
from omnigraph.lang.schema.merge.sides import OTHER, DataChange, DataChanged, Side
from omnigraph.lang.schema.shape import Annotation, Cardinality, Kind
from omnigraph.types import PropType

Value = TypeVar("Value")


@dataclass(slots=True)
class DecidedProperty:
    """A property of the merged schema; an injected one is declared by an interface."""

    number: int
    name: str
    type: PropType
    annotations: tuple[Annotation, ...]
    embed: NumberedEmbed | None
    embed_name: str = ""
    """The name of the embedded property, for the case that the merged type lacks it."""
    is_injected: bool = False


@dataclass(slots=True)
class DecidedType:
    """A type of the merged schema. Properties are in the order of the target, then of the source."""

    number: int
    kind: Kind
    name: str
    annotations: tuple[Annotation, ...]
    implements: frozenset[int]
    ends: tuple[int, ...]
    cardinality: Cardinality | None
    end_names: tuple[str, ...] = ()
    """The names of the ends, for the case that the merged schema lacks them."""
    properties: dict[int, DecidedProperty] = field(default_factory=dict)
    rules: frozenset[NumberedRule] = frozenset()


Decided = dict[int, DecidedType]
"""The types of the merged schema by number."""


@dataclass(frozen=True, slots=True)
class Versions:
    """One type in the three schemas; None where a schema lacks it."""

    base: TypeView | None
    source: TypeView | None
    target: TypeView | None

    def side(self, side: Side) -> TypeView | None:
        """The type of one side."""
        return self.source if side == "source" else self.target

    @property
    def there(self) -> TypeView:
        """The type of the target, else of the source."""
        found = self.target or self.source
        assert found is not None
        return found

    @property
    def known(self) -> TypeView:
        """The type whose names conflicts show: that of the base, else of the target or the source."""
        return self.base or self.there

    def of_property(self, number: int) -> tuple[PropertyView | None, ...]:
        """A property in the three schemas: base, source, target."""
        return tuple(
            None if type_ is None else type_.properties.get(number)
            for type_ in (self.base, self.source, self.target)
        )


@dataclass(slots=True)
class Deciding:
    """What all decisions share."""

    schemas: JoinedSchemas
    words: Words
    data: DataChanged
    names: Mapping[Side, str]
    conflicts: list[ElementConflict] = field(default_factory=list)
    unresolved: set[int] = field(default_factory=set)
    """Elements whose fate or name is not decided; they take no part in clashes."""

    def versions(self, number: int) -> Versions:
        """A type in the three schemas."""
        schemas = self.schemas
        return Versions(
            schemas.base.types.get(number),
            schemas.source.types.get(number),
            schemas.target.types.get(number),
        )

    def side(self, side: Side) -> SchemaView:
        """The schema of one side."""
        return self.schemas.side(side)

    def element(self, number: int) -> str:
        """How conflicts name a type: as in the base, if it is there."""
        return self.versions(number).known.element

    def property_element(self, versions: Versions, number: int) -> str:
        """How conflicts name a property: as in the base, if it is there."""
        base, source, target = versions.of_property(number)
        found = base or target or source
        assert found is not None
        return f"{versions.known.element}.{found.name}"

    def choose(
        self,
        element: str,
        attribute: str,
        values: tuple[Value, Value, Value],
        merged: Value | Undecided,
        show: Callable[[Value], str | None],
    ) -> tuple[Value, bool]:
        """The merged value, or the one that a word takes of base, source and target.

        The second is whether it is decided; an undecided value is the target's for the time being.
        """
        if not isinstance(merged, Undecided):
            return merged, True
        base, source, target = values
        word = self.words.decide(element)
        if word is None:
            texts = {"base": show(base), "source": show(source), "target": show(target)}
            self.conflicts.append(divergent(element, attribute, texts, self.names))
        return (source if word == "theirs" else target), word is not None

    def keep(
        self,
        number: int,
        element: str,
        dropped_by: Side,
        changed: Iterable[str],
        data: DataChange,
    ) -> bool:
        """Whether an element stays that one side dropped and the other changed or uses."""
        words = {*changed, *(("data",) if data.rows else ())}
        if not words:
            return False
        word = self.words.decide(element)
        if word is None:
            self.conflicts.append(drop_vs_change(element, dropped_by, words, data, self.names))
            self.unresolved.add(number)
            return True
        if dropped_by == "target":
            if word == "theirs":
                raise theirs_is_gone(element)
            return False
        return word == "ours"

    def data_of(self, dropped_by: Side, type_: TypeView, prop: PropertyView | None) -> DataChange:
        """What the other side wrote into an element that one side dropped."""
        return self.data(OTHER[dropped_by], type_.ir, None if prop is None else prop.name)
