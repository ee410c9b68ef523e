"""Objects and lists of objects as Arrow, as JSON values and as JSON texts."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.types import (
    ObjectList,
    ObjectType,
    PropType,
    Scalar,
    ValueType,
    column_to_json,
    column_to_json_text,
    to_arrow,
    to_json,
)
from tests.sampling import examples
from tests.types.stored import NULLABLE, values

FIELDS = [kind for kind in NULLABLE if not kind.is_blob]


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> ValueType:
    shapes = ["plain"] if depth == 0 else ["plain", "object", "list"]
    shape = draw(st.sampled_from(shapes))
    if shape == "plain":
        return draw(st.sampled_from(FIELDS))
    names = draw(st.lists(st.sampled_from(["a", "b c", 'q"', "é"]), min_size=1, unique=True))
    item = ObjectType(tuple((name, draw(kinds(depth - 1))) for name in names), nullable=True)
    return item if shape == "object" else ObjectList(item, nullable=True)


@st.composite
def stored(draw: st.DrawFn, kind: ValueType) -> Any:
    """A value with objects as dicts, in stored form."""
    if isinstance(kind, PropType):
        return draw(values(kind))
    if draw(st.integers(0, 4)) == 0:
        return None
    if isinstance(kind, ObjectList):
        return draw(st.lists(stored(kind.item), max_size=3))
    return {name: draw(stored(inner)) for name, inner in kind.fields}


def built(kind: ValueType, column: list[Any]) -> pa.Array:
    """The Arrow column, made from its leaves."""
    if isinstance(kind, PropType):
        return to_arrow(kind, column)
    absent = pa.array([value is None for value in column], pa.bool_())
    if isinstance(kind, ObjectList):
        offsets, items = [0], []
        for value in column:
            items += value or []
            offsets.append(len(items))
        starts = pa.array(offsets, pa.int32())
        made = pa.ListArray.from_arrays(starts, built(kind.item, items), mask=absent)
        return made.cast(kind.arrow_type())
    leaves = [
        built(inner, [None if value is None else value[name] for value in column])
        for name, inner in kind.fields
    ]
    names = [name for name, _ in kind.fields]
    return pa.StructArray.from_arrays(leaves, names=names, mask=absent)


def as_json(kind: ValueType, value: Any, js_safe: bool) -> Any:
    if value is None:
        return None
    if isinstance(kind, ObjectList):
        return [as_json(kind.item, item, js_safe) for item in value]
    if isinstance(kind, ObjectType):
        return {name: as_json(inner, value[name], js_safe) for name, inner in kind.fields}
    return to_json(kind, value, js_safe)


@settings(deadline=None, max_examples=examples(150))
@given(st.data(), st.booleans())
def test_objects_are_what_their_fields_are(data: st.DataObject, js_safe: bool):
    kind = data.draw(kinds())
    column = data.draw(st.lists(stored(kind), max_size=6))
    start = data.draw(st.integers(0, len(column)))
    array = built(kind, column)
    assert array.type == kind.arrow_type()
    wanted = [as_json(kind, value, js_safe) for value in column[start:]]
    assert column_to_json(kind, array.slice(start), js_safe) == wanted
    texts = column_to_json_text(kind, array.slice(start), js_safe)
    texts.validate(full=True)
    dumped = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in wanted]
    assert texts.to_pylist() == dumped


def test_types_are_shown_as_parameters_of_their_kind_are_declared():
    point = ObjectType((("name", PropType(Scalar.STRING)), ("n", PropType(Scalar.I32, True))))
    assert str(point) == "{name: String, n: I32?}"
    assert str(ObjectList(point)) == "[{name: String, n: I32?}]"
    assert str(point.as_nullable()) == "{name: String, n: I32?}?"
    assert ObjectList(point).as_nullable().nullable


@pytest.mark.parametrize("js_safe", [False, True])
def test_large_integers_inside_objects_are_safe_for_javascript(js_safe):
    kind = ObjectList(ObjectType((("n", PropType(Scalar.I64)),)))
    column = pa.array([[{"n": 2**60}, {"n": 1}]], kind.arrow_type())
    large = str(2**60) if js_safe else 2**60
    assert column_to_json(kind, column, js_safe) == [[{"n": large}, {"n": 1}]]
