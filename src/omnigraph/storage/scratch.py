"""Directories for temporary files, and the removal of those whose process is gone.

A process that is killed leaves its directories behind. Their names say which process made them, so
the next one that makes a directory in the same place finds and removes them. It does not
touch directories of another user, another machine or a living process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

from omnigraph.storage.owner import OwnerProcess, process_start

_NAME: Final = re.compile(r"omnigraph-(?:[a-z]+-)?([0-9a-f]{12})-([0-9]+)-([0-9a-f]{12})-.+")
_SWEEP_SECONDS: Final = 60.0

_swept: dict[Path, float] = {}


def scratch_directory(directory: Path | None = None) -> tempfile.TemporaryDirectory[str]:
    """A directory that is removed with the returned object; in ``directory``, or in the system's place."""
    return tempfile.TemporaryDirectory(prefix=_prefix(""), dir=_swept_place(directory))


def make_scratch(what: str) -> Path:
    """Create a directory that the caller must remove; ``what`` is a word for its name."""
    return Path(tempfile.mkdtemp(prefix=_prefix(f"{what}-"), dir=_swept_place(None)))


def _prefix(what: str) -> str:
    owner = OwnerProcess.current()
    return f"omnigraph-{what}{_place()}-{owner.pid}-{_digest(owner.process_start)}-"


@functools.cache
def _place() -> str:
    """Where a process number is unique: a machine, and on Linux a namespace of processes.

    Several machines may share a directory, and even have the same host name.
    """
    space = machine = ""
    with contextlib.suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    with contextlib.suppress(OSError):
        machine = Path("/etc/machine-id").read_text(errors="replace")
    return _digest(f"{OwnerProcess.current().host} {machine} {space}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _swept_place(directory: Path | None) -> Path:
    """The place for a new directory; now and then, abandoned directories there are removed first."""
    place = Path(tempfile.gettempdir()) if directory is None else directory
    now = time.monotonic()
    if now - _swept.get(place, -_SWEEP_SECONDS) >= _SWEEP_SECONDS:
        _swept[place] = now
        remove_abandoned(place)
    return place


def remove_abandoned(place: Path) -> None:
    """Remove the directories in a place that were made by this user's processes that have ended."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith("omnigraph-") and _is_abandoned(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    match = _NAME.fullmatch(entry.name)
    if match is None or match[1] != _place():
        return False
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and (
        not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    )
    return ours and not _is_running(int(match[2]), match[3])


def _is_running(pid: int, started: str) -> bool:
    """Whether the process is running, and is not a later one with the same number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    known = process_start(pid)
    return known is None or _digest(known) == started
