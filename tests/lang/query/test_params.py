"""Binding of parameters: the table of accepted JSON per declared type."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from omnigraph.errors import BadRequest, ParamError
from omnigraph.lang.query.ir import ParamSpec, RecordList
from omnigraph.lang.query.params import bind, named_or_given
from omnigraph.types import TEXT, PropType, Scalar

SAFE = 2**53 - 1


class Mood:
    """Nothing a parameter could be."""


def specs(**types: str) -> tuple[ParamSpec, ...]:
    return tuple(ParamSpec(name, PropType.parse(text)) for name, text in types.items())


@pytest.mark.parametrize(
    ("declared", "given", "stored"),
    [
        ("String", "a", "a"),
        ("Bool", True, True),
        ("I32", -2147483648, -2147483648),
        ("I32", "-7", -7),
        ("U64", 18446744073709551615, 18446744073709551615),
        ("U64", "18446744073709551615", 18446744073709551615),
        ("F64", 3, 3.0),
        ("Date", "1970-01-02", 1),
        ("DateTime", "1970-01-01T01:00:00+01:00", 0),
        ("[I32]", [1, "2"], [1, 2]),
        ("[String]", [], []),
        ("Vector(2)", [1, 0.5], [1.0, 0.5]),
        ("String?", None, None),
        ("Blob", "base64:AA==", "base64:AA=="),
    ],
)
def test_accepted(declared: str, given: Any, stored: Any) -> None:
    assert bind(specs(a=declared), {"a": given}) == {"a": stored}


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("String", 7),
        ("Bool", "true"),
        ("Bool", 1),
        ("I32", 3000000000),
        ("I32", 52.5),
        ("I32", 52.0),
        ("I32", True),
        ("I32", "1.0"),
        ("U32", -1),
        ("U64", 18446744073709551616),
        ("F64", "1.5"),
        ("F64", True),
        ("Date", "2020-13-40"),
        ("Date", 5),
        ("DateTime", "yesterday"),
        ("[String]", "u"),
        ("[String]", ["a", None]),
        ("[I32]", ["a"]),
        ("Vector(4)", [1.0, 0.0]),
        ("Vector(2)", [1.0, "x"]),
        ("Vector(2)", "text"),
        ("String", None),
    ],
)
def test_refused(declared: str, given: Any) -> None:
    with pytest.raises(ParamError) as caught:
        bind(specs(a=declared), {"a": given})
    message = str(caught.value)
    assert message.startswith("param error: ")
    assert "`a`" in message
    assert declared in message


def test_a_required_parameter_must_be_there_and_not_null() -> None:
    with pytest.raises(ParamError, match="missing"):
        bind(specs(a="I32"), {})
    with pytest.raises(ParamError, match="null"):
        bind(specs(a="I32"), {"a": None})


def test_an_optional_parameter_left_out_is_null() -> None:
    assert bind(specs(a="I32?", b="String"), {"b": "x"}) == {"a": None, "b": "x"}


def test_nothing_given_is_an_empty_object() -> None:
    assert bind((), None) == {}


@pytest.mark.parametrize("given", [[], "x", 3, True])
def test_params_must_be_an_object(given: Any) -> None:
    with pytest.raises(ParamError, match="object"):
        bind((), given)


def test_an_undeclared_key_names_the_nearest_declared_one() -> None:
    with pytest.raises(ParamError, match=r"`nam`.*`name`"):
        bind(specs(name="String"), {"name": "a", "nam": "b"})


def test_an_undeclared_key_lists_what_is_declared_when_nothing_is_near() -> None:
    with pytest.raises(ParamError, match=r"`zzz`.*age, name"):
        bind(specs(name="String", age="I32"), {"name": "a", "age": 1, "zzz": 1})


def test_javascript_safe_mode() -> None:
    declared = specs(a="I64")
    assert bind(declared, {"a": 5.0}, js_safe=True) == {"a": 5}
    assert bind(declared, {"a": SAFE}, js_safe=True) == {"a": SAFE}
    assert bind(declared, {"a": str(SAFE + 1)}, js_safe=True) == {"a": SAFE + 1}
    with pytest.raises(ParamError):
        bind(declared, {"a": SAFE + 1}, js_safe=True)
    with pytest.raises(ParamError):
        bind(declared, {"a": 5.5}, js_safe=True)


@pytest.mark.parametrize(
    ("declared", "given", "stored"),
    [
        ("Date", date(1970, 1, 2), 1),
        ("DateTime", datetime(1970, 1, 1, 1, tzinfo=UTC), 3_600_000),
        ("[I32]", (1, 2), [1, 2]),
        ("Vector(2)", np.array([1, 0.5], np.float32), [1.0, 0.5]),
        ("I64?", np.int64(7), 7),
        ("Date?", np.datetime64("NaT"), None),
    ],
)
def test_python_values_are_accepted(declared: str, given: Any, stored: Any) -> None:
    assert bind(specs(a=declared), {"a": given}) == {"a": stored}


@pytest.mark.parametrize(
    ("declared", "given", "word"),
    [
        ("String", Mood(), "a Python Mood"),
        ("String", date(2020, 1, 1), "a Python date"),
        ("Vector(2)", np.ones((2, 2)), "2 dimensions"),
        ("Date", np.datetime64("NaT"), "cannot be null"),
    ],
)
def test_other_python_values_are_named(declared: str, given: Any, word: str) -> None:
    with pytest.raises(ParamError, match=word) as caught:
        bind(specs(a=declared), {"a": given})
    assert f"parameter `a` of type {declared}" in str(caught.value)
    assert caught.value.details["param"] == "a"


def test_parameters_may_stand_where_the_name_does() -> None:
    assert named_or_given(None, None) == (None, None)
    assert named_or_given("q", {"a": 1}) == ("q", {"a": 1})
    assert named_or_given({"a": 1}, None) == (None, {"a": 1})
    for params in ({}, {"a": 1}):
        with pytest.raises(BadRequest, match="second place"):
            named_or_given({"a": 1}, params)


RECORDS = RecordList(
    (
        ("h", TEXT),
        ("n", PropType(Scalar.I32, nullable=True)),
        ("on", PropType(Scalar.DATE, nullable=True)),
    )
)


def test_records_are_bound_field_by_field() -> None:
    bound = bind(
        [ParamSpec("rows", RECORDS)],
        {"rows": [{"h": "a", "n": "3"}, {"h": "b", "on": "1970-01-02"}]},
    )
    assert bound == {"rows": [{"h": "a", "n": 3, "on": None}, {"h": "b", "n": None, "on": 1}]}
    assert bind([ParamSpec("rows", RECORDS)], {"rows": ()}) == {"rows": []}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"h": "a"}, {"hh": "b"}], ["element 2", "hh"]),
        ([{"h": "a"}, {"n": 1}], ["element 2", "`h`", "missing"]),
        ([{"h": None}], ["element 1", "`h`", "null"]),
        ([{"h": "a", "n": "old"}], ["element 1", "`n`", "I32"]),
        ([{"h": "a", "n": 2**40}], ["element 1", "`n`"]),
        ([None], ["element 1"]),
        (["a"], ["element 1"]),
        ({"h": "a"}, ["array"]),
        ("a", ["array"]),
        (None, ["null"]),
    ],
)
def test_a_record_that_does_not_fit_is_told_by_its_place(given: object, words: list[str]) -> None:
    with pytest.raises(ParamError) as caught:
        bind([ParamSpec("rows", RECORDS)], {"rows": given})
    message = str(caught.value)
    assert message.startswith("param error:")
    for word in ("rows", *words):
        assert word in message


def test_an_optional_list_of_records_may_be_left_out() -> None:
    assert bind([ParamSpec("rows", RECORDS.as_nullable(True))], {}) == {"rows": None}
