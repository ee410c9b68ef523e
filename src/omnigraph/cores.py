"""How many cores there are to work on."""

from __future__ import annotations

import os
import sys


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
