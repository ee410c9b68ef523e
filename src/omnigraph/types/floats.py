"""Handle single-precision floats in Python, which has only doubles."""

from __future__ import annotations

import math
import struct

TOO_LARGE = (OverflowError, struct.error)
"""The exceptions of packing a float32: the second for an int beyond the range of doubles."""


def round_f32(value: float) -> float:
    """Return the F32 nearest to a number, as a double; infinite when beyond the range of F32."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except TOO_LARGE:
        return math.inf if value > 0 else -math.inf
    return rounded
