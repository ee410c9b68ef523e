"""The merge of three schemas, element by element and attribute by attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from tests.histories.schemas.plain_changes import (
    allows,
    as_if,
    differs,
    property_changes,
    type_changes,
)
from tests.histories.schemas.plain_joins import joins, one_of_each, renumbered
from tests.histories.schemas.plain_schema import (
    KINDS,
    Prop,
    Schema,
    State,
    Type,
    broken_rules,
    with_injected,
)

Conflict = tuple[Any, ...]
OPEN = object()
"""The value of an attribute that both sides changed differently."""


class Refused(Exception):
    """A word of `resolve_schema` that cannot be followed."""


class Unsure(Exception):
    """A case that the model does not know: a type keeps by a word what its interface has lost."""


def _value(base: Any, source: Any, target: Any) -> Any:
    if source in (base, target):
        return target
    return source if target == base else OPEN


def _set(base: Any, source: Any, target: Any) -> Any:
    return (base & source & target) | (source - base) | (target - base)


@dataclass
class Schemas:
    """One merge of schemas."""

    base_: State
    source_: State
    target_: State
    words: Any = None
    conflicts: set[Conflict] = field(default_factory=set)
    decided: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    undecided: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        sides = (self.base_, self.source_, self.target_)
        self.pairs = joins(*(each.schema for each in sides))
        self.one = one_of_each(self.pairs)
        self.base, self.source, self.target = (renumbered(each, self.one) for each in sides)

    def run(self) -> Schema | None:
        """The merged schema by single numbers; None if there are conflicts."""
        source, target = self.source.schema, self.target.schema
        kept: dict[str, list[int]] = {}
        users: list[Type] = []
        for kind in reversed(KINDS):
            kept[kind] = [
                number
                for number in dict.fromkeys(target.of_kind(kind) + source.of_kind(kind))
                if self._type_stays(number, users)
            ]
            free = [number for number in kept[kind] if number not in self.undecided]
            users = [target.types.get(number) or source.types[number] for number in free]
        types: dict[int, Type] = {}
        for kind in KINDS:
            for number in kept[kind]:
                types[number] = self._type(number, types)
        self._find_clashes(types)
        unused = set(self.words) - self.asked if isinstance(self.words, Mapping) else set()
        if unused:
            raise Refused(unused)
        if self.conflicts:
            return None
        merged = Schema(with_injected(types))
        self.conflicts = {("schema_invalid", element) for element in broken_rules(merged)}
        return None if self.conflicts else merged

    def _word(self, element: str) -> str | None:
        self.asked.add(element)
        word = self.words.get(element) if isinstance(self.words, Mapping) else self.words
        if word is not None:
            self.decided.add(element)
        return word

    def _lacks_and_dropped(self, side: Schema, number: int) -> bool:
        base = self.base.schema
        return number in base.numbers or (number in side.dropped and number not in base.dropped)

    def _keep(
        self, number: int, element: str, dropped_by: str, changed: set[str], rows: list[str]
    ) -> bool:
        changed = changed | ({"data"} if rows else set())
        if not changed:
            return False
        word = self._word(element)
        if word is None:
            shown_rows = tuple(sorted(rows)[:20])
            self.conflicts.add(
                (
                    "schema_drop_vs_change",
                    element,
                    dropped_by,
                    tuple(sorted(changed)),
                    len(rows),
                    shown_rows,
                )
            )
            self.undecided.add(number)
            return True
        if dropped_by == "target":
            if word == "theirs":
                raise Refused(element)
            return False
        return word == "ours"

    def _type_stays(self, number: int, users: list[Type]) -> bool:
        base, source, target = (
            each.schema.types.get(number) for each in (self.base, self.source, self.target)
        )
        if source is not None and target is not None:
            return True
        side, other = (self.source, self.target) if source is None else (self.target, self.source)
        if not self._lacks_and_dropped(side.schema, number):
            return True
        there = other.schema.types[number]
        changed = {
            user.element for user in users if number in {*(user.ends or ()), *user.implements}
        }
        if base is not None:
            changed |= type_changes(base, there)
        element = (base or there).element
        was = as_if(self.base, other.schema)
        rows = [
            key[1]
            for key, row in other.rows.items()
            if key[0] == number and differs(was.rows.get(key), row, there)
        ]
        return self._keep(number, element, "source" if source is None else "target", changed, rows)

    def _type(self, number: int, interfaces: Mapping[int, Type]) -> Type:
        base, source, target = (
            each.schema.types.get(number) for each in (self.base, self.source, self.target)
        )
        there = target or source
        assert there is not None
        props = self._properties(number, (base, source, target), interfaces)
        if source is None or target is None:
            return replace(there, props=props)
        element = (base or target).element

        def choose(attribute: str, merge: Any = _value, absent: Any = None) -> Any:
            values = [
                absent if each is None else getattr(each, attribute)
                for each in (base, source, target)
            ]
            return self._choose(number, element, attribute, values, merge(*values))

        return replace(
            target,
            name=choose("name"),
            description=choose("description"),
            card=self._choose(
                number,
                element,
                "cardinality",
                [None if each is None else each.card for each in (base, source, target)],
                _cardinality(None if base is None else base.card, source.card, target.card),
            ),
            props=props,
        )

    def _properties(
        self,
        number: int,
        types: tuple[Type | None, Type | None, Type | None],
        interfaces: Mapping[int, Type],
    ) -> dict[int, Prop]:
        """The properties of a merged type; those that vectors are made of come after the vectors."""
        _, source, target = types
        there = target or source
        assert there is not None
        given = {
            each: prop
            for one in there.implements
            if one in interfaces
            for each, prop in interfaces[one].props.items()
        }
        forms = [each for each in (target, source) if each is not None]
        order = list(dict.fromkeys(each for form in forms for each in form.props))
        found: dict[int, Prop] = {}
        for each in sorted(
            order, key=lambda each: not any(f.props[each].embed for f in forms if each in f.props)
        ):
            prop = self._property(number, each, types, given, found)
            if prop is not None:
                found[each] = prop
        return found

    def _choose(
        self, number: int, element: str, attribute: str, values: list[Any], merged: Any
    ) -> Any:
        if merged is not OPEN:
            return merged
        word = self._word(element)
        if word is None:
            self.conflicts.add(("divergent_schema", element, attribute))
            if attribute == "name":
                self.undecided.add(number)
        return values[1] if word == "theirs" else values[2]

    def _property(
        self,
        type_number: int,
        number: int,
        types: tuple[Type | None, Type | None, Type | None],
        given: Mapping[int, Prop],
        found: Mapping[int, Prop],
    ) -> Prop | None:
        base, source, target = (None if each is None else each.props.get(number) for each in types)
        there = target or source
        assert there is not None
        known = types[0] or types[2] or types[1]
        assert known is not None
        element = f"{known.element}.{(base or there).name}"
        if there.follows is not None:
            if there.follows in given:
                return replace(given[there.follows], follows=there.follows)
        elif source is not None and target is not None:
            return self._both(number, element, base, source, target)
        side, other = (self.source, self.target) if source is None else (self.target, self.source)
        if there.follows is None and (
            None in types[1:] or not self._lacks_and_dropped(side.schema, number)
        ):
            return there
        changed = set()
        if there.follows is None:
            changed = set() if base is None else property_changes(base, there)
        in_use = types[2] or types[1]
        assert in_use is not None
        changed |= {
            f"{in_use.element}.{prop.name}"
            for each, prop in found.items()
            if prop.embed == number and each not in self.undecided
        }
        was = as_if(self.base, other.schema)
        rows = [
            key[1]
            for key, row in other.rows.items()
            if key[0] == type_number
            and row[number] is not None
            and row[number] != (was.rows.get(key) or {}).get(number)
        ]
        dropped_by = "source" if source is None else "target"
        stays = self._keep(number, element, dropped_by, changed, rows)
        if stays and there.follows is not None and number not in self.undecided:
            raise Unsure
        return there if stays else None

    def _both(
        self, number: int, element: str, base: Prop | None, source: Prop, target: Prop
    ) -> Prop:
        views = (base, source, target)

        def choose(attribute: str, said: str | None = None) -> Any:
            values = [None if each is None else getattr(each, attribute) for each in views]
            merged = _value(*values)
            return self._choose(number, element, said or attribute, values, merged)

        if base is None:
            scalar = target.scalar if source.scalar == target.scalar else OPEN
            nullable = source.nullable or target.nullable
        else:
            scalar = _value(base.scalar, source.scalar, target.scalar)
            nullable = _value(base.nullable, source.nullable, target.nullable)
        values = None
        if target.values is not None and source.values is not None:
            was = frozenset() if base is None or base.values is None else base.values
            values = _set(was, source.values, target.values)
        old = base or Prop("", "")
        return replace(
            target,
            name=choose("name"),
            description=choose("description"),
            default=choose("default"),
            **self._embed(number, element, views),
            scalar=self._choose(
                number, element, "type", [None, source.scalar, target.scalar], scalar
            ),
            nullable=nullable,
            values=values,
            range=choose("range", "constraint"),
            check=choose("check", "constraint"),
            unique=bool(_value(old.unique, source.unique, target.unique)),
            index=bool(_value(old.index, source.index, target.index)),
        )

    def _embed(
        self, number: int, element: str, views: tuple[Prop | None, Prop, Prop]
    ) -> dict[str, Any]:
        values = [None if each is None else (each.embed, each.model) for each in views]
        values = [None if each == (None, None) else each for each in values]
        chosen = self._choose(number, element, "embed", values, _value(*values))
        return (
            {"embed": None, "model": None}
            if chosen is None
            else dict(zip(("embed", "model"), chosen, strict=True))
        )

    def _find_clashes(self, types: Mapping[int, Type]) -> None:
        free = {n: t for n, t in types.items() if n not in self.undecided}
        elements = [type_.element for type_ in free.values()]
        self.conflicts |= {
            ("schema_name_clash", each) for each in elements if elements.count(each) > 1
        }
        for number, type_ in types.items():
            props = [p for n, p in type_.props.items() if n not in self.undecided]
            names = [p.name for p in props]
            own = {p.name for p in props if p.follows is None}  # of the others the interface tells
            known = self.base.schema.types.get(number) or self.target.schema.types.get(number)
            owner = (known or self.source.schema.types[number]).element
            self.conflicts |= {
                ("schema_name_clash", f"{owner}.{name}") for name in own if names.count(name) > 1
            }

    def with_own_numbers(self, state: State) -> State:
        """The merged state by the numbers of the target, else of the source."""
        own: dict[int, int] = {}
        for side in (self.source_.schema, self.target_.schema):
            own |= {self.one(number): number for number in side.numbers}
        # What only the merge brings about has a number that no side knows.
        merged = renumbered(state, lambda number: own.get(number, number))
        every = set[int]()
        for side in (self.source_.schema, self.target_.schema):
            every |= side.numbers | side.dropped
        every |= set(chain.from_iterable(self.pairs))
        live = {self.one(number) for number in merged.schema.numbers}
        gone = frozenset(each for each in every if self.one(each) not in live)
        known = frozenset(
            each
            for each in gone
            if any(
                self.one(each) in map(self.one, side.numbers | side.dropped)
                for side in (self.source_.schema, self.target_.schema)
            )
        )
        return State(replace(merged.schema, joined=self.pairs, dropped=known), merged.rows)


def _cardinality(base: Any, source: Any, target: Any) -> Any:
    most = None if None in (source[1], target[1]) else max(source[1], target[1])
    both = (min(source[0], target[0]), most)
    if base is None or (source != base != target and allows(source, base) and allows(target, base)):
        return both
    return _value(base, source, target)
