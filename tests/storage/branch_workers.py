"""A process that puts files into a directory as fast as it goes, as a writer of a branch does."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from tests.storage.processes import talk_to


def litter(pipe: Connection, directories: list[str]) -> None:
    """Make files in these directories, made anew where they are gone, until told to stop."""
    for number in itertools.count():
        for directory in directories:
            # Somebody removes the directory between any two steps.
            with contextlib.suppress(OSError):
                Path(directory).mkdir(parents=True, exist_ok=True)
                Path(directory, f"{number}.lance").touch()
        if number == 10:
            pipe.send("begun")
        if pipe.poll():
            pipe.send("stopped")
            return


@contextmanager
def littering(*directories: Path) -> Iterator[None]:
    """Files come into these directories while the block runs."""
    with talk_to(litter, ([str(directory) for directory in directories],)) as (_, pipe):
        assert pipe.poll(600)
        assert pipe.recv() == "begun"
        yield
        pipe.send("stop")
        assert pipe.poll(600)
        assert pipe.recv() == "stopped"
