"""How providers are called: how long, how often, how many texts at once."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph import settings


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
        """Return what the environment says now."""
        deadline = settings.EMBED_DEADLINE_MS.get()
        return CallLimits(
            timeout=settings.EMBED_TIMEOUT_MS.get() / 1000,
            deadline=deadline / 1000 if deadline else None,
            attempts=settings.EMBED_RETRY_ATTEMPTS.get(),
            backoff=settings.EMBED_RETRY_BACKOFF_MS.get() / 1000,
            rate=settings.EMBED_RATE.get(),
            batch=settings.EMBED_BATCH.get(),
        )
