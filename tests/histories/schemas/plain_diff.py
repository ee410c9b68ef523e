"""What a diff says of two states under different schemas, by looking at every row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.histories.schemas.plain_joins import joins, one_of_each, renumbered
from tests.histories.schemas.plain_schema import Row, Schema, State, Type

NOTHING = Schema({})
Changes = dict[tuple[str, str, str], tuple[Any, Any]]
"""By type, id and operation: both images; a pair of None where two properties share a name."""


def changes_between(before: State, after: State, current: Schema) -> Changes:
    """The changes from one state to another, under the names of the current schema where it has any."""
    pairs = joins(NOTHING, before.schema, after.schema) | current.joined
    one = one_of_each(pairs)
    old, new, now = (renumbered(each, one) for each in (before, after, State(current)))
    found: Changes = {}
    for number in old.schema.types.keys() | new.schema.types.keys():
        was, is_ = old.schema.types.get(number), new.schema.types.get(number)
        shown = now.schema.types.get(number) or is_ or was
        assert shown is not None
        names = _names(now.schema.types.get(number), is_, was)
        ids = {key[1] for rows in (old.rows, new.rows) for key in rows if key[0] == number}
        for row_id in ids:
            left, right = old.rows.get((number, row_id)), new.rows.get((number, row_id))
            if left is None or right is None:
                op = "insert" if left is None else "delete"
            elif (
                was is not None
                and is_ is not None
                and _differ(left, right, was, is_, (old.schema, new.schema))
            ):
                op = "update"
            else:
                continue
            images = (None, None)
            if names is not None:
                images = (_image(left, names), _image(right, names))
            found[shown.element, row_id, op] = images
    return found


def _differ(left: Row, right: Row, was: Type, is_: Type, schemas: tuple[Schema, Schema]) -> bool:
    shared: list[Any] = [*(("from", "to") if was.ends else ()), *(was.props.keys() & is_.props)]
    if any(left[each] != right[each] for each in shared):
        return True
    old, new = schemas
    return any(
        was.props[each].says(left[each])
        for each in was.props.keys() - is_.props
        if each not in new.dropped
    ) or any(
        is_.props[each].says(right[each])
        for each in is_.props.keys() - was.props
        if each not in old.dropped
    )


def _names(*forms: Type | None) -> Mapping[Any, str] | None:
    """The names of the properties of a type, the first form's first; None if two have one name."""
    names: dict[Any, str] = {}
    for form in forms:
        for number, prop in () if form is None else form.props.items():
            names.setdefault(number, prop.name)
    return names if len(set(names.values())) == len(names) else None


def _image(row: Row | None, names: Mapping[Any, str]) -> Any:
    if row is None:
        return None
    return {names.get(each, each): value for each, value in row.items()}


def under_names(state: State, current: Schema) -> dict[tuple[str, str], Any] | None:
    """The rows of a state under the names of another schema; None where a name would mean two things."""
    one = one_of_each(state.schema.joined | current.joined)
    then, now = renumbered(state, one), renumbered(State(current), one)
    found = {}
    elements = {
        number: now.schema.types.get(number, type_).element
        for number, type_ in then.schema.types.items()
    }
    if len(set(elements.values())) < len(elements):
        return None
    for number, type_ in then.schema.types.items():
        # A property that is gone keeps its name, unless it is another one's now.
        names = _names(now.schema.types.get(number), type_)
        for key, row in then.rows.items():
            if key[0] != number:
                continue
            if names is None:
                return None
            found[elements[number], key[1]] = _image(row, names)
    return found
