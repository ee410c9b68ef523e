"""What a side changed: attributes of elements, and rows."""

from __future__ import annotations

from typing import Any

from tests.histories.schemas.plain_schema import Prop, Row, Schema, State, Type, cleared


def allows(wide: Any, narrow: Any) -> bool:
    most = wide[1] is None or (narrow[1] is not None and narrow[1] <= wide[1])
    return bool(wide[0] <= narrow[0] and most)


def type_changes(before: Type, after: Type) -> set[str]:
    found = {"rename"} if before.name != after.name else set()
    if before.card != after.card:
        relaxed = allows(after.card, before.card)
        found.add("relax_cardinality" if relaxed else "tighten_cardinality")
    for number, prop in after.props.items():
        if prop.follows is not None:
            continue  # its interface tells
        if number in before.props:
            found |= property_changes(before.props[number], prop)
        else:
            found.add("add_property")
    return found


def property_changes(before: Prop, after: Prop) -> set[str]:
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
        if old.card != new.card and allows(new.card, old.card):
            return True
        unsure |= old.card != new.card and not allows(old.card, new.card)
        for each, was in old.props.items():
            if each not in new.props:
                return True
            changes = property_changes(was, new.props[each])
            if changes & {"relax", "extend_enum", "widen", "change_embed"}:
                return True
            is_ = new.props[each]
            for attribute in ("range", "check", "unique"):
                values = getattr(was, attribute), getattr(is_, attribute)
                if values[0] and not values[1]:
                    return True
                unsure |= bool(values[0]) and values[0] != values[1]
    return None if unsure else False


def as_if(state: State, schema: Schema) -> State:
    """The state without the vectors that are made otherwise in a schema."""
    lost = cleared(state.schema, schema)
    rows = {
        key: {each: None if (key[0], each) in lost else value for each, value in row.items()}
        for key, row in state.rows.items()
    }
    return State(state.schema, rows)


def differs(before: Row | None, after: Row, type_: Type) -> bool:
    """Whether a row was inserted or changed, by the properties of the row after."""
    return before is None or any(
        before[each] != value if each in before else type_.props[each].says(value)
        for each, value in after.items()
    )
