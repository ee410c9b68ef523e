"""Full disks: how every library's way to say so is recognised, what a user is told, and how a graph recovers.

Lance, Arrow, DuckDB and obstore raise their own classes and put the system's words into the text. A quota that
is used up (EDQUOT) is a full disk too.

Recovering an operation, and `repair`, need room for a few small files: a version of each table, a row of the
manifest. On a full disk there is none, and without recovery nothing could be cleaned up either. So every graph
keeps a reserve: ``RESERVE_BYTES`` in `__reserve`. Whoever finishes or undoes work removes the file when it meets
a full disk, tries again, and makes it anew as soon as there is room. The bytes are random: a copy of the graph, or
a file system that compresses, must not turn them into a hole. An object store needs none.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.storage.layout import RESERVE
from omnigraph.storage.uris import Root

_NUMBERS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_WORDS: Final = re.compile(
    rf"No space left on device|[Dd]isk quota exceeded|\(os error (?:{errno.ENOSPC}|{errno.EDQUOT})\)"
    r"|StorageFull|QuotaExceeded|not enough (?:disk )?space|max_temp_directory_size"
)
_PATH: Final = re.compile(r"/[^\s'\",;:()]+")
_ROOM: Final = 4 << 20
"""A disk with less than this is what a failure was about."""


def is_full(error: BaseException) -> bool:
    """Whether an exception, or one that it was raised from, says that a disk is full."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        if getattr(at, "details", {}).get("disk_full") or getattr(at, "errno", None) in _NUMBERS:
            return True
        if _WORDS.search(str(at)):
            return True
        at = at.__cause__ or at.__context__
    return False


def free_bytes(place: str | Path) -> int | None:
    """How much a user may still write on the disk of a place, which need not exist; None if unknown."""
    path = Path(place)
    for at in (path, *path.parents):
        try:
            found = os.statvfs(at)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, AttributeError):
            return None
        # Files may be what is used up, not bytes.
        return found.f_bavail * found.f_frsize if found.f_favail or not found.f_files else 0
    return None


def disk_full(
    what: str,
    error: BaseException,
    needed: int | None = None,
    kind: type[StorageError] = StorageError,
) -> StorageError:
    """The error for something that a full disk stopped; ``needed``: how many bytes, if that is known.

    Where it happened is looked for in ``what`` and in the error. A full disk of temporary files is told as that.
    """
    place = _place_in((what, *_texts(error)))
    if place is None or _is_of_scratch(place):
        return scratch_full(what, kind=kind)
    advice = (
        "remove what nothing needs with `omnigraph cleanup GRAPH --keep 10 --confirm`, or make room "
        "otherwise, and run it again"
    )
    return _made(kind, f"{what}: the disk is full", place, needed, advice)


def scratch_full(what: str, kind: type[StorageError] = StorageError) -> StorageError:
    """The error for temporary files that found no room."""
    place = tempfile.gettempdir()
    advice = f"make room in {place}, or set TMPDIR to a directory on a larger disk"
    return _made(kind, f"{what}: the disk of temporary files is full", place, None, advice)


def output_full(what: str, place: Path) -> StorageError:
    """The error for a file of the caller's that found no room."""
    advice = "make room, or choose another place"
    return _made(StorageError, f"{what}: the disk is full", str(place), None, advice)


def _made(
    kind: type[StorageError], said: str, place: str, needed: int | None, advice: str
) -> StorageError:
    free = free_bytes(place)
    sizes = [f"{needed:,} bytes were needed"] if needed is not None else []
    sizes += [f"{free:,} bytes are free"] if free is not None else []
    shown = f" ({', '.join(sizes)})" if sizes else ""
    return kind(
        f"{said}{shown}; {advice}",
        disk_full=True,
        place=place,
        free_bytes=free,
        needed_bytes=needed,
    )


def _texts(error: BaseException) -> Iterable[str]:
    at: BaseException | None = error
    while at is not None:
        name = getattr(at, "filename", None)
        if isinstance(name, str):
            yield name
        yield str(at)
        at = at.__cause__


def _place_in(texts: Iterable[str]) -> str | None:
    """The first path in some texts that lies in a directory that is there."""
    for text in texts:
        for path in _PATH.findall(text):
            if len(Path(path).parts) > 2 and any(
                at.is_dir() for at in list(Path(path).parents)[:4]
            ):
                return str(path)
    return None


def _is_of_scratch(place: str) -> bool:
    """Whether it is the disk of temporary files that is full, although something else was to be written."""
    scratch = tempfile.gettempdir()
    here, there = free_bytes(place), free_bytes(scratch)
    return here is not None and there is not None and there < _ROOM <= here


RESERVE_BYTES: Final = 512 << 10
ROOM_FOR_RESERVE: Final = 4 * RESERVE_BYTES
"""A reserve is made only where this much would be left besides."""

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def with_reserve(root: Root, work: Callable[[], Result]) -> Result:
    """Do something that can be begun again; if the disk is full, once more with the reserve given up."""
    try:
        return work()
    except OmniGraphError as error:
        if not is_full(error) or not _give_up(root):
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
    free = free_bytes(root.path)
    if free is None or free < RESERVE_BYTES + ROOM_FOR_RESERVE:
        return
    draft = path.with_name(f"{RESERVE}.{os.getpid()}")
    with contextlib.suppress(OSError):
        try:
            draft.write_bytes(os.urandom(RESERVE_BYTES))
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
