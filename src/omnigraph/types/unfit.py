"""The one refusal of the codec, and how it shows the value it refuses."""

from __future__ import annotations

import json
import math

SHOWN_LENGTH = 80
SHOWN_BITS = 256


class Unfit(ValueError):
    """A value, or the spelling of a type, that cannot be read; the text is the plain reason."""


def shown(value: object) -> str:
    """A short, printable rendering of any JSON value, for messages.

    Arrays and objects are named, not printed: they may be too large or too deep to print.
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
    """A float as JSON writes it, and the JavaScript names of the three it cannot write."""
    if math.isfinite(value):
        return repr(float(value))
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _shown_text(text: str) -> str:
    if len(text) > SHOWN_LENGTH:
        text = text[: SHOWN_LENGTH - 1] + "…"
    # A lone surrogate cannot be printed, so it is escaped along with everything else.
    return json.dumps(text, ensure_ascii=not is_unicode(text))


def is_unicode(text: str) -> bool:
    """Whether the text can be stored: a lone surrogate has no UTF-8 form."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
