"""Memory of this process that nothing uses any more."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give memory that is free back to the system; takes milliseconds.

    Arrow keeps what threads had that ended, and the C library what lies between pieces in use. After each
    phase of a large load that is tens of megabytes, which the next phase would not use.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # The C library of Alpine has none.
        trim(0)
