"""Single-precision floats on the way through Python, which has doubles only."""

from __future__ import annotations

import math
import struct

TOO_LARGE = (OverflowError, struct.error)
"""What packing a float32 raises; the second for an int that is not even a double."""


def round_f32(value: float) -> float:
    """The F32 nearest to a number, as a double; infinite when beyond the range of F32."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except TOO_LARGE:
        return math.inf if value > 0 else -math.inf
    return rounded
