"""The command line `omnigraph`: an edge without rules of its own, over the Python API."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` excludes the program name."""
    try:
        from omnigraph.cli.process import run
    except KeyboardInterrupt:  # before anything that says so is there
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        return 130
    return run(list(sys.argv[1:] if argv is None else argv))
