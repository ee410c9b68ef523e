"""The exception for values that do not fit their type, and how messages show such values."""

from __future__ import annotations

import json
import math

SHOWN_LENGTH = 80
SHOWN_PLACE_LENGTH = 1_000
SHOWN_BITS = 256


class Unfit(ValueError):
    """Raised for a value, or the spelling of a type, that cannot be read; the text says why."""


def shown(value: object) -> str:
    """Render any JSON value for a message, short and printable.

    Arrays and objects are only named: they may be too large or too deep to print.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        bits = value.bit_length()
        return str(value) if bits <= SHOWN_BITS else f"an integer of {bits} bits"
    if isinstance(value, float):
        return shown_float(value)
    if isinstance(value, str):
        return _shown_text(value)
    if isinstance(value, list | tuple):
        return f"an array of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    return f"a Python {type(value).__name__}"


def shown_float(value: float) -> str:
    """Write a float as in JSON; NaN and the infinities get the names JavaScript has for them."""
    if math.isfinite(value):
        return repr(float(value))
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def shown_place(place: str) -> str:
    """Render a path or an address for a message, whole unless it is absurdly long."""
    return _shown_text(place, SHOWN_PLACE_LENGTH)


def _shown_text(text: str, length: int = SHOWN_LENGTH) -> str:
    if len(text) > length:
        text = text[: length - 1] + "…"
    # A lone surrogate cannot be printed; if there is one, escape everything that is not ASCII.
    return json.dumps(text, ensure_ascii=not is_unicode(text))


def is_unicode(text: str) -> bool:
    """Tell whether a text can be stored as UTF-8, which has no form for a lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
