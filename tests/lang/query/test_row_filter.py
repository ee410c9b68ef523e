"""Filters on the rows of one type: conditions with bare property names."""

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest
from omnigraph.lang.query import ir
from omnigraph.lang.query.check.check import ROW, compile_filter
from omnigraph.types import PropType, Scalar

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    height: F32?
    tags: [String]?
    joined: DateTime?
    photo: Blob?
    mood: enum(good, bad)?
}
"""


def compiled(text):
    person = og.parse_schema(SCHEMA).catalog.nodes["Person"]
    return compile_filter("Person", person.properties, text)


def shape(compare):
    """`(left, op, right)` with properties as their names and constants as their values."""
    sides = [
        side.property if isinstance(side, ir.PropertyOf) else getattr(side, "value", side)
        for side in (compare.left, compare.right)
    ]
    return sides[0], compare.op, sides[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age > 30", [("age", ">", 30)]),
        ("30 < age", [(30, "<", "age")]),
        ('name starts_with "a"', [("name", "prefix", "a")]),
        ('name contains "a"', [("name", "substring", "a")]),
        ('"abc" contains name', [("abc", "substring", "name")]),
        ('tags contains "x"', [("tags", "member", "x")]),
        ("age > height", [("age", ">", "height")]),
        ("age > 3 and age < 5", [("age", ">", 3), ("age", "<", 5)]),
        ("age in [1, 2]", [([1, 2], "member", "age")]),
        ('name ends_with "a"', [("name", "suffix", "a")]),
        ("age >= 1 age <= 9", [("age", ">=", 1), ("age", "<=", 9)]),
        ('age > 1\n// why\nmood = "good"', [("age", ">", 1), ("mood", "=", "good")]),
    ],
)
def test_conditions_name_properties_bare_and_all_hold(text, expected):
    assert [shape(compare) for compare in compiled(text)] == expected


def test_operands_belong_to_the_one_row():
    (compare,) = compiled("age > 30")
    assert compare.left == ir.PropertyOf(ROW, "age", PropType(Scalar.I32, nullable=True))


def test_now_is_the_reserved_parameter():
    (compare,) = compiled("joined < now()")
    assert compare.right == ir.ParamRef(ir.NOW_PARAM, PropType(Scalar.DATETIME))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agee > 3", "did you mean `age`"),
        ('age = "x"', "cannot be compared"),
        ("age >", "expected an expression"),
        ("age > 3 or age < 1", "neither"),
        ("age + 1 > 3", "neither"),
        ("", "at least one"),
        ('photo = "x"', "Blob"),
        ('search(name, "x")', "search text"),
        ("not { age > 3 }", "neither"),
        ("$p knows $q", "neither"),
        ("$p.age > 3", "not bound"),
        ("age > $limit", "not a declared parameter"),
        (
            "age > 3 } return { $row.age } } query b() { match { $row: Person",
            "more than conditions",
        ),
        ("age > 3 }", "`return` block"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_filter_in_the_message(text, said):
    with pytest.raises(BadRequest) as refused:
        compiled(text)
    assert f"the filter `{text}` does not fit Person" in str(refused.value)
    assert said in str(refused.value)
