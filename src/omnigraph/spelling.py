"""The name that a user most likely meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that the user most likely meant, or None if nothing is close."""
    candidates = list(known)
    by_fold = {candidate.casefold(): candidate for candidate in candidates}
    if name.casefold() in by_fold:
        return by_fold[name.casefold()]
    import difflib

    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for a misspelled name, or None."""
    near = nearest_name(name, known)
    return f"did you mean `{near}`?" if near not in (None, name) else None
