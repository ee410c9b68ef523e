"""Times as the files of a cluster have them: RFC 3339, UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from omnigraph.clock import now_us


def now_text() -> str:
    """Return this moment."""
    moment = datetime.fromtimestamp(now_us() / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age_seconds(text: object) -> int | None:
    """Return how long ago a moment was, in whole seconds; None for what is no moment."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(now_us() / 1_000_000 - moment.timestamp()))
