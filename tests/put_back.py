"""A graph that many tests begin with: made once, and put back for each of them where it was made.

A graph that is copied to another place begins there with a commit that says so, and its branches look for their
files at the old one. So it is always put back at its own place, and one test at a time has it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from omnigraph.storage import layout
from omnigraph.storage.tables.lance_import import forget_sessions


class MadeOnce:
    """A graph that ``make(place)`` makes, which leaves it closed."""

    def __init__(self, make: Callable[[Path], object]) -> None:
        directory = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        self._place, self._kept = directory / "graph", directory / "kept"
        make(self._place)
        self._place.rename(self._kept)

    def put_back(self) -> Path:
        """Where the graph lies, as it was made; whatever was done to it since is gone."""
        put_back(self._kept, self._place)
        # As in a process that has never seen it.
        forget_sessions()
        return self._place


def put_back(kept: Path, place: Path) -> None:
    """Have at ``place`` what is in ``kept``, and nothing else."""
    shutil.rmtree(place, ignore_errors=True)
    # Files are only ever replaced, never written into, so links will do.
    shutil.copytree(kept, place, copy_function=os.link, ignore=_locks)


def _locks(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == layout.LOCKS_DIR]
