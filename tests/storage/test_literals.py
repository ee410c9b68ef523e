"""Filters: whatever the value, exactly the rows with it, by SQL, by expression, with and without index."""

import functools
import math
import operator
import struct
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.filters import (
    Condition,
    Pushdown,
    filter_expression,
    quoted_name,
    settle,
    sql_literal,
)
from omnigraph.storage.tables.indexing.table_indexes import stage_create_index
from omnigraph.storage.tables.staging import stage_append
from omnigraph.storage.tables.table import create_table
from omnigraph.storage.tables.table_commits import commit_staged
from omnigraph.storage.tables.table_ref import TableRef

UTC_MS = pa.timestamp("ms", "UTC")
DAYS = {"min_value": -719_162, "max_value": 2_932_896}  # year 1 to 9999
MILLIS = {"min_value": -62_135_596_800_000, "max_value": 253_402_300_799_999}
TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    [
        "'",
        "''",
        "\\",
        "\\'",
        '"',
        "`",
        "a'; --",
        "' OR 1=1 OR '",
        "\n",
        "\0",
        "%",
        "_",
        "😀",
        "ﬁ",
        "",
    ]
)
F32 = st.floats(width=32, allow_nan=False)
F64 = st.floats(allow_nan=False)
VALUES = {
    pa.utf8(): TEXT,
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): F32,
    pa.float64(): F64,
    pa.date32(): st.integers(**DAYS),
    UTC_MS: st.integers(**MILLIS),
}
TYPES = list(VALUES)
ORDER = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
quick = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Column:
    """A table with one column `c` of some type, and the row numbers a filter finds in it."""

    def __init__(self, directory, type, values, name="c"):
        self.schema = pa.schema([pa.field("row", pa.int64()), pa.field(name, type)])
        data = pa.table([range(len(values)), pa.array(values, type)], schema=self.schema)
        table = create_table(TableRef(str(directory / "table")), self.schema)
        self.plain = commit_staged(stage_append(table, data))
        self.name = name

    @functools.cached_property
    def indexed(self):
        return commit_staged(stage_create_index(self.plain, self.name, IndexKind.BTREE))

    def rows(self, where, index=False):
        table = self.indexed if index else self.plain
        return sorted(table.read(["row"], where)["row"].to_pylist())


def key(value):
    """Text compares by UTF-8 bytes; Python's own order of `str` is the same for whole characters."""
    return value.encode() if isinstance(value, str) else value


def expected(values, op, wanted):
    compare = ORDER[op]
    return [
        row
        for row, value in enumerate(values)
        if value is not None and compare(key(value), key(wanted))
    ]


def typed_rows(type, size=6):
    return st.lists(VALUES[type] | st.none(), min_size=1, max_size=size)


# ------------------------------------------------------------------ the printer


@pytest.mark.parametrize("type", TYPES, ids=str)
@quick
@given(data=st.data())
def test_equality_with_a_printed_literal_finds_exactly_that_value(type, data, tmp_path_factory):
    values = data.draw(typed_rows(type))
    wanted = data.draw(
        st.sampled_from([v for v in values if v is not None] or [None]) | VALUES[type]
    )
    assume(wanted is not None)
    column = Column(tmp_path_factory.mktemp("t"), type, values)
    where = Pushdown(f"`c` = {sql_literal(wanted, type)}")
    for index in (False, True):
        assert column.rows(where, index) == expected(values, "=", wanted)


@pytest.mark.parametrize("name", ["Name", "name", "select", "we ird", 'qu"ote', "a'b", "ä"])
def test_names_of_every_kind_reach_their_column(name, tmp_path):
    column = Column(tmp_path, pa.int64(), [1, 2, None], name)
    where = Pushdown(f"{quoted_name(name)} = {sql_literal(2, pa.int64())}")
    assert column.rows(where) == [1]


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_special_floats_have_literals(type, tmp_path):
    values = [math.inf, -math.inf, math.nan, 0.0]
    column = Column(tmp_path, type, values)
    for row, value in enumerate(values):
        assert column.rows(Pushdown(f"c = {sql_literal(value, type)}")) == [row]


def test_a_type_without_literals_is_refused():
    with pytest.raises(TypeError, match="no literal"):
        sql_literal([1.0], pa.list_(pa.float32(), 1))


# ------------------------------------------------------------------ conditions


@pytest.mark.parametrize("type", TYPES, ids=str)
@quick
@given(data=st.data())
def test_every_comparison_is_right_in_every_form(type, data, tmp_path_factory):
    values = data.draw(typed_rows(type))
    wanted = data.draw(VALUES[type])
    column = Column(tmp_path_factory.mktemp("t"), type, values)
    indexed = column.indexed
    for op in ORDER:
        where = filter_expression(column.schema, [Condition("c", op, wanted)])
        forms = [where, Pushdown(where.sql)]
        for table in (column.plain, indexed):
            found = [sorted(table.read(["row"], form)["row"].to_pylist()) for form in forms]
            assert found == [expected(values, op, wanted)] * 2
            assert table.count_rows(where) == len(found[0])


NUMBERS = [pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float64()]
ANY_NUMBER = (
    st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False)
    | st.sampled_from([2**53 + 1, 2**63, 2**64, -1, 94.5, -0.5, 1e300, -1e300, 0.0, -0.0, 2.0**63])
)


@pytest.mark.parametrize("type", NUMBERS, ids=str)
@quick
@given(data=st.data())
def test_numbers_compare_by_mathematical_value(type, data, tmp_path_factory):
    values = data.draw(typed_rows(type))
    near = [v for v in values if v is not None and math.isfinite(v)] or [0]
    wanted = data.draw(
        ANY_NUMBER
        | st.sampled_from(near).map(float)
        | st.sampled_from(near).map(lambda v: int(v) + 1)
        | st.sampled_from(near).map(lambda v: float(v) + 0.5)
    )
    column = Column(tmp_path_factory.mktemp("t"), type, values)
    for op in ORDER:
        where = filter_expression(column.schema, [Condition("c", op, wanted)])
        for index in (False, True):
            assert column.rows(where, index) == expected(values, op, wanted), (op, where.sql)


@quick
@given(data=st.data())
def test_f32_columns_round_floats_and_compare_integers_exactly(data, tmp_path_factory):
    values = data.draw(st.lists(F32, min_size=1, max_size=6))
    column = Column(tmp_path_factory.mktemp("t"), pa.float32(), values)
    number = data.draw(st.floats(allow_nan=False))
    whole = data.draw(st.integers(-(2**40), 2**40) | st.sampled_from([2**24 + 1, 2**25 + 3]))
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    for op in ORDER:
        floats = filter_expression(column.schema, [Condition("c", op, number)])
        assert column.rows(floats) == expected(values, op, rounded)
        integers = filter_expression(column.schema, [Condition("c", op, whole)])
        assert column.rows(integers) == expected(values, op, whole)


@pytest.mark.parametrize(
    ("type", "op", "value", "meaning"),
    [
        (pa.int32(), "=", 95.5, False),
        (pa.int32(), ">", 94.5, (">=", 95)),
        (pa.int32(), "<", 94.5, ("<=", 94)),
        (pa.int32(), "<", 3_000_000_000, True),
        (pa.int32(), ">", 3_000_000_000, False),
        (pa.int32(), "!=", 3_000_000_000, True),
        (pa.int32(), "=", 7.0, ("=", 7)),
        (pa.int32(), "<", 2**31 - 0.5, ("<=", 2**31 - 1)),
        (pa.int32(), ">", 2**31 - 0.5, False),
        (pa.uint64(), "=", -1, False),
        (pa.uint64(), ">", -0.5, (">=", 0)),
        (pa.uint64(), ">", -1.5, True),
        (pa.int64(), "<", math.inf, True),
        (pa.int64(), "=", math.nan, False),
        (pa.float64(), "=", 2**53 + 1, False),
        (pa.float64(), "<", 2**53 + 1, ("<=", float(2**53))),
        (pa.float64(), ">", 2**53 + 3, (">=", float(2**53 + 4))),
        (pa.float32(), "=", 0.1, ("=", struct.unpack("f", struct.pack("f", 0.1))[0])),
        (pa.float32(), "=", 1e300, ("=", math.inf)),
        (pa.utf8(), "=", "\ud800", False),
        (pa.utf8(), "!=", "\ud800", True),
    ],
)
def test_a_value_that_does_not_fit_changes_the_comparison(type, op, value, meaning):
    assert settle(type, op, value) == meaning


@pytest.mark.parametrize("type", TYPES, ids=str)
@quick
@given(data=st.data())
def test_in_finds_any_of_the_values(type, data, tmp_path_factory):
    values = data.draw(typed_rows(type))
    wanted = data.draw(st.lists(st.sampled_from(values) | VALUES[type], max_size=4))
    column = Column(tmp_path_factory.mktemp("t"), type, values)
    where = filter_expression(column.schema, [Condition("c", "in", wanted)])
    rows = [row for row, value in enumerate(values) if value is not None and value in wanted]
    for form in (where, Pushdown(where.sql, never=where.never)):
        assert column.rows(form) == rows
        assert column.rows(form, index=True) == rows


@pytest.mark.parametrize("type", TYPES, ids=str)
@quick
@given(data=st.data())
def test_member_finds_lists_that_hold_the_value(type, data, tmp_path_factory):
    items = st.lists(VALUES[type] | st.none(), max_size=3)
    values = data.draw(st.lists(items | st.none(), min_size=1, max_size=4))
    inside = [item for value in values for item in value or [] if item is not None]
    wanted = data.draw(VALUES[type] | st.sampled_from(inside) if inside else VALUES[type])
    column = Column(tmp_path_factory.mktemp("t"), pa.list_(type), values)
    where = filter_expression(column.schema, [Condition("c", "member", wanted)])
    assert column.rows(where) == [row for row, v in enumerate(values) if wanted in (v or [])]


@quick
@given(values=st.lists(TEXT | st.none(), min_size=1, max_size=6), data=st.data())
def test_substring_and_prefix_are_exact(values, data, tmp_path_factory):
    texts = [value for value in values if value] or ["x"]
    part = st.sampled_from(texts).flatmap(lambda t: st.integers(0, len(t)).map(lambda n: t[:n]))
    needle = data.draw(part | TEXT)
    column = Column(tmp_path_factory.mktemp("t"), pa.utf8(), values)
    present = [(row, value) for row, value in enumerate(values) if value is not None]
    for op, holds in (("substring", str.__contains__), ("prefix", str.startswith)):
        where = filter_expression(column.schema, [Condition("c", op, needle)])
        for index in (False, True):
            assert column.rows(where, index) == [
                row for row, value in present if holds(value, needle)
            ]


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("zero", [0.0, -0.0, 0])
def test_zero_has_one_value_whatever_its_sign(type, zero, tmp_path):
    column = Column(tmp_path / "scalar", type, [0.0, -0.0, 1.0, None])
    for op, rows in {
        "=": [0, 1],
        "!=": [2],
        "<": [],
        "<=": [0, 1],
        ">": [2],
        ">=": [0, 1, 2],
    }.items():
        where = filter_expression(column.schema, [Condition("c", op, zero)])
        for form in (where, Pushdown(where.sql)):
            assert column.rows(form) == column.rows(form, index=True) == rows
    where = filter_expression(column.schema, [Condition("c", "in", [zero, 5.0])])
    for form in (where, Pushdown(where.sql)):
        assert column.rows(form) == column.rows(form, index=True) == [0, 1]
    lists = Column(tmp_path / "list", pa.list_(type), [[0.0], [-0.0], [1.0], None])
    assert lists.rows(filter_expression(lists.schema, [Condition("c", "member", zero)])) == [0, 1]


def test_nothing_satisfies_a_comparison_with_null(tmp_path):
    column = Column(tmp_path, pa.int64(), [1, None])
    for op in [*ORDER, "member", "substring", "prefix"]:
        assert filter_expression(column.schema, [Condition("c", op, None)]).never
    assert filter_expression(column.schema, [Condition("c", "in", [None])]).never
    assert filter_expression(column.schema, [Condition("c", "in", [])]).never


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_null_tests(type, tmp_path):
    value = {pa.utf8(): "x", pa.bool_(): True}.get(type, 1)
    column = Column(tmp_path, type, [value, None])
    absent = filter_expression(column.schema, [Condition("c", "is_null")])
    present = filter_expression(column.schema, [Condition("c", "is_not_null")])
    for index in (False, True):
        assert (column.rows(absent, index), column.rows(present, index)) == ([1], [0])


def test_a_comparison_everything_satisfies_still_leaves_nulls_out(tmp_path):
    column = Column(tmp_path, pa.int32(), [1, None])
    where = filter_expression(column.schema, [Condition("c", "<", 3_000_000_000)])
    assert column.rows(where) == [0]


# ------------------------------------------------------------------ which form is used


SCHEMA = pa.schema(
    [
        pa.field("s", pa.utf8()),
        pa.field("u", pa.uint64()),
        pa.field("n", pa.int64()),
        pa.field("t", UTC_MS),
    ]
)


@pytest.mark.parametrize(
    ("conditions", "typed"),
    [
        ([Condition("s", "=", "x")], True),
        ([Condition("s", "=", "x"), Condition("n", ">", 1), Condition("t", "<", 5)], True),
        ([Condition("n", "in", [1, 2])], True),
        ([Condition("u", "=", 1)], False),
        ([Condition("s", "=", "x"), Condition("u", "=", 1)], False),
        ([Condition("s", "prefix", "x")], False),
        ([Condition("_rowid", "in", [1])], False),
    ],
)
def test_expressions_are_used_where_pylance_can_convert_them(conditions, typed):
    where = filter_expression(SCHEMA, conditions)
    assert (where.expression is not None) == typed
    assert isinstance(where.lance_filter, str) != typed


def test_a_list_of_unsigned_integers_in_the_table_means_sql():
    schema = SCHEMA.append(pa.field("l", pa.list_(pa.uint32())))
    assert filter_expression(schema, [Condition("s", "=", "x")]).expression is None


def test_conditions_are_conjunctive_and_none_means_no_filter(tmp_path):
    column = Column(tmp_path, pa.int64(), [1, 2, 3, None])
    both = [Condition("c", ">", 1), Condition("c", "<", 3)]
    assert column.rows(filter_expression(column.schema, both)) == [1]
    assert filter_expression(column.schema, []) is None
    assert filter_expression(column.schema, [*both, Condition("c", "=", None)]).never


def test_row_ids_can_be_filtered(tmp_path):
    column = Column(tmp_path, pa.int64(), [1, 2, 3])
    where = filter_expression(column.schema, [Condition("_rowid", "in", [0, 2, 99])])
    assert column.rows(where) == [0, 2]


def test_an_unknown_column_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError, match="no column zz"):
        filter_expression(SCHEMA, [Condition("zz", "=", 1)])


@pytest.mark.parametrize(
    ("type", "value"),
    [(pa.uint64(), 2), (pa.int32(), 2.0), (pa.float32(), 2), (pa.date32(), 2), (UTC_MS, 2)],
)
def test_a_fitting_literal_uses_the_index(type, value, tmp_path):
    table = Column(tmp_path, type, [1, 2, 3]).indexed
    where = filter_expression(table.schema, [Condition("c", "=", value)])
    for form in (where.lance_filter, where.sql):
        plan = table.dataset.scanner(columns=["row"], filter=form).explain_plan(verbose=True)
        assert "ScalarIndexQuery" in plan


def test_dates_and_times_are_stored_values(tmp_path):
    moment = datetime(2024, 2, 29, 12, 30, 0, 123_000, tzinfo=UTC)
    millis = round(moment.timestamp() * 1000)
    column = Column(tmp_path, UTC_MS, [moment, None])
    assert column.rows(filter_expression(column.schema, [Condition("c", "=", millis)])) == [0]
