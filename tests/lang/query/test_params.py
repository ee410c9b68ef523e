"""Binding of parameters: the table of accepted JSON per declared type."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import ParamError
from omnigraph.lang.query.ir import ParamSpec
from omnigraph.lang.query.params import bind
from omnigraph.types import PropType

SAFE = 2**53 - 1


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
