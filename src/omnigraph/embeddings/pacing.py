"""How providers are called: how long, how many texts at once, at which rate, and when again."""

from __future__ import annotations

import random
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from omnigraph import settings

LONGEST_PAUSE = 60.0
"""Seconds; pauses between tries double up to it."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The limits of the calls to a provider, in seconds where they are times."""

    timeout: float
    """Of one try."""
    deadline: float | None
    """Of a call with all its tries and the pauses between them."""
    attempts: int
    """How often a call is tried in all."""
    backoff: float
    """The longest pause before the second try; it doubles with every further one."""
    rate: int
    """Calls a second, 0 for no limit."""
    batch: int
    """Texts a call."""

    @staticmethod
    def current() -> CallLimits:
        """Return the limits that the environment sets now."""
        deadline = settings.EMBED_DEADLINE_MS.get()
        return CallLimits(
            timeout=settings.EMBED_TIMEOUT_MS.get() / 1000,
            deadline=deadline / 1000 if deadline else None,
            attempts=settings.EMBED_RETRY_ATTEMPTS.get(),
            backoff=settings.EMBED_RETRY_BACKOFF_MS.get() / 1000,
            rate=settings.EMBED_RATE.get(),
            batch=settings.EMBED_BATCH.get(),
        )


class Clock:
    """The machine's clock and random numbers; tests give their own."""

    def now(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def today(self) -> datetime:
        """Return the date and time."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def between(self, low: float, high: float) -> float:
        """Return a random number."""
        return random.uniform(low, high)


class Rate:
    """Limits calls to a number per second, evenly spaced, whichever threads they come from."""

    def __init__(self, calls_a_second: int, clock: Clock) -> None:
        self._gap = 1 / calls_a_second if calls_a_second else 0.0
        self._clock = clock
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when the call may go out."""
        if not self._gap:
            return
        with self._lock:
            now = self._clock.now()
            mine = max(now, self._next)
            self._next = mine + self._gap
        if mine > now:
            self._clock.sleep(mine - now)


def pause_before_retry(failures: int, backoff: float, asked: float | None, clock: Clock) -> float:
    """Return how long to wait after this many failures: at least what the server asked for.

    The pause is random between nothing and its longest, so that clients that failed together do not
    come back together.
    """
    longest = min(LONGEST_PAUSE, backoff * 2.0 ** (failures - 1))
    return max(clock.between(0.0, longest), asked or 0.0)


def retry_after(header: str | None, clock: Clock) -> float | None:
    """Return the seconds that a ``Retry-After`` asks for, given in seconds or as a date."""
    if header is None:
        return None
    text = header.strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - clock.today()).total_seconds())
