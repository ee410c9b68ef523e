"""Which elements of schemas are one: those that a schema says, and what two sides added alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests.histories.schemas.plain_schema import KINDS, Prop, Schema, State, Type

Pairs = frozenset[tuple[int, int]]


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
