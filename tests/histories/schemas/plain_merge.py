"""The merge of two states with their schemas, written down from the tables of the specification.

It looks at every element and every row there is, and calls none of the code that merges schemas or rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from tests.histories.schemas.plain_schema import (
    KINDS,
    Prop,
    Row,
    Schema,
    State,
    Type,
    broken_rules,
    cleared,
    violations,
    with_injected,
)

Conflict = tuple[Any, ...]
Pairs = frozenset[tuple[int, int]]
OPEN = object()
"""The value of an attribute that both sides changed differently."""


class Refused(Exception):
    """A word of `resolve_schema` that cannot be followed."""


class Unsure(Exception):
    """A case that the model does not know: a type keeps by a word what its interface has lost."""


@dataclass(frozen=True)
class Merged:
    """The merged state, or the conflicts of the first stage that has any."""

    state: State | None
    conflicts: frozenset[Conflict] = frozenset()
    resolved: int = 0
    resolved_schema: frozenset[str] = frozenset()


def merge_states(
    base: State,
    source: State,
    target: State,
    *,
    by_property: bool = False,
    resolve: Any = None,
    resolve_schema: Any = None,
) -> Merged:
    """Merge what the source changed since the base into the target."""
    merging = _Schemas(base, source, target, resolve_schema)
    schema = merging.run()
    if schema is None:
        return Merged(None, frozenset(merging.conflicts), 0, frozenset(merging.decided))
    rows = _Rows(merging, schema, by_property, resolve)
    merged = rows.run()
    if rows.conflicts:
        return Merged(None, frozenset(rows.conflicts), rows.resolved, frozenset(merging.decided))
    broken = violations(merged.schema, merged.rows)
    return Merged(
        None if broken else merged,
        frozenset(broken),
        rows.resolved,
        frozenset(merging.decided),
    )


# ------------------------------------------------------------------ identities


def one_of_each(pairs: Iterable[tuple[int, int]]) -> Callable[[int], int]:
    """The number that stands for all that are joined with a number."""
    first: dict[int, int] = {}

    def one(number: int) -> int:
        while number in first:
            number = first[number]
        return number

    for left, right in pairs:
        low, high = sorted((one(left), one(right)))
        if low != high:
            first[high] = low
    return one


def renumbered(state: State, one: Callable[[int], int]) -> State:
    """The state with one number for each element."""
    types = {
        one(number): replace(
            type_,
            props={
                one(each): replace(
                    prop,
                    follows=None if prop.follows is None else one(prop.follows),
                    embed=None if prop.embed is None else one(prop.embed),
                )
                for each, prop in type_.props.items()
            },
            ends=None if type_.ends is None else (one(type_.ends[0]), one(type_.ends[1])),
            implements=frozenset(map(one, type_.implements)),
        )
        for number, type_ in state.schema.types.items()
    }
    rows = {
        (one(number), row_id): {
            each if isinstance(each, str) else one(each): value for each, value in row.items()
        }
        for (number, row_id), row in state.rows.items()
    }
    dropped = frozenset(map(one, state.schema.dropped))
    return State(Schema(types, state.schema.joined, dropped), rows)


def joins(base: Schema, source: Schema, target: Schema) -> Pairs:
    """All pairs that are one element: those that a schema says, and what both sides added alike."""
    pairs = base.joined | source.joined | target.joined
    for kind in KINDS:
        for alike in (_alike_types, _alike_properties):
            one = one_of_each(pairs)
            states = [renumbered(State(each), one).schema for each in (base, source, target)]
            pairs |= frozenset(alike(kind, *states))
    return pairs


def _is_added(number: int, base: Schema, other: Schema) -> bool:
    dropped = number in other.dropped and number not in base.dropped
    return not (number in base.numbers or number in other.numbers or dropped)


def _alike_types(kind: str, base: Schema, source: Schema, target: Schema) -> Iterable[Any]:
    for theirs in source.of_kind(kind):
        for ours in target.of_kind(kind):
            left, right = source.types[theirs], target.types[ours]
            if left.name != right.name or theirs == ours:
                continue
            if not (_is_added(theirs, base, target) and _is_added(ours, base, source)):
                continue
            if (left.ends, left.card) != (right.ends, right.card):
                continue
            if left.implements != right.implements:
                continue
            by_name = [{prop.name: (n, prop) for n, prop in t.props.items()} for t in (left, right)]
            # What an interface gives to one of them only is no difference.
            if any(
                by_name[at][name][1].follows is None
                for at in (0, 1)
                for name in by_name[at].keys() - by_name[1 - at].keys()
            ):
                continue
            each = [
                (by_name[0][name], by_name[1][name]) for name in by_name[0] if name in by_name[1]
            ]
            if all(
                _definition(one) == _definition(other)
                and _embeds_alike((left, one), (right, other))
                for (_, one), (_, other) in each
            ):
                yield theirs, ours
                yield from ((one, other) for (one, _), (other, _) in each)


def _definition(prop: Prop) -> Prop:
    return replace(
        prop, description=None, default=None, index=False, follows=None, embed=None, model=None
    )


def _embeds_alike(left: tuple[Type, Prop], right: tuple[Type, Prop]) -> bool:
    (left_type, one), (right_type, other) = left, right
    if one.embed is None or other.embed is None:
        return one.embed is other.embed
    texts = left_type.props[one.embed].name, right_type.props[other.embed].name
    return one.model == other.model and (one.embed == other.embed or texts[0] == texts[1])


def _alike_properties(kind: str, base: Schema, source: Schema, target: Schema) -> Iterable[Any]:
    for number in source.of_kind(kind):
        if number not in target.types:
            continue
        types = source.types[number], target.types[number]
        theirs, ours = types[0].props, types[1].props
        for left in theirs.keys() - ours.keys():
            for right in ours.keys() - theirs.keys():
                one, other = theirs[left], ours[right]
                alike = _type_of(one) == _type_of(other)
                alike = alike and _embeds_alike((types[0], one), (types[1], other))
                alike = alike or (one.follows is not None and one.follows == other.follows)
                alike = alike and one.name == other.name
                if alike and _is_added(left, base, target) and _is_added(right, base, source):
                    yield left, right


def _type_of(prop: Prop) -> tuple[Any, ...]:
    return prop.scalar, prop.values, prop.nullable


# ------------------------------------------------------------------ schemas


def _value(base: Any, source: Any, target: Any) -> Any:
    if source in (base, target):
        return target
    return source if target == base else OPEN


def _set(base: Any, source: Any, target: Any) -> Any:
    return (base & source & target) | (source - base) | (target - base)


@dataclass
class _Schemas:
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
            changed |= _type_changes(base, there)
        element = (base or there).element
        was = _as_if(self.base, other.schema)
        rows = [
            key[1]
            for key, row in other.rows.items()
            if key[0] == number and _differs(was.rows.get(key), row, there)
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
            changed = set() if base is None else _property_changes(base, there)
        in_use = types[2] or types[1]
        assert in_use is not None
        changed |= {
            f"{in_use.element}.{prop.name}"
            for each, prop in found.items()
            if prop.embed == number and each not in self.undecided
        }
        was = _as_if(self.base, other.schema)
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
            names = [p.name for n, p in type_.props.items() if n not in self.undecided]
            known = self.base.schema.types.get(number) or self.target.schema.types.get(number)
            owner = (known or self.source.schema.types[number]).element
            self.conflicts |= {
                ("schema_name_clash", f"{owner}.{name}") for name in names if names.count(name) > 1
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
    if base is None or (
        source != base != target and _allows(source, base) and _allows(target, base)
    ):
        return both
    return _value(base, source, target)


def _allows(wide: Any, narrow: Any) -> bool:
    most = wide[1] is None or (narrow[1] is not None and narrow[1] <= wide[1])
    return bool(wide[0] <= narrow[0] and most)


def _type_changes(before: Type, after: Type) -> set[str]:
    found = {"rename"} if before.name != after.name else set()
    if before.card != after.card:
        relaxed = _allows(after.card, before.card)
        found.add("relax_cardinality" if relaxed else "tighten_cardinality")
    for number, prop in after.props.items():
        if prop.follows is not None:
            continue  # its interface tells
        if number in before.props:
            found |= _property_changes(before.props[number], prop)
        else:
            found.add("add_property")
    return found


def _property_changes(before: Prop, after: Prop) -> set[str]:
    found = {"rename"} if before.name != after.name else set()
    if before.nullable != after.nullable:
        found.add("relax" if after.nullable else "require")
    old, new = before.values or frozenset(), after.values or frozenset()
    found |= {"extend_enum"} if new - old else set()
    found |= {"shrink_enum"} if old - new else set()
    found |= {"widen"} if before.scalar != after.scalar else set()
    found |= {"default"} if before.default != after.default else set()
    if (before.embed, before.model) != (after.embed, after.model):
        found.add("change_embed")
    return found


def one_way(before: Schema, after: Schema) -> bool | None:
    """Whether a change cannot be reverted, because it dropped or loosened something; None: who knows."""
    unsure = False
    for number, old in before.types.items():
        if number not in after.types:
            return True
        new = after.types[number]
        if old.card != new.card and _allows(new.card, old.card):
            return True
        unsure |= old.card != new.card and not _allows(old.card, new.card)
        for each, was in old.props.items():
            if each not in new.props:
                return True
            changes = _property_changes(was, new.props[each])
            if changes & {"relax", "extend_enum", "widen", "change_embed"}:
                return True
            is_ = new.props[each]
            for attribute in ("range", "check", "unique"):
                values = getattr(was, attribute), getattr(is_, attribute)
                if values[0] and not values[1]:
                    return True
                unsure |= bool(values[0]) and values[0] != values[1]
    return None if unsure else False


# ------------------------------------------------------------------ rows


def _as_if(state: State, schema: Schema) -> State:
    """The state without the vectors that are made otherwise in a schema."""
    lost = cleared(state.schema, schema)
    rows = {
        key: {each: None if (key[0], each) in lost else value for each, value in row.items()}
        for key, row in state.rows.items()
    }
    return State(state.schema, rows)


def _differs(before: Row | None, after: Row, type_: Type) -> bool:
    """Whether a row was inserted or changed, by the properties of the row after."""
    return before is None or any(
        before[each] != value if each in before else type_.props[each].says(value)
        for each, value in after.items()
    )


@dataclass
class _Rows:
    """One merge of rows under a merged schema, by single numbers."""

    sides: _Schemas
    schema: Schema
    by_property: bool
    resolve: Any
    conflicts: set[Conflict] = field(default_factory=set)
    resolved: int = 0

    def run(self) -> State:
        result: dict[tuple[int, str], Row] = {}
        sides = self.sides
        states = [
            _as_if(each, self.schema).rows for each in (sides.base, sides.source, sides.target)
        ]
        for number, type_ in self.schema.types.items():
            lone = [side for side in (sides.source, sides.target) if number in side.schema.types]
            if len(lone) == 1:  # a new type, or one that stays by a word although a side dropped it
                for key, row in lone[0].rows.items():
                    if key[0] == number:
                        result[key] = self._filled(type_, self._image(type_, row))
                continue
            ids = {key[1] for rows in states for key in rows if key[0] == number}
            for row_id in ids:
                images = [
                    None
                    if (number, row_id) not in rows
                    else self._image(type_, rows[number, row_id])
                    for rows in states
                ]
                row = self._row(number, type_, row_id, *images)
                if row is not None:
                    result[number, row_id] = self._filled(type_, row)
        return self.sides.with_own_numbers(State(self.schema, result))

    @staticmethod
    def _filled(type_: Type, row: Row) -> Row:
        """A row with what neither side had: an interface of one gives it to a type of the other."""
        new = {
            each: None if prop.nullable else prop.default
            for each, prop in type_.props.items()
            if each not in row
        }
        return {**row, **new}

    def _image(self, type_: Type, row: Row) -> Row:
        names: list[Any] = [*(("from", "to") if type_.ends else ()), *type_.props]
        return {each: row[each] for each in names if each in row}

    def _row(
        self,
        number: int,
        type_: Type,
        row_id: str,
        base: Row | None,
        source: Row | None,
        target: Row | None,
    ) -> Row | None:
        theirs, ours = (
            side.schema.types[number].props for side in (self.sides.source, self.sides.target)
        )
        own = dict.fromkeys(theirs.keys() - ours.keys(), "source")
        own |= dict.fromkeys(ours.keys() - theirs.keys(), "target")
        own = {each: side for each, side in own.items() if each in type_.props}
        both = (theirs.keys() & ours.keys()) | {"from", "to"}
        units = [tuple(each for each in unit if each in both) for unit in self._units(type_)]
        shared: list[Any] = [unit for unit in units if unit]
        kind, image = self._cell(type_, base, source, target, shared)
        if kind is not None:
            if self.resolve is None:
                self.conflicts.add((kind, type_.element, row_id))
                return None
            self.resolved += 1
            image = source if self.resolve == "theirs" else target
            if self.by_property and None not in (base, source, target):
                assert base is not None
                assert source is not None
                assert target is not None
                image = self._combined(base, source, target, shared, prefer=image)
        if image is None:
            return None
        row = dict(image)
        for each, side in own.items():
            owner = source if side == "source" else target
            value = None if owner is None else owner[each]
            prop = type_.props[each]
            if owner is None and not prop.nullable:
                value = prop.default
            row[each] = value
        for each in own:
            text = type_.props[each].embed
            owner = source if own[each] == "source" else target
            if text is not None and owner is not None and row[text] != owner[text]:
                row[each] = None  # it is made of another text now
        return row

    def _units(self, type_: Type) -> list[tuple[Any, ...]]:
        """What changes together: the ends of an edge, a text and the vectors that are made of it."""
        ends = [("from", "to")] if type_.ends else []
        groups: dict[int, list[int]] = {}
        for each, prop in type_.props.items():
            groups.setdefault(prop.embed or each, []).append(each)
        return [*ends, *(tuple(group) for group in groups.values())]

    def _cell(
        self,
        type_: Type,
        base: Row | None,
        source: Row | None,
        target: Row | None,
        shared: list[Any],
    ) -> tuple[str | None, Row | None]:
        if source is None or target is None:
            there = target if source is None else source
            if there is None or base is None:
                return None, there
            return ("delete_vs_update", None) if _differs(base, there, type_) else (None, None)
        was, theirs, ours = (
            None if row is None else {n: row.get(n) for unit in shared for n in unit}
            for row in (base, source, target)
        )
        if theirs in (was, ours):
            return None, target
        if ours == was:
            return None, source
        if base is None:
            return "divergent_insert", None
        if self.by_property and not any(
            self._clashes(unit, base, source, target) for unit in shared
        ):
            return None, self._combined(base, source, target, shared, prefer=target)
        return "divergent_update", None

    @staticmethod
    def _clashes(unit: Any, base: Row, source: Row, target: Row) -> bool:
        was, theirs, ours = ([row.get(n) for n in unit] for row in (base, source, target))
        return was not in (theirs, ours) and theirs != ours

    def _combined(
        self, base: Row, source: Row, target: Row, shared: list[Any], prefer: Row | None
    ) -> Row:
        assert prefer is not None
        image = dict(target)
        for unit in shared:
            if self._clashes(unit, base, source, target):
                chosen = prefer
            else:
                changed = [source.get(n) for n in unit] != [base.get(n) for n in unit]
                chosen = source if changed else target
            image.update({n: chosen.get(n) for n in unit})
        return image
