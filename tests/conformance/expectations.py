"""How an answer is compared with what a case expects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from omnigraph.errors import OmniGraphError

FLOAT_TOLERANCE = 1e-6


def only_known(what: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Fail on a key this runner does not understand, so that no expectation passes unread."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        pytest.fail(f"{what}: the runner knows no key {', '.join(unknown)}", pytrace=False)


def check_error(error: OmniGraphError, expect: Mapping[str, Any]) -> None:
    """`error_contains`, `error_kind` and `has_span`, whichever are given."""
    message = str(error).lower()
    words = [str(word) for word in expect.get("error_contains", [])]
    missing = [word for word in words if word.lower() not in message]
    if missing:
        pytest.fail(f"{missing} not in the message: {error}", pytrace=False)
    kind = expect.get("error_kind")
    if kind is not None and kind not in _codes(error):
        pytest.fail(f"expected an error of kind {kind}, got {error.code}: {error}", pytrace=False)
    if "has_span" in expect:
        assert (getattr(error, "span", None) is not None) is expect["has_span"], str(error)


def _codes(error: OmniGraphError) -> set[str]:
    """The code of an error and of the kinds it is a case of."""
    return {kind.code for kind in type(error).__mro__ if issubclass(kind, OmniGraphError)}


def check_rows(got: Sequence[Mapping[str, Any]], want: Sequence[Any], *, ordered: bool) -> None:
    """The rows of a read: in sequence, or as a multiset."""
    if not ordered:
        got = _aligned(got, want)
    if len(got) != len(want) or not all(map(same_value, got, want)):
        shown = "\n".join(["got:", *map(str, got), "expected:", *map(str, want)])
        pytest.fail(f"rows differ\n{shown}", pytrace=False)


def _aligned(got: Sequence[Any], want: Sequence[Any]) -> Sequence[Any]:
    """The rows in the order of the expected ones they equal; strangers at the end."""
    rest, aligned = list(got), []
    for row in want:
        at = next((at for at, other in enumerate(rest) if same_value(other, row)), None)
        if at is not None:
            aligned.append(rest.pop(at))
    return aligned + rest


def same_value(got: Any, want: Any) -> bool:
    """JSON equality; numbers within a small tolerance when one of them is a float."""
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return got.keys() == want.keys() and all(same_value(got[k], want[k]) for k in want)
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(same_value, got, want))
    if isinstance(got, bool) or isinstance(want, bool) or not _are_numbers(got, want):
        return type(got) is type(want) and bool(got == want)
    if isinstance(got, int) and isinstance(want, int):
        return got == want
    return bool(abs(got - want) <= FLOAT_TOLERANCE)


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def matches(got: Any, want: Any) -> bool:
    """Whether every key the expectation lists is there with that value."""
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        return all(key in got and matches(got[key], want[key]) for key in want)
    return same_value(got, want)
