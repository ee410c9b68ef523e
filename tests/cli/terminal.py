"""The command line at a terminal: a pseudo terminal, and what it showed."""

import os
import pty
import subprocess
import sys

from tests.cli.running import environment


def start(argv, place, **streams):
    """The command line in a new interpreter, as a user starts it."""
    extra = streams.pop("env", {})
    return subprocess.Popen(
        [sys.executable, "-m", "omnigraph", *argv],
        cwd=place,
        env=environment(place / "home", {"TERM": "xterm", "COLUMNS": "100", **extra}),
        **streams,
    )


def at_terminal(argv, place, env=None):
    """Run it with stderr on a terminal; the exit code, stdout, and what the terminal was sent."""
    ours, theirs = pty.openpty()
    process = start(
        argv, place, env=env or {}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    out, _ = process.communicate()
    return process.returncode, out.decode(), shown.decode()
