"""The steps from the constraints of a type to other ones, compared by the identities of their members."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.lang.schema.ir import TypeIr
from omnigraph.lang.schema.migrate.plan_steps import (
    AddConstraint,
    DropConstraint,
    SchemaStep,
    UnsupportedChange,
)
from omnigraph.lang.schema.shape import (
    Check,
    Constraint,
    Group,
    Range,
    Valid,
    constraint_order,
    constraint_text,
)

_Identified = tuple[str, frozenset[int | str], object]


def constraint_steps(old: TypeIr, new: TypeIr) -> Iterator[SchemaStep]:
    """The constraints that are removed, then those that are added; both under the names of now.

    A constraint falls with its property, without a step. A `@range` or `@check` that only says something else
    is one step: the new one takes the place of the old one.
    """
    old_ids = {_identified(old, each): each for each in constraints_of(old)}
    new_ids = {_identified(new, each): each for each in constraints_of(new)}
    before, after = ([each for each in ids if each[0] == "valid"] for ids in (old_ids, new_ids))
    if before and after and before != after:
        yield _other_period(new, old_ids.pop(before[0]), new_ids.pop(after[0]))
    names = {identity: name for name, identity in new.property_ids.items()}
    removed = [
        _renamed(old, each, names)
        for identified, each in old_ids.items()
        if identified not in new_ids and not _has_fallen(identified, names)
    ]
    added = [each for identified, each in new_ids.items() if identified not in old_ids]
    for each in sorted(removed, key=constraint_order):
        if not _is_altered(each, removed, added):
            yield _step(new, each, removed=True)
    for each in sorted(added, key=constraint_order):
        yield _step(new, each, removed=False)


def constraints_of(type_: TypeIr) -> Iterator[Constraint]:
    """All constraints of a type, those included that properties of an interface imply."""
    yield from type_.shape.constraints
    for prop in type_.shape.properties:
        for kind in prop.markers:
            yield Group(kind, (prop.name,))


def _has_fallen(identified: _Identified, names: dict[int, str]) -> bool:
    return any(isinstance(member, int) and member not in names for member in identified[1])


def _is_altered(gone: Constraint, removed: list[Constraint], added: list[Constraint]) -> bool:
    """Whether one other constraint of the same kind and property takes the place of this one."""
    if isinstance(gone, Group | Valid):
        return False

    def alike(others: list[Constraint]) -> int:
        return sum((type(one), _members(one)) == (type(gone), _members(gone)) for one in others)

    return alike(removed) == alike(added) == 1


def _members(constraint: Constraint) -> tuple[str, ...]:
    match constraint:
        case Group(_, properties):
            return properties
        case Range(name) | Check(name):
            return (name,)
        case Valid(since, until):
            return (since, until)


def _step(new: TypeIr, constraint: Constraint, *, removed: bool) -> SchemaStep:
    if not isinstance(constraint, Group) or constraint.kind != "key":
        step = DropConstraint if removed else AddConstraint
        return step(new.kind, new.name, constraint)
    members = ", ".join(constraint.properties)
    single = len(constraint.properties) == 1
    entity = f"{new.shape.entity}.{members}" if single else new.shape.entity
    label = f"{new.name}.{members}" if single else f"{new.name}.({members})"
    verb = "removed from" if removed else "added to"
    return UnsupportedChange(
        entity,
        f"`@key` cannot be {verb} `{label}`, because the ids of the nodes are made of it",
        way="declare a new type with that key, load the nodes into it under their new ids, and drop "
        "the old one",
    )


def _other_period(new: TypeIr, old: Constraint, now: Constraint) -> UnsupportedChange:
    return UnsupportedChange(
        new.shape.entity,
        f"the period of `{new.name}` cannot change from `{constraint_text(old)}` to "
        f"`{constraint_text(now)}`",
        way="apply a schema without a period first, then one with the other period",
    )


def _identified(type_: TypeIr, constraint: Constraint) -> _Identified:
    """A constraint with the identities of its members in place of their names."""
    match constraint:
        case Group(kind, properties):
            return kind, frozenset(type_.member_id(name) for name in properties), None
        case Range(name, low, high):
            return "range", frozenset({type_.member_id(name)}), (low, high)
        case Check(name, pattern):
            return "check", frozenset({type_.member_id(name)}), pattern
        case Valid(since, until):
            members = (type_.member_id(since), type_.member_id(until))
            return "valid", frozenset(members), members


def _renamed(type_: TypeIr, constraint: Constraint, names: dict[int, str]) -> Constraint:
    """An accepted constraint with the names its properties have now."""

    def now(name: str) -> str:
        identity = type_.member_id(name)
        return names[identity] if isinstance(identity, int) else name

    match constraint:
        case Group(kind, properties):
            return Group(kind, tuple(sorted(now(name) for name in properties)))
        case Range(name, low, high):
            return Range(now(name), low, high)
        case Check(name, pattern):
            return Check(now(name), pattern)
        case Valid(since, until):
            return Valid(now(since), now(until))
