"""Convert the Python objects that callers pass into the JSON the codec reads.

These are dates and times of the standard library, pandas timestamps, NumPy and Arrow scalars and
arrays, and tuples. NumPy, pandas and Arrow are recognised without importing them: their values can
exist only in a process that has already loaded the library.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.types.proptype import PropType
from omnigraph.types.unfit import Unfit, shown
from omnigraph.types.values import BlobAddress, blob_to_text

_BUILT_IN = frozenset({str, bool, int, float, type(None)})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RECORD = re.compile(r'\s*(?:\[\s*)?\{\s*"')
_SHOWN_CHARACTERS = 60
_MISSING = frozenset({"NaTType", "NAType"})


def refuse_data(text: str) -> None:
    """Refuse a text that was given as the name of a file and is data: no file is called like that."""
    is_too_long = False
    try:
        os.stat(text)  # noqa: PTH116  # it says of a name that it is too long
    except OSError as error:
        is_too_long = error.errno == errno.ENAMETOOLONG
    except ValueError:
        pass
    else:
        return
    if is_too_long or "\n" in text or _RECORD.match(text):
        begun = " ".join(text[:_SHOWN_CHARACTERS].split())
        raise BadRequest(
            f'a text is the name of a file, and "{begun}…" is none; give records as dicts, or load JSON lines '
            "as bytes"
        )


def record_form(value: object) -> Any:
    """Return the JSON form of a Python value that JSON does not know: the text that loads as such a value."""
    if isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "base64:" + base64.b64encode(value).decode()
    if isinstance(value, BlobAddress):
        return blob_to_text(value)
    if isinstance(value, Mapping):
        return dict(value)
    # Values of NumPy and similar libraries can convert themselves.
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    raise TypeError(f"a Python {type(value).__name__} has no JSON form")


def json_form(t: PropType, value: object) -> Any:
    """Return the JSON form of a value of type ``t``; None for a value that means "missing".

    A value without such a form is returned unchanged, for the codec to refuse. A date is converted
    only if ``t`` is temporal: for a String, its text would be accepted by mistake.
    """
    if type(value) in _BUILT_IN:
        return value
    if isinstance(value, list | tuple):
        return _items(t, value)
    if type(value).__name__ in _MISSING and type(value).__module__.startswith("pandas"):
        return None
    if isinstance(value, date):
        return _temporal(t, value) if t.scalar.is_temporal else value
    if _is(value, "numpy", "ndarray"):
        return _array(t, value)
    if _is(value, "numpy", "generic"):
        return _numpy_scalar(t, value)
    if _is(value, "pyarrow", "Array") or _is(value, "pyarrow", "ChunkedArray"):
        return _arrow_array(t, value)
    if _is(value, "pyarrow", "Scalar"):
        return _arrow_scalar(t, value)
    return value


def _is(value: object, module: str, name: str) -> bool:
    """Tell whether a value is an instance of a library's class; False if the library is not loaded."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _items(t: PropType, values: Iterable[Any]) -> list[Any]:
    items = list(values)
    if {type(item) for item in items} <= _BUILT_IN or not (t.is_list or t.is_vector):
        return items
    # The codec refuses nested lists: do not descend, they may be deep or contain themselves.
    return [item if _is(item, "numpy", "ndarray") else json_form(t.item, item) for item in items]


def _temporal(t: PropType, value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    if value.utcoffset() is not None:
        try:
            value = value.astimezone(UTC)
        except (OverflowError, ValueError):
            raise Unfit(f"{shown(str(value))} leaves the years 0001 to 9999 in UTC") from None
    text = value.replace(tzinfo=None).isoformat()
    if not t.scalar.counts_days:
        return text
    day, _, time = text.partition("T")
    if time.strip("0:."):
        raise Unfit(f"expected a date, got the time of day of {shown(text)}")
    return day


def _array(t: PropType, array: Any) -> Any:
    if array.ndim > 1:
        raise Unfit(f"expected a one-dimensional array, got one of {array.ndim} dimensions")
    if array.dtype.kind in "biufU":
        # This also gives None for the masked items of a masked array.
        return array.tolist()
    if array.ndim == 1:
        return _items(t, array)
    inner = array[()]
    return inner if _is(inner, "numpy", "ndarray") else json_form(t, inner)


def _numpy_scalar(t: PropType, value: Any) -> Any:
    import numpy as np

    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _numpy_instant(t, value)
    plain = value.item()
    return plain if type(plain) in _BUILT_IN else value


def _numpy_instant(t: PropType, value: Any) -> Any:
    import numpy as np

    unit = np.datetime_data(value.dtype)[0]
    # Python has no nanoseconds, and Dates and DateTimes have nothing finer than milliseconds.
    wanted = "datetime64[D]" if unit in {"Y", "M", "W", "D"} else "datetime64[us]"
    try:
        converted = value.astype(wanted)
        wrapped = unit not in {"ns", "ps", "fs", "as"} and converted.astype(value.dtype) != value
    except OverflowError:
        wrapped = True
    plain = None if wrapped else converted.item()
    if not isinstance(plain, date):
        raise Unfit(f"{shown(str(value))} leaves the years 0001 to 9999")
    return json_form(t, plain)


def _arrow_array(t: PropType, array: Any) -> list[Any]:
    element = t.element if t.is_list else t
    return [_arrow_scalar(element, item) for item in array]


def _arrow_scalar(t: PropType, scalar: Any) -> Any:
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.ExtensionScalar | pa.DictionaryScalar):
        return json_form(t, scalar.value)
    if isinstance(scalar, pa.ListScalar | pa.LargeListScalar | pa.FixedSizeListScalar):
        return _arrow_array(t, scalar.values)
    if pa.types.is_timestamp(scalar.type):
        return _arrow_instant(t, scalar)
    try:
        return json_form(t, scalar.as_py())
    except ValueError:  # No Python value: a text that is not UTF-8, a duration of nanoseconds.
        return scalar


def _arrow_instant(t: PropType, scalar: Any) -> Any:
    """Convert a timestamp by hand: ``as_py`` would need pandas for nanoseconds."""
    per_us = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(scalar.type.unit)
    microseconds = scalar.value // 1000 if per_us is None else scalar.value * per_us
    try:
        return json_form(t, _EPOCH + timedelta(microseconds=microseconds))
    except OverflowError:
        raise Unfit(f"{shown(str(scalar.value))} leaves the years 0001 to 9999") from None
