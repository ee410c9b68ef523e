"""Write key values as text: the `id` of a node with a `@key` is made of these texts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from omnigraph.types.proptype import PropType
from omnigraph.types.scalar import Family, Scalar
from omnigraph.types.unfit import Unfit, shown

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def key_text(t: PropType, value: Any) -> str:
    """Write the canonical text of a stored key value; a Date or DateTime is its stored integer."""
    if t.is_list or t.is_vector or t.is_blob:
        raise Unfit(f"a key cannot be of type {t}")
    if value is None:
        raise Unfit("a key cannot be null")
    match t.scalar.traits.family:
        case Family.BOOLEAN:
            return "true" if value else "false"
        case Family.FLOAT:
            return _float_text(t.scalar, value)
    return str(value)


def _float_text(scalar: Scalar, value: float) -> str:
    if not math.isfinite(value):
        raise Unfit(f"a key must be a finite number, got {shown(value)}")
    if scalar.traits.round is None:
        return positional(repr(float(value)))
    import numpy as np

    # NumPy and Arrow name the widths of floats alike.
    narrow = np.dtype(str(scalar.traits.arrow[0])).type(value)
    return positional(str(np.format_float_positional(narrow)))


def positional(text: str) -> str:
    """Rewrite a decimal number without exponent, trailing zeros after the point, or `-0`."""
    if "e" in text:
        from decimal import Decimal

        text = format(Decimal(text), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def composite_id(texts: Iterable[str]) -> str:
    """Join the texts of a key with several members into an id, a compact JSON array."""
    return _COMPACT.encode(list(texts))


def derive_id(members: Iterable[tuple[PropType, Any]]) -> str:
    """Derive the id of a keyed node from its key members, given in stable property id order."""
    texts = [key_text(t, value) for t, value in members]
    return texts[0] if len(texts) == 1 else composite_id(texts)


def spells_key(t: PropType, text: str, derived: str) -> bool:
    """Tell whether a text, read as a value of the key's type, is the key with the id ``derived``.

    `2024-01-01` spells the Date whose id is `19723`, and `1.0` the F64 whose id is `1`.
    """
    try:
        value = _read_key(t.scalar, text)
        return value is not None and key_text(t, value) == derived
    except (Unfit, ValueError, OverflowError):
        return False


def _read_key(scalar: Scalar, text: str) -> Any:
    """Read a key value in any of its spellings; None for types that have only one."""
    match scalar.traits.family:
        case Family.INTEGER:
            return _plain_int(text)
        case Family.FLOAT:
            number = _plain_float(text)
            return number if scalar.traits.round is None else scalar.traits.round(number)
        case Family.TEMPORAL:
            return scalar.time.parse(text)
    return None


def _plain_int(text: str) -> int:
    # int() alone would also take "1_000", white space and digits of other scripts.
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 40:
        raise ValueError(text)
    return int(text)


def _plain_float(text: str) -> float:
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError(text)
    return float(text)
