"""Convert single values between JSON and their stored form, and compare stored values.

The functions that read raise ``Unfit`` and nothing else, whatever JSON they are given.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from omnigraph import settings
from omnigraph.errors import ResourceLimit
from omnigraph.types.proptype import PropType
from omnigraph.types.scalar import INTEGER_RANGES, JS_SAFE, TOO_LARGE, VECTOR_ITEM, Family, Scalar
from omnigraph.types.unfit import Unfit, is_unicode, shown, shown_float

MANAGED_BLOB = "base64:"
FILE_BLOB = "$file"

Readers = Mapping[Scalar, Callable[[object], Any]]


@dataclass(frozen=True, slots=True)
class FileBlob:
    """A Blob whose bytes are to be taken in from a file: a path, or the URI of one."""

    path: str


@dataclass(frozen=True, slots=True)
class BlobAddress:
    """A Blob whose bytes are kept elsewhere; only the address is stored."""

    uri: str


def from_json(t: PropType, value: object) -> Any:
    """Read a JSON value of a data record as a stored value; enum membership is not checked."""
    return _read(t, value, _DATA, null_items=True)


def param_from_json(t: PropType, value: object, js_safe: bool = False) -> Any:
    """Read a JSON value of a query parameter as a stored value; a Blob parameter stays text.

    With ``js_safe``, floats without a fraction count as integers, and integers that a JavaScript
    number cannot hold must be sent as strings.
    """
    return _read(t, value, _PARAM_JS if js_safe else _PARAM, null_items=False)


def _read(t: PropType, value: object, readers: Readers, null_items: bool) -> Any:
    if value is None:
        if t.nullable:
            return None
        raise Unfit("a value is required, got null")
    if t.dim is not None:
        return _vector(t.dim, value)
    read = readers[t.scalar]
    return _list(t, value, read, null_items) if t.is_list else read(value)


def _list(t: PropType, value: object, read: Callable[[object], Any], null_items: bool) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Unfit(f"expected an array of {t.scalar}, got {shown(value)}")
    if are_plain(t.scalar, value):
        return list(value)
    items: list[Any] = []
    for number, item in enumerate(value, start=1):
        try:
            items.append(None if item is None and null_items else read(item))
        except Unfit as unfit:
            raise Unfit(f"element {number}: {unfit}") from None
    return items


def are_plain(scalar: Scalar, items: Sequence[Any]) -> bool:
    """Tell, looking at all items at once, whether each is a value that every reader returns as it is."""
    kinds = set(map(type, items))
    if scalar.traits.family is Family.INTEGER and kinds == {int}:
        low, high = INTEGER_RANGES[scalar]
        least, most = int(min(items)), int(max(items))
        return max(low, -JS_SAFE) <= least and most <= min(high, JS_SAFE)
    return scalar.traits.family is Family.TEXT and kinds == {str} and is_unicode("".join(items))


def _vector(dim: int, value: object) -> list[float]:
    if not isinstance(value, list | tuple):
        raise Unfit(f"expected an array of {dim} numbers, got {shown(value)}")
    if len(value) != dim:
        raise Unfit(f"expected {dim} numbers, got {len(value)}")
    if {type(item) for item in value} <= {int, float}:
        try:
            rounded = struct.unpack(f"{dim}f", struct.pack(f"{dim}f", *value))
        except TOO_LARGE:
            pass
        else:
            if all(map(math.isfinite, rounded)):
                return list(rounded)
    # At least one element is wrong; go through them to say which.
    return [_component(number, item) for number, item in enumerate(value, start=1)]


def _component(number: int, item: object) -> float:
    if isinstance(item, bool) or not isinstance(item, int | float):
        raise Unfit(f"element {number} must be numeric, got {shown(item)}")
    try:
        return _float(VECTOR_ITEM, item)
    except Unfit as unfit:
        raise Unfit(f"element {number}: {unfit}") from None


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit(f"expected a string, got {shown(value)}")
    if not is_unicode(value):
        raise Unfit(f"expected Unicode text, got a lone surrogate in {shown(value)}")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit(f"expected true or false, got {shown(value)}")
    return value


def _integer(scalar: Scalar, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        low, high = INTEGER_RANGES[scalar]
        if low <= value <= high:
            return int(value)
    raise Unfit(f"expected an integer in the range of {scalar}, got {shown(value)}")


# Leading zeros are matched separately because Python refuses to convert very long digit strings.
_DIGITS = re.compile(r"([+-]?)0*([0-9]{1,20})")


def _param_integer(scalar: Scalar, js_safe: bool, value: object) -> int:
    if isinstance(value, str):
        match = _DIGITS.fullmatch(value)
        number = None if match is None else int(match[1] + match[2])
        low, high = INTEGER_RANGES[scalar]
        if number is None or not low <= number <= high:
            raise Unfit(f"expected an integer in the range of {scalar}, got {shown(value)}")
        return number
    if not js_safe:
        return _integer(scalar, value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    number = _integer(scalar, value)
    if abs(number) > JS_SAFE:
        raise Unfit(f"an integer beyond ±{JS_SAFE} must be sent as a string, got {number}")
    return number


def _float(scalar: Scalar, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit(f"expected a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    else:
        if not math.isfinite(number):
            raise Unfit(f"expected a finite number, got {shown(value)}")
        number = number if scalar.traits.round is None else scalar.traits.round(number)
    if math.isinf(number):
        raise Unfit(f"expected a number in the range of {scalar}, got {shown(value)}")
    return number


def _temporal(scalar: Scalar, is_param: bool, value: object) -> int:
    time = scalar.time
    if isinstance(value, str):
        return time.parse(value)
    if is_param:
        raise Unfit(f"expected {time.expected_text}, got {shown(value)}")
    if isinstance(value, int) and not isinstance(value, bool):
        return time.check(int(value))
    raise Unfit(f"expected {time.expected}, got {shown(value)}")


def blob_from_json(value: object) -> bytes | BlobAddress | FileBlob:
    """Read a Blob of a record: its text form, or ``{"$file": path}``."""
    if isinstance(value, dict):
        path = value.get(FILE_BLOB)
        if len(value) != 1 or not isinstance(path, str) or not path:
            raise Unfit(f'expected {{"{FILE_BLOB}": path}} or a string, got {shown(value)}')
        return FileBlob(_string(path))
    return blob_from_text(value)


def blob_from_text(value: object) -> bytes | BlobAddress:
    """Read the text form of a Blob: ``base64:`` and its payload, or the address of an external one."""
    text = _string(value)
    if not text.startswith(MANAGED_BLOB):
        return BlobAddress(text)
    payload = text[len(MANAGED_BLOB) :]
    _check_inline(payload)
    try:
        content = binascii.a2b_base64(payload, strict_mode=True)
    except ValueError as error:
        raise Unfit(f"not standard base64 after {MANAGED_BLOB!r}: {error}") from None
    # Python ignores unused bits of the last character, but each value must have one text only.
    if base64.b64encode(content[len(content) // 3 * 3 :]).decode() != _tail(payload):
        raise Unfit(f"not standard base64 after {MANAGED_BLOB!r}: unused bits are set at the end")
    return content


def _check_inline(payload: str) -> None:
    """Refuse base64 of more bytes than OMNIGRAPH_INLINE_BLOB_MAX."""
    size = len(payload) // 4 * 3 - payload[-2:].count("=")
    limit = settings.INLINE_BLOB_MAX.get()
    if size > limit:
        raise ResourceLimit(
            f"a blob written as base64 has {size:,} bytes and {settings.INLINE_BLOB_MAX.variable} is "
            f'{limit:,}; write it with graph.blobs.write, or load it from a file with {{"$file": path}}',
            resource="inline_blob_bytes",
            limit=limit,
            actual=size,
        )


def _tail(payload: str) -> str:
    return payload[-4:] if payload.endswith("=") else ""


def _reader(scalar: Scalar) -> Callable[[object], Any]:
    """Return the function that reads a scalar of a data record."""
    match scalar.traits.family:
        case Family.TEXT:
            return _string
        case Family.BOOLEAN:
            return _bool
        case Family.INTEGER:
            return partial(_integer, scalar)
        case Family.FLOAT:
            return partial(_float, scalar)
        case Family.TEMPORAL:
            return partial(_temporal, scalar, False)
        case Family.BLOB:
            return blob_from_json


def _param_reader(scalar: Scalar, js_safe: bool) -> Callable[[object], Any]:
    """Return the function that reads a scalar query parameter."""
    match scalar.traits.family:
        case Family.INTEGER:
            return partial(_param_integer, scalar, js_safe)
        case Family.TEMPORAL:
            return partial(_temporal, scalar, True)
        case Family.BLOB:
            return _string
    return _reader(scalar)


_DATA: Readers = {scalar: _reader(scalar) for scalar in Scalar}
_PARAM: Readers = {scalar: _param_reader(scalar, js_safe=False) for scalar in Scalar}
_PARAM_JS: Readers = {scalar: _param_reader(scalar, js_safe=True) for scalar in Scalar}


def to_json(t: PropType, value: Any, js_safe: bool = False) -> Any:
    """Return the JSON form of a stored value, as results and exports show it."""
    if value is None:
        return None
    if t.is_vector:
        return [item if item is not None and math.isfinite(item) else None for item in value]
    if t.is_list:
        element = t.element
        return [to_json(element, item, js_safe) for item in value]
    match t.scalar.traits.family:
        case Family.FLOAT:
            return value if math.isfinite(value) else shown_float(value)
        case Family.INTEGER if js_safe and abs(value) > JS_SAFE:
            return str(value)
        case Family.TEMPORAL:
            return t.scalar.time.format(value)
        case Family.BLOB:
            return blob_to_text(value)
    return value


def blob_to_text(value: bytes | BlobAddress) -> str:
    """Write the text form of a Blob: its bytes as ``base64:…``, or its address."""
    if isinstance(value, BlobAddress):
        return value.uri
    return MANAGED_BLOB + base64.b64encode(value).decode()
