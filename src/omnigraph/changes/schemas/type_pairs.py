"""The types of two snapshots side by side, each with the properties its side declares, under one set of names.

Names are those of the current schema, else those of the side after, else those of the side before. For
example, of ``Ship {tonnage, flag}`` before and ``Ship {gross, built}`` after, where tonnage was renamed to
gross, flag dropped and built added, the sides are ``{gross, flag}`` and ``{gross, built}``: gross is
compared, a value of built makes a change, and flag is only shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from omnigraph.changes.change_filter import KINDS, Kind
from omnigraph.changes.schemas.two_schemas import TwoSchemas
from omnigraph.lang.schema.catalog import Catalog, Entity, NodeType, Property
from omnigraph.lang.schema.joins import Joins
from omnigraph.lang.schema.shape import Embed

TypeId = tuple[Kind, int]
"""`node` or `edge`, and the incarnation of the table: one type for ever, whatever its name is."""

HIDDEN = "\0"
"""Ends the name of a property that images leave out, because another one has its name."""


class Compared(NamedTuple):
    """By which properties rows of two sides are compared, under their shown names.

    ``added_before`` and ``added_after`` are declared on that side only, where they were added: a value
    is a difference. ``any_row``: every row may differ, whatever was written since: the vectors of another
    `@embed` were taken out.
    """

    shared: tuple[str, ...]
    added_before: tuple[str, ...] = ()
    added_after: tuple[str, ...] = ()
    any_row: bool = False


@dataclass(frozen=True, slots=True)
class TypePair:
    """One type on two sides. A side that does not have it has the form of the other, and no rows."""

    type_id: TypeId
    before: Entity
    after: Entity
    compared: Compared | None = None
    """None: both sides declare the same."""

    @property
    def kind(self) -> Kind:
        """`node` or `edge`."""
        return self.type_id[0]

    @property
    def name(self) -> str:
        """The name it is shown by."""
        return self.after.name

    @property
    def rank(self) -> tuple[int, str]:
        """Where the type is in the order of a diff; one that was dropped and added again is there twice."""
        return rank_of(self.kind, self.name)


def rank_of(kind: Kind, name: str) -> tuple[int, str]:
    """Return where a type is in the order of a diff: nodes before edges, then by name."""
    return KINDS.index(kind), name


def types_of(catalog: Catalog, joins: Joins | None = None) -> dict[TypeId, Entity]:
    """Return the types of a schema by their identity; joined ones by the one that stands for all."""
    found: dict[TypeId, Entity] = {}
    for entity in catalog.entities():
        kind: Kind = "node" if isinstance(entity, NodeType) else "edge"
        number = entity.table_incarnation_id
        found[kind, number if joins is None else joins.one(number)] = entity
    return found


def shown_properties(entity: Entity) -> Iterator[tuple[str, Property]]:
    """Yield the properties that images have."""
    return ((name, prop) for name, prop in entity.properties.items() if not name.endswith(HIDDEN))


def one_schema(type_id: TypeId, then: Entity, now: Entity | None) -> TypePair:
    """Return a type that both sides declare alike, under the names it has now."""
    entity = under_current_names(then, now)
    return TypePair(type_id, entity, entity)


def under_current_names(then: Entity, now: Entity | None) -> Entity:
    """Return a type with the properties it had then, under the names it and they have now.

    A name that a dropped property had, and another one has now, cannot mean both: such a type keeps
    the names of then for all its properties.
    """
    if now is None or now is then:
        return then
    current = {
        number: name
        for name, prop in now.properties.items()
        for number in (prop.property_id, *prop.joined_ids)
    }
    names = {name: current.get(prop.property_id, name) for name, prop in then.properties.items()}
    if len(set(names.values())) < len(names):
        return replace(then, name=now.name)
    return renamed(then, now.name, names)


def renamed(entity: Entity, name: str, names: Mapping[str, str]) -> Entity:
    """Return a type under another name, with other names of its properties."""
    properties = {
        names[old]: replace(prop, name=names[old]) for old, prop in entity.properties.items()
    }
    if isinstance(entity, NodeType):
        key = None if entity.key is None else tuple(names[one] for one in entity.key)
        return replace(entity, name=name, properties=properties, key=key)
    return replace(entity, name=name, properties=properties)


def two_sided(
    type_id: TypeId,
    before: Entity | None,
    after: Entity | None,
    now: Entity | None,
    schemas: TwoSchemas,
) -> TypePair:
    """Return a type of two schemas, of which at least one declares it."""
    names = _Names(schemas.joins, now, after, before)
    if before is None or after is None:
        there = after if before is None else before
        assert there is not None
        shown = renamed(there, names.of_type, names.of_side(there, ()))
        return TypePair(type_id, shown, shown)
    sides = []
    for entity, other, other_schema in (
        (before, after, schemas.after),
        (after, before, schemas.before),
    ):
        lone = names.lone(entity, other)
        dropped = {
            name
            for name in lone
            if schemas.has_dropped(other_schema, entity.properties[name].property_id)
        }
        shown_names = names.of_side(entity, dropped, other)
        added = tuple(shown_names[name] for name in lone if name not in dropped)
        sides.append((renamed(entity, names.of_type, shown_names), added, lone, shown_names))
    (old, added_before, lone, old_names), (new, added_after, _, _) = sides
    shared = tuple(old_names[name] for name in before.properties if name not in lone)
    any_row = names.has_other_embeds(before, after)
    return TypePair(type_id, old, new, Compared(shared, added_before, added_after, any_row))


class _Names:
    """The names that a type and its properties are shown by, from its forms in the order of preference."""

    def __init__(self, joins: Joins, now: Entity | None, *forms: Entity | None) -> None:
        self._joins = joins
        there = [form for form in (now, *forms) if form is not None]
        self.of_type = there[0].name
        self._current = set() if now is None else {self._number(p) for p in _properties(now)}
        self._names: dict[int, str] = {}
        for form in there:
            for prop in _properties(form):
                self._names.setdefault(self._number(prop), prop.name)

    def _number(self, prop: Property) -> int:
        return self._joins.one(prop.property_id)

    def lone(self, entity: Entity, other: Entity) -> list[str]:
        """The properties that one side declares and the other does not."""
        theirs = {self._number(prop) for prop in _properties(other)}
        return [prop.name for prop in _properties(entity) if self._number(prop) not in theirs]

    def has_other_embeds(self, before: Entity, after: Entity) -> bool:
        """Whether a vector of both sides is made of another property, or by another model."""
        bound = [
            {
                self._number(prop): self._binding(entity, prop.embed)
                for prop in _properties(entity)
                if prop.embed is not None
            }
            for entity in (before, after)
        ]
        return any(bound[0][number] != bound[1][number] for number in bound[0].keys() & bound[1])

    def _binding(self, entity: Entity, embed: Embed) -> tuple[int, str | None]:
        return self._number(entity.properties[embed.source]), embed.model

    def of_side(
        self, entity: Entity, dropped: Collection[str], other: Entity | None = None
    ) -> dict[str, str]:
        """The shown name of every property of a side by its own name.

        Of two properties of one name the one that both sides have, or the current schema, is shown. A
        property that the other side dropped is hidden also where another one has its name there.
        """
        theirs = {} if other is None else {self._number(p): p for p in _properties(other)}
        order = list(theirs)

        def rank(prop: Property) -> tuple[bool, bool, int]:
            number = self._number(prop)
            shared = number in theirs
            return not shared, number not in self._current, order.index(number) if shared else 0

        found: dict[str, str] = {}
        taken: set[str] = set()
        elsewhere = {self._names[number] for number in theirs}
        for prop in sorted(_properties(entity), key=rank):
            name = self._names[self._number(prop)]
            if prop.name in dropped and name in elsewhere:
                name += HIDDEN
            while name in taken:
                name += HIDDEN
            taken.add(name)
            found[prop.name] = name
        return found


def _properties(entity: Entity) -> Collection[Property]:
    return entity.properties.values()
