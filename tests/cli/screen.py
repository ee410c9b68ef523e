"""A terminal with a person at it: the command line on a pseudo terminal, and the screen it draws.

Keys are sent, and the screen is read once it shows what is waited for. Nothing is timed: the only
limit is one that a hanging program meets.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyte

from tests.cli.running import environment

HANGS = 600
TAB, ENTER, UP, ESCAPE = "\t", "\r", "\x1b[A", "\x1b"
CTRL_C, CTRL_D = "\x03", "\x04"

_PROGRAM = """
import fcntl, runpy, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C at this terminal interrupts this process
runpy.run_module("omnigraph", run_name="__main__", alter_sys=True)
"""


class _Answering(pyte.HistoryScreen):
    """A screen that answers what programs ask a terminal, such as where the cursor is."""

    answer: Callable[[str], None]

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """The command line at a terminal of its own, to be used in a `with`."""

    def __init__(
        self,
        argv: Sequence[str],
        place: Path,
        env: Mapping[str, str] | None = None,
        size: tuple[int, int] = (100, 30),
    ) -> None:
        columns, lines = size
        self._screen = _Answering(columns, lines, history=10_000)
        self._screen.answer = self._write
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        variables = environment(place / "home", {"TERM": "xterm-256color", **(env or {})})
        variables.pop("COLUMNS", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *argv],
            cwd=place,
            env=variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        """The screen, with what has scrolled off its top."""
        above = ["".join(line[at].data for at in sorted(line)) for line in self._screen.history.top]
        lines = [line.rstrip() for line in (*above, *self._screen.display)]
        return "\n".join(lines).rstrip()

    def style_of(self, text: str) -> Any:
        """Return how the first character of a text on the screen is drawn: `fg`, `bold` and so on."""
        for number, line in enumerate(self._screen.display):
            if text in line:
                return self._screen.buffer[number][line.index(text)]
        raise AssertionError(f"not on the screen: {text}\n{self.text}")

    def type(self, keys: str) -> None:
        """Press keys."""
        self._write(keys)

    def wait_for(self, *texts: str) -> str:
        """Read until the screen shows all of these; return the screen."""
        self._read_until(lambda: all(text in self.text for text in texts), f"to show {texts}")
        return self.text

    def wait_until(self, fits: Callable[[str], bool]) -> str:
        """Read until the screen fits; return it."""
        self._read_until(lambda: fits(self.text), "to fit")
        return self.text

    def wait_for_end(self) -> int:
        """Read until the program has ended; return its exit code."""
        deadline = time.monotonic() + HANGS
        while self._read(deadline):
            pass
        return self._process.wait(HANGS)

    def _read_until(self, is_there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + HANGS
        while not is_there():
            more = self._read(deadline)
            assert more or is_there(), f"ended, expected {what}; the screen:\n{self.text}"

    def _read(self, deadline: float) -> bool:
        """Draw what the program has written next; return False at its end."""
        ready, _, _ = select.select([self._ours], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"hangs; the screen:\n{self.text}"
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other end is closed
            return False
        self._stream.feed(data)
        return bool(data)

    def _write(self, keys: str) -> None:
        os.write(self._ours, keys.encode())
