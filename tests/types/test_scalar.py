"""Every scalar type is described once, and nobody else keeps a table of them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types

import omnigraph
from omnigraph.types import (
    Family,
    PropType,
    Scalar,
    Unfit,
    as_integers,
    from_arrow,
    from_integers,
    portable_type,
    returned_type,
    scalar_of,
    spells_key,
    stored_items,
    to_arrow,
)
from omnigraph.types.scalar import TRAITS

SOURCE = Path(omnigraph.__file__).parent
TEMPORAL = [scalar for scalar in Scalar if scalar.is_temporal]

# Files outside types/ that may name single types other than as `PropType(Scalar.X)`, and why.
MAY_NAME_SCALARS = {
    "algorithms/write_back.py": "values of an algorithm go into properties of certain types",
    "lang/query/check/terms/applying.py": "arguments of several types get one in common",
    "lang/query/check/terms/conditions.py": "a Bool alone is a condition",
    "lang/query/check/terms/literals.py": "each literal of the query language has a type of its own",
    "lang/query/functions.py": "functions take and give certain types",
}
# Files outside types/ that may look for Arrow's types of time, and why.
MAY_NAME_TIMES = {
    "changes/export/column_files.py": "Arrow writes instants into CSV in a form of its own",
    "changes/feed/change_rows.py": "when a commit was made is no property",
    "pipeline/formats/casts.py": "columns of other people's frames come in every unit",
}
TIMES = {"date32", "date64", "timestamp", "time32", "time64"}
TIMES |= {f"is_{name}" for name in TIMES} | {"is_date", "is_time", "is_temporal"}


def test_every_scalar_has_traits():
    assert list(TRAITS) == list(Scalar)


@pytest.mark.parametrize("scalar", Scalar)
def test_traits_are_complete(scalar):
    traits = scalar.traits
    family = traits.family
    assert (traits.time is not None) == (family is Family.TEMPORAL)
    assert (traits.range is not None) == (family in {Family.TEMPORAL, Family.INTEGER})
    assert (traits.sql is None) == (family in {Family.TEXT, Family.BOOLEAN, Family.BLOB})
    assert scalar_of(PropType(scalar).arrow_type()) is scalar
    name, *arguments = traits.spark
    assert isinstance(getattr(spark_types, name)(*arguments), spark_types.DataType)


@pytest.mark.parametrize("scalar", Scalar)
def test_the_schema_language_knows_every_scalar(scalar):
    omnigraph.parse_schema(f"node N {{ k: String @key\n p: {scalar}? }}")


@pytest.mark.parametrize("scalar", [scalar for scalar in Scalar if scalar.is_counted])
def test_the_arrow_type_holds_exactly_the_range_of_integers(scalar):
    t, (low, high) = PropType(scalar), scalar.traits.range
    assert from_arrow(t, to_arrow(t, [low, high])) == [low, high]
    if scalar.is_integer:
        for beyond in (low - 1, high + 1):
            with pytest.raises((OverflowError, pa.ArrowInvalid)):
                to_arrow(t, [beyond])


@pytest.mark.parametrize("scalar", TEMPORAL)
def test_the_text_of_temporal_types_reaches_exactly_over_their_range(scalar):
    time, (low, high) = scalar.time, scalar.traits.range
    column = to_arrow(PropType(scalar), [low, 0, None, high])
    texts = [time.format(low), time.format(0), None, time.format(high)]
    assert next(time.texts(column)).to_pylist() == texts
    assert [time.parse(text) for text in texts if text] == [low, 0, high]
    for beyond in (low - 1, high + 1):
        with pytest.raises(Unfit):
            time.check(beyond)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms", "UTC")], ids=str)
def test_columns_of_time_have_two_views(kind):
    numbers = [None, -1, 0, 19782]
    width = pa.int32() if kind == pa.date32() else pa.int64()
    column = pa.array(numbers, kind)[1:]
    integers = as_integers(column)
    assert integers.type == width
    assert integers.to_pylist() == numbers[1:]
    for given in (integers, pa.array(numbers[1:], pa.int64()), np.array(numbers[1:])):
        assert from_integers(given, kind).equals(column)
    assert stored_items(column.to_pylist(), kind) == numbers[1:]


def test_other_columns_have_one():
    texts = pa.array(["a", None])
    assert as_integers(texts) is texts
    assert stored_items(["a"], pa.utf8()) == ["a"]
    assert from_integers(np.array([1.5]), pa.float32()).equals(pa.array([1.5], pa.float32()))


def test_foreign_arrow_types_are_nobodys():
    for kind in (pa.int8(), pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.list_(pa.int32())):
        assert scalar_of(kind) is None
    assert scalar_of(pa.large_string()) is Scalar.STRING


def test_spark_returns_what_it_took_where_the_type_says_so():
    for scalar in (Scalar.U64, Scalar.DATETIME, Scalar.DATE, Scalar.I64):
        kind = PropType(scalar).arrow_type()
        assert returned_type(portable_type(kind)) == kind
    assert portable_type(pa.uint32()) == returned_type(pa.int64()) == pa.int64()
    assert returned_type(pa.timestamp("us", "Asia/Tokyo")) == pa.timestamp("ms", "UTC")
    assert returned_type(pa.decimal128(10, 2)) == pa.decimal128(10, 2)


@pytest.mark.parametrize(
    ("name", "text", "derived"),
    [
        ("Date", "2024-02-29", "19782"),
        ("DateTime", "1970-01-01T00:00:01Z", "1000"),
        ("F64", "1.0", "1"),
        ("F32", "0.10", "0.1"),
        ("I64", "-007", "-7"),
    ],
)
def test_other_spellings_of_a_key_are_recognised(name, text, derived):
    assert spells_key(PropType.parse(name), text, derived)
    assert not spells_key(PropType.parse(name), text, derived + "1")
    assert not spells_key(PropType.parse(name), f" {text}", derived)


@pytest.mark.parametrize(("name", "text"), [("String", "a"), ("Bool", "true"), ("F64", "nan")])
def test_types_of_one_spelling_have_no_other(name, text):
    assert not spells_key(PropType.parse(name), text, text)


def test_traits_answer_for_the_types_they_describe():
    wide = {scalar for scalar in Scalar if scalar.fills_64_bits}
    assert wide == {scalar for scalar in Scalar if scalar.exceeds_javascript}
    assert wide == {Scalar.I64, Scalar.U64}
    assert [scalar for scalar in Scalar if scalar.counts_days] == [Scalar.DATE]
    with pytest.raises(AssertionError, match="Bool is not temporal"):
        _ = Scalar.BOOL.time


def named_scalars(tree: ast.AST) -> int:
    """How often a syntax tree names a member of `Scalar` other than to make a type of it."""
    made = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id == "PropType"
        for argument in call.args
    }
    members = {scalar.name for scalar in Scalar}
    return sum(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr in members) == ("Scalar", True)
        and id(node) not in made
        for node in ast.walk(tree)
    )


def named_times(tree: ast.AST) -> int:
    """How often a syntax tree asks Arrow for a type of time, or whether a type is one."""
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr in TIMES
        and ast.unparse(node.value) in {"pa", "pa.types", "types", "pyarrow"}
        for node in ast.walk(tree)
    )


def files_that(names, words) -> set[str]:
    """The files outside `types` in which a syntax tree names something; only those with one of the words are parsed."""
    files = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    texts = {file: (SOURCE / file).read_text("utf-8") for file in files if file.parts[0] != "types"}
    return {
        file.as_posix()
        for file, text in texts.items()
        if any(word in text for word in words) and names(ast.parse(text))
    }


def test_single_types_are_told_apart_in_types_alone():
    """Who fails here asks a trait or the family of a scalar instead: see docs/dev/types.md."""
    assert files_that(named_scalars, {"Scalar"}) == set(MAY_NAME_SCALARS)
    assert files_that(named_times, TIMES) == set(MAY_NAME_TIMES)


@pytest.mark.parametrize(
    "text",
    [
        "t.scalar is Scalar.DATE",
        "t.scalar in {Scalar.I64, Scalar.U64}",
        "{Scalar.BOOL: 1}",
        "match s:\n case Scalar.F32: pass",
        "f(Scalar.BLOB)",
    ],
)
def test_the_guard_sees_single_types(text):
    assert named_scalars(ast.parse(text))
    assert not named_scalars(ast.parse("PropType(Scalar.STRING, is_list=True); Scalar(word)"))


def test_the_guard_sees_types_of_time():
    assert named_times(ast.parse("pa.types.is_timestamp(kind)"))
    assert named_times(ast.parse("array.cast(pa.date32())"))
    assert not named_times(ast.parse("datetime.fromtimestamp(1); pa.int64()"))
