"""Key text: how a typed key value becomes the `id` of a node."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from omnigraph.types.proptype import PropType, Scalar
from omnigraph.types.unfit import Unfit, shown

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def key_text(t: PropType, value: Any) -> str:
    """The canonical text of a stored key value; Date and DateTime give their stored integer."""
    if t.is_list or t.is_vector or t.is_blob:
        raise Unfit(f"a key cannot be of type {t}")
    if value is None:
        raise Unfit("a key cannot be null")
    if t.scalar is Scalar.STRING:
        return str(value)
    if t.scalar is Scalar.BOOL:
        return "true" if value else "false"
    return _float_text(t.scalar, value) if t.scalar.is_float else str(value)


def _float_text(scalar: Scalar, value: float) -> str:
    if not math.isfinite(value):
        raise Unfit(f"a key must be a finite number, got {shown(value)}")
    if scalar is Scalar.F64:
        return positional(repr(float(value)))
    import numpy as np

    return positional(str(np.format_float_positional(np.float32(value))))


def positional(text: str) -> str:
    """A decimal number without exponent, without trailing zeros after the point, without `-0`."""
    if "e" in text:
        from decimal import Decimal

        text = format(Decimal(text), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def composite_id(texts: Iterable[str]) -> str:
    """The id of a key of several members: their texts as a compact JSON array."""
    return _COMPACT.encode(list(texts))


def derive_id(members: Iterable[tuple[PropType, Any]]) -> str:
    """The id of a keyed node, from its key members in stable property id order."""
    texts = [key_text(t, value) for t, value in members]
    return texts[0] if len(texts) == 1 else composite_id(texts)
