"""Named points at which a test can make the product fail, wait or die.

A module declares its points when it is imported, and hits them where a crash would matter::

    BEFORE_PHASE_B = failpoints.declare("load.before_phase_b")
    ...
    BEFORE_PHASE_B.hit()

Code that several writers share computes the name and calls ``failpoints.hit(name)``. While no point
is armed, a hit costs one check of an empty dict. A test arms a point in its own process with ``arm``,
and in a child process through ``OMNIGRAPH_FAILPOINTS`` (see ``arm_all``).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from omnigraph.errors import BadRequest, StorageError

ENVIRONMENT = "OMNIGRAPH_FAILPOINTS"
EXIT_CODE = 86
PAUSE_LIMIT = 600.0
"""Seconds after which a pause becomes an error, so that a broken test cannot hang."""

Action = Callable[[str], None]

_declared: set[str] = set()
_armed: dict[str, Armed] = {}
_lock = threading.Lock()


class Point(str):
    """The name of a declared point, with a method to hit it."""

    __slots__ = ()

    def hit(self) -> None:
        """Run the action that a test armed at this point; normally there is none."""
        if _armed:
            _fire(self)


def declare(name: str) -> Point:
    """Register a point and return it."""
    _declared.add(name)
    return Point(name)


def registered() -> tuple[str, ...]:
    """Return all declared points, sorted. A point appears once its module is imported."""
    return tuple(sorted(_declared))


def hit(name: str) -> None:
    """Hit the declared point of that name."""
    if _armed:
        _fire(name)


def _fire(name: str) -> None:
    """Run the action of an armed point, if it is due."""
    if name not in _declared:
        raise LookupError(f"failpoint {name!r} is hit but not declared")
    with _lock:
        armed = _armed.get(name)
        if armed is None or not armed.is_due():
            return
    # Outside the lock: a paused thread must not keep the others from passing their points.
    armed.action(name)


class Armed:
    """An armed point: a context manager that disarms it at the end."""

    def __init__(self, name: str, action: Action, times: int | None, skip: int) -> None:
        self.name = name
        self.action = action
        self.fired = 0
        self._times = times
        self._skip = skip

    def is_due(self) -> bool:
        """Count a hit and return whether the action should run. The caller holds the lock."""
        if self._skip > 0:
            self._skip -= 1
            return False
        if self._times is not None and self.fired >= self._times:
            return False
        self.fired += 1
        return True

    def disarm(self) -> None:
        """Disarm the point; a second call does nothing."""
        with _lock:
            if _armed.get(self.name) is self:
                del _armed[self.name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disarm()


def arm(
    name: str,
    action: str | BaseException | Action = "raise",
    *,
    times: int | None = None,
    skip: int = 0,
) -> Armed:
    """Arm a declared point.

    ``action`` is ``"raise"`` (a StorageError), ``"exit"`` (``os._exit``, without cleanup), an
    exception to raise, a ``Pause``, or any function of the point's name. The first ``skip`` hits
    pass; then the action runs ``times`` times, or at every hit.
    """
    if name not in _declared:
        raise LookupError(f"no failpoint {name!r} is declared; import the module it stands in")
    return _arm(name, _action(action), times, skip)


def _arm(name: str, action: Action, times: int | None, skip: int) -> Armed:
    armed = Armed(name, action, times, skip)
    with _lock:
        if name in _armed:
            raise ValueError(f"failpoint {name!r} is armed already")
        _armed[name] = armed
    return armed


def disarm_all() -> None:
    """Disarm every point."""
    with _lock:
        _armed.clear()


def _action(action: str | BaseException | Action) -> Action:
    """Return the function for an action given as text, exception or function."""
    if isinstance(action, BaseException):
        failure = action

        def throw(_: str) -> None:
            raise failure

        return throw
    if isinstance(action, str):
        kind, _, argument = action.partition(":")
        if action == "raise":
            return _raise
        if kind == "exit" and (not argument or argument.isdecimal()):
            return lambda _: os._exit(int(argument or EXIT_CODE))
        if kind == "pause" and argument:
            return FilePause(Path(argument))
        raise ValueError(f"{action!r} is no failpoint action: raise, exit[:code] or pause:path")
    return action


def _raise(name: str) -> None:
    raise StorageError(f"failpoint {name} fired", failpoint=name)


class Pause:
    """An action that holds each thread that hits the point until ``resume`` is called."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._resumed = threading.Event()

    def __call__(self, name: str) -> None:
        """Wait at the point until the test resumes."""
        self._reached.set()
        if not self._resumed.wait(PAUSE_LIMIT):
            raise TimeoutError(f"nobody resumed failpoint {name}")

    def wait_until_reached(self) -> None:
        """Wait until a thread has reached the point."""
        if not self._reached.wait(PAUSE_LIMIT):
            raise TimeoutError("nobody reached the failpoint")

    def resume(self) -> None:
        """Let every thread continue, now and in later hits."""
        self._resumed.set()


class FilePause:
    """A ``Pause`` between processes: ``<path>.reached`` and ``<path>.resume`` are its two events.

    The child pauses by the action ``pause:<path>``; the test creates its own ``FilePause(path)``.
    """

    def __init__(self, path: Path) -> None:
        self._reached = path.with_name(path.name + ".reached")
        self._resumed = path.with_name(path.name + ".resume")

    def __call__(self, name: str) -> None:
        """Wait at the point until the test resumes."""
        self._reached.touch()
        _wait_for(self._resumed, f"nobody resumed failpoint {name}")

    def wait_until_reached(self) -> None:
        """Wait until a process has reached the point."""
        _wait_for(self._reached, "nobody reached the failpoint")

    def resume(self) -> None:
        """Let every process continue, now and in later hits."""
        self._resumed.touch()


def _wait_for(path: Path, otherwise: str) -> None:
    deadline = time.monotonic() + PAUSE_LIMIT
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.005)


def arm_all(text: str) -> None:
    """Arm the points of a text like ``publish.before=exit;load.after=raise,times=1,skip=2``.

    The points need not be declared yet: a child process is armed before it imports the writers.
    """
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, rest = entry.partition("=")
        action, *options = rest.split(",")
        counts = dict(option.partition("=")[::2] for option in options)
        known = counts.keys() <= {"times", "skip"}
        if not (name and equals and known and all(n.isdecimal() for n in counts.values())):
            raise _bad_entry_error(entry)
        times = int(counts["times"]) if "times" in counts else None
        try:
            _arm(name, _action(action), times, int(counts.get("skip", 0)))
        except ValueError:
            raise _bad_entry_error(entry) from None


def _bad_entry_error(entry: str) -> BadRequest:
    return BadRequest(
        f'{ENVIRONMENT} has the entry "{entry}"; write '
        "name=action[,times=n][,skip=n], with each name once and the action "
        "raise, exit[:code] or pause:path",
        variable=ENVIRONMENT,
        value=entry,
    )


arm_all(os.environ.get(ENVIRONMENT, ""))
