"""The machine's clock, and the ids that contain its time."""

from __future__ import annotations

import hashlib
import re
import time

from omnigraph.errors import StorageError

ULID_LENGTH = 26
_ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
"""Crockford's alphabet has no I, L, O and U; 128 bits leave three for the first digit."""


def now_us() -> int:
    """Return the microseconds since the epoch, even if they are negative."""
    return time.time_ns() // 1000


def stamp_us() -> int:
    """Return the microseconds since the epoch for storing; refuse a clock before 1970."""
    now = now_us()
    if now < 0:
        raise StorageError(
            "the clock of this machine stands before 1970, which no commit can record; set it right "
            "and try again"
        )
    return now


def is_ulid(text: str) -> bool:
    """Return whether a text is a ULID as this product writes them: 26 digits and capital letters."""
    return _ULID.fullmatch(text) is not None


def is_ulid_prefix(text: str) -> bool:
    """Return whether a text is the beginning of a ULID, but not all of it."""
    return 0 < len(text) < ULID_LENGTH and is_ulid(text.ljust(ULID_LENGTH, "0"))


def new_ulid() -> str:
    """Return a new ULID; refuse a clock before 1970."""
    from ulid import ULID

    stamp_us()
    return str(ULID())


def derived_ulid(text: str) -> str:
    """Return a ULID that is the same for the same text; its time means nothing."""
    from ulid import ULID

    return str(ULID(hashlib.sha256(text.encode()).digest()[:16]))
