"""The reserve of a graph on a disk: a file that is given up so that recovery works although the disk is full.

Recovering an operation, and `repair`, need room for a few small files: a version of each table, a row of the
manifest. On a full disk there is none, and without recovery nothing could be cleaned up either. So every graph
keeps ``SIZE`` bytes in `__reserve`. Whoever finishes or undoes work removes the file when it meets a full disk,
tries again, and makes it anew as soon as there is room. The bytes are random: a copy of the graph, or a file
system that compresses, must not turn them into a hole. An object store needs none.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from omnigraph.errors import OmniGraphError
from omnigraph.storage.disk import full_disk
from omnigraph.storage.layout import RESERVE
from omnigraph.storage.uris import Root

SIZE: Final = 512 << 10
ROOM: Final = 4 * SIZE
"""A reserve is made only where this much would be left besides."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def with_reserve(root: Root, work: Callable[[], Result]) -> Result:
    """Do something that can be begun again; if the disk is full, once more with the reserve given up."""
    try:
        return work()
    except OmniGraphError as error:
        if not full_disk.is_full(error) or not _give_up(root):
            raise
        logger.warning("the disk of %s is full; using the graph's reserve", root)
    try:
        return work()
    finally:
        keep_reserve(root)


def keep_reserve(root: Root) -> None:
    """Make the reserve if it is missing and the disk has room; never fails."""
    if not root.is_local:
        return
    path = Path(root.path, RESERVE)
    if os.path.exists(path):  # noqa: PTH110 - a Path takes longer, and every write comes by
        return
    free = full_disk.free_bytes(root.path)
    if free is None or free < SIZE + ROOM:
        return
    draft = path.with_name(f"{RESERVE}.{os.getpid()}")
    with contextlib.suppress(OSError):
        try:
            draft.write_bytes(os.urandom(SIZE))
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _give_up(root: Root) -> bool:
    """Remove the reserve; False if there is none."""
    if not root.is_local:
        return False
    try:
        Path(root.path, RESERVE).unlink()
    except OSError:
        return False
    return True
