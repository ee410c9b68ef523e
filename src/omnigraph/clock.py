"""The machine's clock, and the ids that are made of it."""

from __future__ import annotations

import time

from omnigraph.errors import StorageError


def now_us() -> int:
    """Microseconds since the epoch, whatever the clock says."""
    return time.time_ns() // 1000


def stamp_us() -> int:
    """The same for what is stored: a clock before the epoch can stamp nothing and is refused."""
    now = now_us()
    if now < 0:
        raise StorageError(
            "the clock of this machine stands before 1970, which no commit can record; set it right "
            "and try again"
        )
    return now


def new_ulid() -> str:
    """A fresh ULID."""
    from ulid import ULID

    stamp_us()
    return str(ULID())
