"""The command line `omnigraph`: a thin layer over the Python API, without rules of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` excludes the program name."""
    try:
        from omnigraph.cli.process import run
    except KeyboardInterrupt:  # Ctrl-C during the import, before `process` can handle it
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        return 130
    return run(list(sys.argv[1:] if argv is None else argv))
