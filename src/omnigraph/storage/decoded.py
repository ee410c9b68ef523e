"""Checks values that were decoded from JSON: a file in a graph's directory may hold anything.

``msgspec.convert`` was tried in its place: it passes over names that a dataclass does not have, takes an instance
of one without looking into it, and knows no lower bound for a plain ``int``. A file that a newer version wrote must
not be read by what is known of it, so the readers fill in their classes themselves and are judged here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

Check = Callable[[Any], bool]


def has_type(value: Any, kind: Any) -> bool:
    """Return whether a decoded value, with all values inside it, has its annotated type.

    Whole numbers must not be negative: those in our files are versions, incarnations and times.
    """
    return _check_of(kind)(value)


@functools.lru_cache(maxsize=256)
def _check_of(kind: Any) -> Check:
    """Return the check of a type. It is made once: every commit reads its own sidecar."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _of_dataclass(cast("type[Any]", kind))
    if origin is Literal:
        return lambda value: value in arguments
    if origin is UnionType:
        checks = [_check_of(one) for one in arguments]
        return lambda value: any(check(value) for check in checks)
    if origin is tuple:
        item = _check_of(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(item, value))
    if origin is Mapping:
        key, item = map(_check_of, arguments)
        return lambda value: (
            isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))
        )
    if kind is int:
        # Not isinstance: True is an int too.
        return lambda value: type(value) is int and value >= 0
    if kind is Any:
        return lambda _value: True
    return lambda value: isinstance(value, kind)


def _of_dataclass(kind: type[Any]) -> Check:
    hints = get_type_hints(kind)
    checks = [(field.name, _check_of(hints[field.name])) for field in fields(kind)]
    return lambda value: (
        isinstance(value, kind) and all(check(getattr(value, name)) for name, check in checks)
    )
