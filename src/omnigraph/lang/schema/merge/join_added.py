"""Finds what both sides added alike: it becomes one element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from omnigraph.lang.schema.ir import Ir
from omnigraph.lang.schema.joins import Joins, has_dropped
from omnigraph.lang.schema.merge.by_identity import NumberedRule, PropertyView, SchemaView, TypeView
from omnigraph.lang.schema.merge.side_changes import definition_notes
from omnigraph.lang.schema.merge.sides import OTHER, Side
from omnigraph.lang.schema.shape import KINDS, Kind

Pair = tuple[int, int]


@dataclass(slots=True)
class JoinedSchemas:
    """The three schemas by one numbering."""

    base: SchemaView
    source: SchemaView
    target: SchemaView
    single_line_below: int = 0

    @property
    def joins(self) -> Joins:
        """Which ids are one."""
        return self.target.joins

    def side(self, side: Side) -> SchemaView:
        """The schema of one side."""
        return self.source if side == "source" else self.target

    def has_dropped(self, side: Side, number: int) -> bool:
        """Whether a side that lacks an element dropped it since the base, which may never have had it:
        what two branches took from each other need not be in the commit that they share."""
        before, after = (
            has_dropped(ir, number, self.joins, self.single_line_below)
            for ir in (self.base.ir, self.side(side).ir)
        )
        return after and not before


def join_added(base: Ir, source: Ir, target: Ir, single_line_below: int = 0) -> JoinedSchemas:
    """Join what both sides added with the same name and definition, interfaces first, edges last."""
    found = _view(base, source, target, Joins(base, source, target), single_line_below)
    for kind in KINDS:
        found = _joined(found, _same_types(found, kind))
        found = _joined(found, _same_properties(found, kind))
    return found


def _view(base: Ir, source: Ir, target: Ir, joins: Joins, single_line_below: int) -> JoinedSchemas:
    base_view, source_view, target_view = (SchemaView(ir, joins) for ir in (base, source, target))
    return JoinedSchemas(base_view, source_view, target_view, single_line_below)


def _joined(found: JoinedSchemas, pairs: Iterable[Pair]) -> JoinedSchemas:
    """The schemas with these ids joined; the views are made again only if there are any."""
    known = list(pairs)
    for pair in known:
        found.joins.join(*pair)
    if not known:
        return found
    irs = (found.base.ir, found.source.ir, found.target.ir)
    return _view(*irs, found.joins, found.single_line_below)


def _same_types(found: JoinedSchemas, kind: Kind) -> Iterator[Pair]:
    for theirs, ours in _added_types(found, kind):
        if _same_type(theirs, ours):
            yield from _type_pairs(theirs, ours)


def _same_properties(found: JoinedSchemas, kind: Kind) -> Iterator[Pair]:
    for theirs, ours in _types_of_both(found, kind):
        for one, other in _added_properties(found, theirs, ours):
            if _follow_one(one, other) or _same_property(theirs, one, ours, other):
                yield _property_pair(theirs, one, ours, other)


def _added_types(found: JoinedSchemas, kind: Kind) -> Iterator[tuple[TypeView, TypeView]]:
    """Types of one name that each side added for itself."""
    ours = {type_.name: type_ for type_ in found.target.of_kind(kind)}
    for theirs in found.source.of_kind(kind):
        other = ours.get(theirs.name)
        if other is None or other.number == theirs.number:
            continue
        if _is_added(found, "source", theirs.number) and _is_added(found, "target", other.number):
            yield theirs, other


def _is_added(found: JoinedSchemas, side: Side, number: int) -> bool:
    """Whether only this side has a type, and the other one never had it."""
    other = OTHER[side]
    return not (
        number in found.base.types
        or number in found.side(other).types
        or found.has_dropped(other, number)
    )


def _types_of_both(found: JoinedSchemas, kind: Kind) -> Iterator[tuple[TypeView, TypeView]]:
    for theirs in found.source.of_kind(kind):
        ours = found.target.types.get(theirs.number)
        if ours is not None:
            yield theirs, ours


def _added_properties(
    found: JoinedSchemas, source: TypeView, target: TypeView
) -> Iterator[tuple[PropertyView, PropertyView]]:
    """Properties of one name that each side added to a type for itself."""
    base = found.base.types.get(target.number)
    known = set() if base is None else set(base.properties)
    known |= source.properties.keys() & target.properties.keys()

    def added(side: Side, prop: PropertyView) -> bool:
        return prop.number not in known and not found.has_dropped(OTHER[side], prop.number)

    ours = {each.name: each for each in target.properties.values() if added("target", each)}
    for theirs in source.properties.values():
        if theirs.name in ours and added("source", theirs):
            yield theirs, ours[theirs.name]


def _type_pairs(source: TypeView, target: TypeView) -> Iterator[Pair]:
    yield source.ir.type_id, target.ir.type_id
    tables = source.ir.table_incarnation_id, target.ir.table_incarnation_id
    if tables[0] is not None and tables[1] is not None:
        yield tables[0], tables[1]
    for theirs in source.properties.values():
        ours = target.named(theirs.name)
        if ours is not None:
            yield _property_pair(source, theirs, target, ours)


def _property_pair(
    source: TypeView, theirs: PropertyView, target: TypeView, ours: PropertyView
) -> Pair:
    return source.ir.property_ids[theirs.name], target.ir.property_ids[ours.name]


def _follow_one(theirs: PropertyView, ours: PropertyView) -> bool:
    return bool(theirs.follows & ours.follows)


# Definitions


def _same_type(source: TypeView, target: TypeView) -> bool:
    """Whether two types of one name say the same, but for descriptions and indexes.

    A property that an interface gives to one of them only is no difference of the types.
    """
    if (source.implements, source.ends) != (target.implements, target.ends):
        return False
    if source.ir.shape.cardinality != target.ir.shape.cardinality:
        return False
    if definition_notes(source.ir.shape.annotations) != definition_notes(
        target.ir.shape.annotations
    ):
        return False
    shared = set()
    for theirs in source.properties.values():
        ours = target.named(theirs.name)
        if ours is None:
            if not theirs.is_injected:
                return False
        elif not _same_property(source, theirs, target, ours):
            return False
        else:
            shared.add(theirs.name)
    extra = (each for each in target.properties.values() if each.name not in shared)
    if not all(each.is_injected for each in extra):
        return False
    return _rules_by_name(source, shared) == _rules_by_name(target, shared)


def _rules_by_name(type_: TypeView, shared: set[str]) -> set[tuple[str, frozenset[str], object]]:
    found = set()
    for rule in type_.rules:
        members = frozenset(_name(type_, member) for member in rule.members)
        if rule.kind != "index" and members <= shared | {"src", "dst"}:
            value = rule.value
            if rule.kind == "valid":
                value = tuple(_name(type_, member) for member in value)
            found.add((rule.kind, members, value))
    return found


def _name(type_: TypeView, member: int | str) -> str:
    return member if isinstance(member, str) else type_.properties[member].name


def _same_property(
    source: TypeView, theirs: PropertyView, target: TypeView, ours: PropertyView
) -> bool:
    if theirs.shape.type != ours.shape.type:
        return False
    if definition_notes(theirs.shape.annotations) != definition_notes(ours.shape.annotations):
        return False
    if _implied(source, theirs) != _implied(target, ours):
        return False
    if theirs.embed is None or ours.embed is None:
        return theirs.embed is ours.embed
    # Both sides may have added the source, too; if these differ, that is a clash of its own.
    return theirs.embed.model == ours.embed.model and (
        theirs.embed.source == ours.embed.source
        or _name(source, theirs.embed.source) == _name(target, ours.embed.source)
    )


def _implied(type_: TypeView, prop: PropertyView) -> set[NumberedRule]:
    """The key and unique rules that a property of an interface gives to its nodes."""
    if type_.ir.kind != "interface":
        return set()
    return {
        NumberedRule(rule.kind, frozenset())
        for rule in type_.rules
        if rule.members == {prop.number} and rule.kind != "index"
    }
