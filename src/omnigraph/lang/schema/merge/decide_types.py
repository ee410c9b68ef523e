"""Decides the merged schema: types and their attributes, then their properties, rules and names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from omnigraph.lang.schema.annotations import METADATA
from omnigraph.lang.schema.merge.attributes import (
    merge_cardinality,
    merge_rules,
    merge_set,
    merge_value,
)
from omnigraph.lang.schema.merge.by_identity import NumberedRule, TypeView
from omnigraph.lang.schema.merge.conflicts import name_clash
from omnigraph.lang.schema.merge.decide_properties import TypeProperties, merged_notes
from omnigraph.lang.schema.merge.deciding import Decided, DecidedType, Deciding, Versions
from omnigraph.lang.schema.merge.side_changes import type_changes
from omnigraph.lang.schema.merge.sides import DataChange, Side
from omnigraph.lang.schema.shape import (
    KINDS,
    Cardinality,
    Check,
    Kind,
    Range,
    Valid,
    constraint_text,
)


def decide_schema(deciding: Deciding) -> Decided:
    """Decide every type. Conflicts gather in ``deciding``; with any, the result is provisional."""
    decided: Decided = {}
    for number in _types_there(deciding):
        versions = deciding.versions(number)
        type_ = _decide_type(deciding, versions)
        type_.properties = TypeProperties(deciding, versions, type_, decided).decide()
        type_.rules = _standing(_rules(deciding, versions), type_)
        decided[number] = type_
    _find_clashes(deciding, decided)
    return decided


# Presence


def _types_there(deciding: Deciding) -> list[int]:
    """The types of the merged schema: those of the target in its order, then those of the source.

    Edges are decided first and interfaces last, because a type stays in conflict while another uses it.
    """
    kept: dict[Kind, list[int]] = {}
    users: list[TypeView] = []
    for kind in reversed(KINDS):
        kept[kind] = [
            number for number in _candidates(deciding, kind) if _stays(deciding, number, users)
        ]
        users = [
            deciding.versions(number).there
            for number in kept[kind]
            if number not in deciding.unresolved
        ]
    return [number for kind in KINDS for number in kept[kind]]


def _candidates(deciding: Deciding, kind: Kind) -> list[int]:
    target = [type_.number for type_ in deciding.schemas.target.of_kind(kind)]
    source = [type_.number for type_ in deciding.schemas.source.of_kind(kind)]
    return list(dict.fromkeys([*target, *source]))


def _stays(deciding: Deciding, number: int, users: list[TypeView]) -> bool:
    versions = deciding.versions(number)
    if versions.source is not None and versions.target is not None:
        return True
    dropped_by: Side = "source" if versions.source is None else "target"
    if versions.base is None and not deciding.schemas.has_dropped(dropped_by, number):
        return True
    there = versions.there
    changed = type_changes(versions.base, there)
    changed |= {user.element for user in users if number in {*user.ends, *user.implements}}
    no_table = there.ir.kind == "interface"
    data = DataChange() if no_table else deciding.data_of(dropped_by, there, None)
    return deciding.keep(number, deciding.element(number), dropped_by, changed, data)


# Attributes


def _decide_type(deciding: Deciding, versions: Versions) -> DecidedType:
    there = versions.there
    shape = there.ir.shape
    base, source, target = versions.base, versions.source, versions.target
    if source is None or target is None:
        return DecidedType(
            there.number,
            shape.kind,
            shape.name,
            annotations=shape.annotations,
            implements=there.implements,
            ends=there.ends,
            cardinality=shape.cardinality,
            end_names=shape.endpoints or (),
        )
    element = deciding.element(there.number)
    names = (None if base is None else base.name, source.name, target.name)
    name, is_decided = deciding.choose(
        element, "name", names, merge_value(*names), lambda text: text
    )
    if not is_decided:
        deciding.unresolved.add(there.number)
    assert name is not None
    ends = (None if base is None else base.ends, source.ends, target.ends)
    chosen, _ = deciding.choose(
        element, "ends", ends, merge_value(*ends), lambda ends: _ends_text(deciding, ends)
    )
    return DecidedType(
        there.number,
        shape.kind,
        name,
        annotations=merged_notes(
            deciding,
            element,
            METADATA,
            *(() if each is None else each.ir.shape.annotations for each in (base, source, target)),
        ),
        implements=merge_set(
            frozenset() if base is None else base.implements, source.implements, target.implements
        ),
        ends=chosen or (),
        cardinality=_cardinality(deciding, element, versions),
        end_names=shape.endpoints or (),
    )


def _ends_text(deciding: Deciding, ends: tuple[int, ...] | None) -> str | None:
    names = [deciding.versions(number).known.name for number in ends or ()]
    return " -> ".join(names) or None


def _cardinality(deciding: Deciding, element: str, versions: Versions) -> Cardinality | None:
    base, source, target = (
        None if each is None else each.ir.shape.cardinality
        for each in (versions.base, versions.source, versions.target)
    )
    if source is None or target is None:
        return None
    merged = merge_cardinality(base, source, target)
    bounds = (base, source, target)
    chosen, _ = deciding.choose(
        element,
        "cardinality",
        bounds,
        merged,
        lambda card: None if card is None else card.text,
    )
    return chosen


# Rules


def _rules(deciding: Deciding, versions: Versions) -> frozenset[NumberedRule]:
    if versions.source is None or versions.target is None:
        return versions.there.rules
    sides = [
        _rules_of(each, versions.base) for each in (versions.base, versions.source, versions.target)
    ]
    groups = [frozenset(rule for rule in rules if rule.value is None) for rules in sides]
    merged = merge_set(*groups)
    merged |= _period(deciding, versions, [_periods(rules) for rules in sides])
    about = {
        (rule.kind, rule.members)
        for rules in sides
        for rule in rules - _periods(rules)
        if rule.value is not None
    }
    for kind, members in sorted(about, key=lambda each: (each[0], sorted(map(str, each[1])))):
        said = [
            frozenset(each for each in rules if (each.kind, each.members) == (kind, members))
            for rules in sides
        ]
        merged |= _altered(deciding, versions, members, said)
    return merged


def _periods(rules: frozenset[NumberedRule]) -> frozenset[NumberedRule]:
    return frozenset(rule for rule in rules if rule.kind == "valid")


def _period(
    deciding: Deciding, versions: Versions, said: list[frozenset[NumberedRule]]
) -> frozenset[NumberedRule]:
    """The period of a type, at most one."""

    def show(rules: frozenset[NumberedRule]) -> str | None:
        for rule in rules:
            names = (deciding.property_element(versions, member) for member in rule.value)
            return constraint_text(Valid(*(name.partition(".")[2] for name in names)))
        return None

    values = (said[0], said[1], said[2])
    element = deciding.element(versions.known.number)
    chosen, _ = deciding.choose(element, "constraint", values, merge_rules(*said), show)
    return chosen


def _rules_of(type_: TypeView | None, base: TypeView | None) -> frozenset[NumberedRule]:
    """The rules of a side. Those that fell with a property count as unchanged: the property may stay."""
    if type_ is None or base is None:
        return frozenset() if type_ is None else type_.rules
    fallen = (
        rule
        for rule in base.rules
        if any(isinstance(each, int) and each not in type_.properties for each in rule.members)
    )
    return type_.rules.union(fallen)


def _altered(
    deciding: Deciding,
    versions: Versions,
    members: Iterable[Any],
    said: list[frozenset[NumberedRule]],
) -> frozenset[NumberedRule]:
    """The ranges, or the checks, of one property."""
    (member,) = members
    _, source, target = versions.of_property(member)
    if source is None or target is None:
        return merge_set(*said)  # it falls with its property, or stays with it
    element = deciding.property_element(versions, member)
    name = element.partition(".")[2]

    def show(rules: frozenset[NumberedRule]) -> str | None:
        return " ".join(sorted(constraint_text(_constraint(rule, name)) for rule in rules)) or None

    values = (said[0], said[1], said[2])
    chosen, _ = deciding.choose(element, "constraint", values, merge_rules(*said), show)
    return chosen


def _constraint(rule: NumberedRule, name: str) -> Range | Check:
    return Check(name, rule.value) if rule.kind == "check" else Range(name, *rule.value)


def _standing(rules: frozenset[NumberedRule], type_: DecidedType) -> frozenset[NumberedRule]:
    """The rules whose members are all there: the others fell with a property."""
    return frozenset(
        rule
        for rule in rules
        if all(isinstance(each, str) or each in type_.properties for each in rule.members)
    )


# Names


def _find_clashes(deciding: Deciding, decided: Decided) -> None:
    wanted: dict[tuple[str, str], list[int]] = defaultdict(list)
    for type_ in decided.values():
        if type_.number not in deciding.unresolved:
            wanted[type_.kind, type_.name].append(type_.number)
    for (kind, name), numbers in wanted.items():
        if len(numbers) > 1:
            deciding.conflicts.append(name_clash(f"{kind}:{name}", deciding.names))
    for type_ in decided.values():
        _find_property_clashes(deciding, type_)


def _find_property_clashes(deciding: Deciding, type_: DecidedType) -> None:
    versions = deciding.versions(type_.number)
    wanted: dict[str, list[int]] = defaultdict(list)
    for prop in type_.properties.values():
        if prop.number not in deciding.unresolved:
            wanted[prop.name].append(prop.number)
    for name, numbers in wanted.items():
        if len(numbers) > 1 and not all(type_.properties[each].is_injected for each in numbers):
            deciding.conflicts.append(
                name_clash(
                    f"{versions.known.element}.{name}",
                    deciding.names,
                    {
                        "source": _type_as_written(versions.source, name),
                        "target": _type_as_written(versions.target, name),
                    },
                )
            )


def _type_as_written(type_: TypeView | None, name: str) -> str:
    found = None if type_ is None else type_.named(name)
    return "" if found is None else found.shape.type.display
