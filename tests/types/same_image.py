"""The comparison of two values in plain Python, by which that of whole columns is judged."""

from __future__ import annotations

import math
from typing import Any

from omnigraph.types import PropType


def same_image(t: PropType, a: Any, b: Any) -> bool:
    """Tell whether two stored values of one type are the same, that is, whether nothing changed."""
    if a is None or b is None:
        return a is b
    if t.is_list or t.is_vector:
        return len(a) == len(b) and all(map(_same_item, a, b))
    return _same_item(a, b)


def _same_item(a: Any, b: Any) -> bool:
    return bool(a == b) or (_is_nan(a) and _is_nan(b))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
