"""Checks values that were decoded from JSON: a file in a graph's directory may hold anything."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints


def has_type(value: Any, kind: Any) -> bool:
    """Return whether a decoded value, with all values inside it, has its annotated type.

    Whole numbers must not be negative: those in our files are versions, incarnations and times.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = _hints(cast("type", kind))
        return isinstance(value, cast("type", kind)) and all(
            has_type(getattr(value, name), hint) for name, hint in hints.items()
        )
    if origin is Literal:
        return value in arguments
    if origin is UnionType:
        return any(has_type(value, one) for one in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(has_type(one, arguments[0]) for one in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(
            has_type(key, arguments[0]) and has_type(one, arguments[1])
            for key, one in value.items()
        )
    if kind is int:
        # Not isinstance: True is an int too.
        return type(value) is int and value >= 0
    return kind is Any or isinstance(value, kind)


@functools.lru_cache(maxsize=64)
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """Resolving annotations takes long, and every commit reads its own sidecar once."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
