"""The process that reads damaged inputs: a parser that crashes takes nothing else with it."""

from __future__ import annotations

import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from omnigraph.errors import OmniGraphError
from tests.faults.fuzz.parsers import PARSERS

CPU_SECONDS = 60.0
"""No input takes a parser even a hundredth of this, on whatever machine."""
MEMORY = 400 << 20
"""How much more memory a run may take in all; its inputs have at most 64 KiB each."""


class Fuzzed(NamedTuple):
    """How a run went: inputs that were read or refused, the first defect if any, and what it took."""

    read: int
    refused: int
    defect: str | None
    seconds: float = 0.0
    """Of CPU time."""


class TooLong(BaseException):
    """One input has used up its time."""


def fuzz(name: str, seed: str, count: int) -> Fuzzed:
    """Read so many damaged inputs."""
    signal.signal(signal.SIGPROF, _stop)
    # Arrow prints what it cannot show of a CSV row; the error that comes of it is what counts.
    sys.unraisablehook = lambda _: None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = refused = 0
    with tempfile.TemporaryDirectory() as place:
        parser = PARSERS[name](Path(place))
        for number in range(0, count, parser.inputs):
            given = parser.make(Random(f"{seed} {name} {number}"))
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                parser.read(given)
                read += parser.inputs
            except parser.refuses as error:
                _check_message(error)
                refused += parser.inputs
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is a defect
                return Fuzzed(read, refused, _told(number, given, error))
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > MEMORY:
        return Fuzzed(read, refused, f"{grown >> 20} MiB of memory for {count} inputs")
    return Fuzzed(read, refused, None, time.process_time())


def _check_message(error: Any) -> None:
    """A refusal can be shown and sent: it has a text, a code, and a body of plain values."""
    assert isinstance(error, OmniGraphError)
    assert error.code
    assert str(error).encode()


def _stop(*_: object) -> None:
    raise TooLong


def _told(number: int, given: Any, error: BaseException) -> str:
    shown = repr(given)
    shown = shown if len(shown) < 2000 else f"{shown[:1000]} … {shown[-1000:]}"
    trace = "".join(traceback.format_exception(error)[-6:])
    return f"input {number}: {shown}\n{trace}"
