"""`@default`: the value that a property gets where a record or an insert leaves it out.

A default is stored as an annotation: a String, an enum value and a time as their text, anything else as
JSON. For example `state: enum(active, gone) @default(active)` is stored as `active`, and
`tags: [String] @default(["a"])` as `["a"]`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.lang.schema.shape import Annotation, Check, Constraint, Group, Range
from omnigraph.lang.schema.syntax import ast
from omnigraph.lang.source import Source, escape
from omnigraph.spans import Span
from omnigraph.types import PropType, Unfit, from_json, shown

DEFAULT: Final = "default"

_MOST_DIGITS: Final = 400
"""More digits than any number of any type has; Python refuses to convert thousands of them."""


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a property: as the catalog has it, as it is stored, and where it was written."""

    value: Any
    annotation: Annotation
    span: Span


def read_default(source: Source, target: str, type_: PropType, written: ast.Annotation) -> Default:
    """Read the `@default` of a property; anything that is no value of its type is a ParseError."""
    if type_.is_vector or type_.is_blob:
        kind = "a vector" if type_.is_vector else "a Blob"
        source.fail(
            f"`@default` cannot stand on {target}: {kind} has no default",
            written.span,
            "only scalars, enums and lists of them have one",
        )
    literal = written.value
    if literal is None:
        source.fail(
            f"`@default` on {target} needs a value", written.span, "for example `@default(0)`"
        )
    given = _given(source, target, type_, literal)
    try:
        value = from_json(type_.as_nullable(nullable=False), given)
    except Unfit as unfit:
        reason = f"`@default` on {target} does not fit {type_.display}: {unfit}"
        source.fail(reason, literal.span, _quotes(type_, literal))
    _check_enum(source, target, type_, literal)
    stored = Annotation(DEFAULT, _text(type_, given, value))
    return Default(_frozen(value), stored, literal.span)


def _given(source: Source, target: str, type_: PropType, literal: ast.Literal) -> Any:
    """The JSON value that a literal stands for."""
    if literal.kind == "list":
        return [_given(source, target, type_, item) for item in literal.items]
    if literal.kind == "string" or type_.is_enum:
        return literal.text
    if literal.kind == "bool":
        return literal.text == "true"
    if literal.kind == "word":
        hint = _quotes(type_, literal)
        if literal.text == "null":
            hint = "what is left out is null without a default"
        source.fail(f"`@default` on {target} is `{literal.text}`, no value", literal.span, hint)
    if len(literal.text) > _MOST_DIGITS:
        source.fail(f"`@default` on {target} has too many digits", literal.span)
    number = float(literal.text) if literal.kind == "float" else int(literal.text)
    return float(number) if type_.element.is_float and _is_float(number) else number


def _is_float(number: float) -> bool:
    """Whether a number is within the range of doubles."""
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _quotes(type_: PropType, literal: ast.Literal) -> str | None:
    is_text = type_.scalar.is_text or type_.scalar.is_temporal
    if is_text and literal.kind not in {"string", "list"}:
        return f"write it in quotes: {escape(literal.text)}"
    return None


def _check_enum(source: Source, target: str, type_: PropType, literal: ast.Literal) -> None:
    for item in literal.items if literal.kind == "list" else (literal,):
        if type_.enum_values is not None and item.text not in type_.enum_values:
            source.fail(
                f"`@default` on {target} is {shown(item.text)}, which is no value of "
                f"{type_.display}",
                item.span,
            )


def _text(type_: PropType, given: Any, value: Any) -> str:
    """The stored text of a default, the same for every way to write it."""
    if type_.is_list:
        element = type_.element
        items = [_plain(element, *both) for both in zip(given, value, strict=True)]
        return json.dumps(items, ensure_ascii=False, separators=(",", ":"))
    plain = _plain(type_, given, value)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _plain(type_: PropType, given: Any, value: Any) -> Any:
    if type_.scalar.is_temporal:
        return type_.scalar.time.format(value)
    # A float as it was written: its nearest F32 may have many more digits.
    return given if type_.scalar.is_float else value


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def default_value(type_: PropType, annotations: Iterable[Annotation]) -> Any:
    """The default among stored annotations as a stored value, a list as a tuple; None without one.

    Raises ``Unfit`` for a text that ``read_default`` would not have stored.
    """
    text = next((one.value for one in annotations if one.name == DEFAULT), None)
    if text is None:
        return None
    is_text = type_.scalar.is_text or type_.scalar.is_temporal
    try:
        given = text if is_text and not type_.is_list else json.loads(text)
    except ValueError:
        raise Unfit(f"{shown(text)} is no default of {type_.display}") from None
    return _frozen(from_json(type_.as_nullable(nullable=False), given))


def default_json(type_: PropType, annotations: Iterable[Annotation]) -> Any:
    """The default among stored annotations as JSON shows it, a list as a tuple; None without one."""
    text = next((one.value for one in annotations if one.name == DEFAULT), None)
    if text is None or (not type_.is_list and (type_.scalar.is_text or type_.scalar.is_temporal)):
        return text
    return _frozen(json.loads(text))


def check_defaults(
    source: Source,
    type_name: str,
    defaults: Mapping[str, Default],
    constraints: Iterable[Constraint],
) -> None:
    """Refuse defaults of key members, and those that a `@range` or `@check` of the type forbids."""
    for constraint in constraints:
        match constraint:
            case Group("key", names):
                for name in names:
                    if name in defaults:
                        source.fail(
                            f"`@default` cannot stand on `{type_name}.{name}`: it is in the `@key`, "
                            "and every node needs one of its own",
                            defaults[name].span,
                        )
            case Range(name, low, high) if name in defaults:
                value = defaults[name].value
                if (low is not None and value < low) or (high is not None and value > high):
                    bounds = f"{'' if low is None else low}..{'' if high is None else high}"
                    source.fail(
                        f"`@default` on `{type_name}.{name}` is {shown(value)}, outside "
                        f"`@range({name}, {bounds})`",
                        defaults[name].span,
                    )
            case Check(name, pattern) if name in defaults:
                if not _matches(defaults[name].value, pattern):
                    source.fail(
                        f"`@default` on `{type_name}.{name}` is {shown(defaults[name].value)}, "
                        f"which breaks `@check({name}, {escape(pattern)})`",
                        defaults[name].span,
                    )
            case _:
                continue


def _matches(text: str, pattern: str) -> bool:
    """Whether the pattern is found in a text. Built from buffers, as in ``constraints``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = text.encode()
    bounds = bytes(4) + len(data).to_bytes(4, "little")
    array = pa.Array.from_buffers(pa.utf8(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return bool(pc.match_substring_regex(array, pattern)[0].as_py())
