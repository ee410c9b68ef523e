"""The number of cores to work on."""

from __future__ import annotations

import os
import sys


def usable_cores() -> int:
    """Return how many cores this process may use."""
    # On Linux a container or taskset may allow fewer cores than the machine has.
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
