"""Row rules: null, enum, range and check, on every type they can stand on."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from omnigraph.lang.schema.catalog import Property
from omnigraph.types import PropType, Scalar, from_json, to_arrow
from omnigraph.validate.change_set import ORDER, SHOWN
from omnigraph.validate.column_rules import row_violations
from tests.validate.schemas import catalog_of, only_node, table_of


def broken(entity, rows):
    """Kind, id and message of every violation; ids are the row numbers."""
    numbered = [{"id": str(at), **row} for at, row in enumerate(rows)]
    names = ["id", *entity.properties]
    found = row_violations(entity, table_of(entity, numbered, names))
    assert all(violation.table_key == entity.table_key for violation in found)
    return [(violation.kind, violation.row_id, violation.message) for violation in found]


def bad_ids(entity, values, name="p"):
    return [row_id for _, row_id, _ in broken(entity, [{name: value} for value in values])]


REQUIRED = {
    "String": "",
    "enum(a, b)": "a",
    "Bool": False,
    "I32": 0,
    "I64": 0,
    "U32": 0,
    "U64": 0,
    "F32": 0.0,
    "F64": 0.0,
    "Date": "1969-12-31",
    "DateTime": "1969-12-31T23:59:59.999Z",
    "Vector(2)": [0.0, 0.0],
    "[String]": [],
    "[I64]": [],
    "Blob": "base64:",
}


@pytest.mark.parametrize("kind", REQUIRED)
def test_only_null_is_null(kind):
    strict = only_node(f"node N {{ p: {kind} }}")
    ((found, row_id, message),) = broken(strict, [{"p": REQUIRED[kind]}, {"p": None}])
    assert (found, row_id) == ("null", "1")
    assert "N.p" in message
    assert broken(only_node(f"node N {{ p: {kind}? }}"), [{"p": None}]) == []


class TestEnum:
    def test_the_message_has_the_place_the_value_and_all_that_is_allowed(self):
        node = only_node("node Task { state: enum(open, done, on-hold)? }")
        rows = [{"state": s} for s in ("open", "Done", None, "", "on-hold")]
        first, second = broken(node, rows)
        assert first[:2] == ("enum", "1")
        assert second[:2] == ("enum", "3")
        for word in ("enum", "'Done'", "Task.state", "done, on-hold, open"):
            assert word in first[2]

    def test_edges_have_it_too(self):
        edge = catalog_of("node N\n{ }\nedge E: N -> N { k: enum(a) }").edges["E"]
        rows = [{"id": "e", "src": "s", "dst": "d", "k": "b"}]
        (found,) = row_violations(edge, table_of(edge, rows, ["id", "src", "dst", "k"]))
        assert (found.kind, found.table_key, found.row_id) == ("enum", "edge:E", "e")
        assert "E.k" in found.message

    def test_a_list_is_judged_by_its_elements(self):
        kind = PropType(Scalar.STRING, nullable=True, is_list=True, enum_values=("a", "b"))
        node = only_node("node N { p: [String]? }")
        node = replace(node, properties={"p": Property("p", kind, 1)})
        lists = [["a", "b"], [], None, ["a", None], ["a", "zz", "yy"], ["b"]]
        values = to_arrow(kind, [from_json(kind, value) for value in lists])
        rows = pa.table({"id": [str(at) for at in range(6)], "p": values})
        (found,) = row_violations(node, rows)
        assert (found.kind, found.row_id) == ("enum", "4")
        assert "'zz'" in found.message


class TestRange:
    def test_bounds_are_inclusive_and_nulls_pass(self):
        node = only_node("node N { p: I32? @range(p, -1..3) }")
        assert bad_ids(node, [-2, -1, 0, 3, 4, None]) == ["0", "4"]

    def test_either_bound_may_be_open(self):
        assert bad_ids(only_node("node N { p: I32 @range(p, 2..) }"), [1, 2, 2**31 - 1]) == ["0"]
        assert bad_ids(only_node("node N { p: I32 @range(p, ..2) }"), [-(2**31), 2, 3]) == ["2"]

    def test_the_message_has_the_place_the_value_and_the_bounds(self):
        node = only_node("node Room { heat: I32 @range(heat, 5..30) }")
        ((kind, _, message),) = broken(node, [{"heat": 31}])
        assert kind == "range"
        for word in ("@range", "Room.heat", "31", "5..30"):
            assert word in message

    def test_large_integers_are_not_compared_through_floats(self):
        node = only_node("node N { p: I64 @range(p, -9007199254740993..9007199254740993) }")
        edge = 2**53 + 1
        assert bad_ids(node, [edge, edge + 1, -edge, -edge - 1]) == ["1", "3"]

    def test_unsigned_values_beyond_every_signed_bound(self):
        node = only_node(f"node N {{ p: U64 @range(p, 1..{2**63 - 1}) }}")
        assert bad_ids(node, [0, 2**63 - 1, 2**63, 2**64 - 1]) == ["0", "2", "3"]
        node = only_node("node N { p: U64 @range(p, -5..) }")
        assert bad_ids(node, [0, 2**64 - 1]) == []

    def test_bounds_outside_the_type_hold_for_all_or_for_none(self):
        wide = only_node("node N { p: I32? @range(p, -5000000000..5000000000) }")
        assert bad_ids(wide, [-(2**31), 2**31 - 1, None]) == []
        never = only_node("node N { p: I32? @range(p, 5000000000..) }")
        assert bad_ids(never, [2**31 - 1, None]) == ["0"]

    def test_fractions_bound_integers_by_their_value(self):
        node = only_node("node N { p: I32 @range(p, 0.5..2.5) }")
        assert bad_ids(node, [0, 1, 2, 3]) == ["0", "3"]
        node = only_node("node N { p: I32 @range(p, -2.5..-0.5) }")
        assert bad_ids(node, [-3, -2, -1, 0]) == ["0", "3"]

    def test_floats_meet_a_bound_of_their_own_width(self):
        assert bad_ids(only_node("node N { p: F32 @range(p, 0.1..0.7) }"), [0.1, 0.7]) == []
        assert bad_ids(only_node("node N { p: F32 @range(p, 0.1..0.7) }"), [0.0999, 0.7001]) == [
            "0",
            "1",
        ]
        node = only_node("node N { p: F64 @range(p, 0.1..9007199254740993) }")
        assert bad_ids(node, [0.1, 0.09999999999999999, 2.0**53, 2.0**53 + 2]) == ["1", "3"]

    def test_not_a_number_is_in_no_range(self):
        for text in ("0..", "..0", "-1.5..1.5"):
            for kind, type_ in (("F32", pa.float32()), ("F64", pa.float64())):
                node = only_node(f"node N {{ p: {kind}? @range(p, {text}) }}")
                rows = pa.table({"id": ["a", "b"], "p": pa.array([float("nan"), None], type_)})
                assert [found.row_id for found in row_violations(node, rows)] == ["a"]

    def test_both_zeros_are_zero(self):
        assert bad_ids(only_node("node N { p: F64 @range(p, 0..1) }"), [-0.0, 0.0]) == []


class TestCheck:
    def test_the_pattern_is_searched_for_and_anchors_are_the_callers(self):
        node = only_node('node N { p: String? @check(p, "b+") }')
        assert bad_ids(node, ["abba", "b", "aca", "", None, "B"]) == ["2", "3", "5"]
        node = only_node('node N { p: String @check(p, "^b+$") }')
        assert bad_ids(node, ["bb", "abb", "bba"]) == ["1", "2"]

    def test_text_is_unicode(self):
        node = only_node('node N { p: String @check(p, "^.{2}$") }')
        assert bad_ids(node, ["日本", "日", "ab"]) == ["1"]

    def test_the_message_has_the_place_the_value_and_the_pattern(self):
        node = only_node('node User { mail: String @check(mail, "^[^@]+@[^@]+$") }')
        ((kind, _, message),) = broken(node, [{"mail": "nobody"}])
        assert kind == "check"
        for word in ("@check", "User.mail", "'nobody'", "^[^@]+@[^@]+$"):
            assert word in message

    def test_an_enum_can_have_one(self):
        node = only_node('node N { p: enum(ab, cd) @check(p, "a") }')
        assert [kind for kind, _, _ in broken(node, [{"p": "ab"}, {"p": "cd"}])] == ["check"]


class TestReport:
    TEXT = 'node N { a: I32 b: String c: enum(x)? @range(a, 0..) @check(b, "b") }'

    def test_violations_come_in_the_order_of_the_rows(self):
        rows = [
            {"a": 0, "b": "b"},
            {"a": 0, "b": "-"},
            {"a": -1, "b": "b"},
            {"a": 0, "b": "b", "c": "y"},
        ]
        found = [(kind, row_id) for kind, row_id, _ in broken(only_node(self.TEXT), rows)]
        assert found == [("check", "1"), ("range", "2"), ("enum", "3")]

    def test_the_order_column_says_which_record_it_was(self):
        node = only_node("node N { a: I32 @range(a, 0..) }")
        rows = table_of(node, [{"id": "x", "a": -1}, {"id": "y", "a": -2}], ["id", "a"])
        rows = rows.append_column(ORDER, pa.array([70, 40], pa.int64()))
        assert [(v.row_id, v.record) for v in row_violations(node, rows)] == [("y", 40), ("x", 70)]

    def test_a_rule_reports_no_more_than_its_limit(self):
        node = only_node("node N { a: I32 @range(a, 0..) }")
        assert bad_ids(node, [-1] * (SHOWN + 5), "a") == [str(at) for at in range(SHOWN)]

    def test_columns_that_are_not_there_are_not_judged(self):
        node = only_node(self.TEXT)
        assert row_violations(node, pa.table({"id": ["x"]})) == []

    def test_rows_in_many_chunks_are_judged_alike(self):
        node = only_node("node N { a: I32 @range(a, 0..) }")
        chunk = table_of(node, [{"id": "x", "a": -1}], ["id", "a"])
        assert len(row_violations(node, pa.concat_tables([chunk] * 3))) == 3

    def test_no_rows_break_nothing(self):
        node = only_node(self.TEXT)
        assert broken(node, []) == []


class Watched:
    """A table that counts how often it is asked for something that takes a look at every column."""

    def __init__(self, table):
        self._table = table
        self.looks = 0

    def __getattr__(self, name):
        if name in {"column_names", "columns", "take", "schema", "to_pydict", "filter"}:
            self.looks += 1
        return getattr(self._table, name)


class Rules(tuple):
    """Rules that count how often they are gone through."""

    __slots__ = ()
    times = 0

    def __iter__(self):
        Rules.times += 1
        return super().__iter__()


@pytest.mark.parametrize("value", [3, 9], ids=["good", "bad"])
def test_the_rules_of_many_columns_cost_no_look_at_all_of_them_each(value):
    looks = []
    for count in (5, 200):
        names = [f"p{at}" for at in range(count)]
        text = " ".join(f"{name}: I64? @range({name}, 0..5)" for name in names)
        entity = only_node(f"node T {{ {text} }}")
        row = {"id": "r", **dict.fromkeys(names, value)}
        table = Watched(table_of(entity, [row], ["id", *names]))
        Rules.times = 0
        found = row_violations(replace(entity, ranges=Rules(entity.ranges)), table)
        assert [violation.kind for violation in found] == ["range"] * (count if value == 9 else 0)
        looks.append((table.looks, Rules.times))
    assert looks[0] == looks[1]
