"""What a parent and its workers have between them: two sockets, and what is handed down when a worker starts.

    parent -> worker   D: drain     E: end at once     (closed: the parent is gone)
    worker -> parent   R: ready     F and a text: could not be started, because …     (closed: the worker is gone)

What is handed down lies in a file without a name, which every worker reads from its start.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from omnigraph.server.figures import NBYTES, Figures
from omnigraph.server.hosts import Authority
from omnigraph.server.process.boot_data import BootData
from omnigraph.server.process.flags import Options

DRAIN: Final = b"D"
END: Final = b"E"
READY: Final = b"R"
FAILED: Final = b"F"
PIECE: Final = 65_536
"""How many bytes are read at a time."""


@dataclass(frozen=True, slots=True)
class HandedDown:
    """Everything that a worker needs to know to start: nothing is read a second time."""

    options: Options
    data: BootData
    bound: Authority

    def store(self) -> BinaryIO:
        """Write it to a file without a name, for workers to read."""
        file = nameless_file()
        file.write(pickle.dumps(self))
        file.flush()
        return file


def nameless_file() -> BinaryIO:
    """Return a file that nobody else can open; in memory, where the system has that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("omnigraph"), "w+b")
    return cast("BinaryIO", tempfile.TemporaryFile())


def shared_figures(descriptor: int) -> Figures:
    """Return figures that all who have this file see; the file is made as long as it must be."""
    os.ftruncate(descriptor, NBYTES)
    return Figures(memoryview(mmap.mmap(descriptor, NBYTES)))


def handed_down(descriptor: int) -> HandedDown:
    """Read what the parent stored. All workers have the same file, so none moves its position."""
    pieces, at = [], 0
    while piece := os.pread(descriptor, PIECE, at):
        pieces.append(piece)
        at += len(piece)
    found = pickle.loads(b"".join(pieces))  # noqa: S301 - of the parent, which started this process
    return cast("HandedDown", found)
