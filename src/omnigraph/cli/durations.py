"""Durations as flags give them: a whole number and a unit, such as `30s` or `7d`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from omnigraph.errors import BadRequest

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="DUR", help="Give up after this time: a number and s, m, h, d or w."
    ),
]


@contextmanager
def time_limit(given: str | None) -> Iterator[None]:
    """Stop what runs inside when the time that `--timeout` gives is over."""
    from omnigraph.cancel import Cancel, watching

    with watching(None if given is None else Cancel(seconds_of("--timeout", given))):
        yield


def seconds_of(flag: str, text: str) -> int:
    """Return the seconds that a duration means."""
    found = re.fullmatch(r"([0-9]{1,18})([smhdw])", text.strip())
    if found is None:
        raise BadRequest(
            f'{flag} is "{text}"; write a whole number and s, m, h, d or w, such as 7d'
        )
    return int(found[1]) * UNITS[found[2]]
