"""Making a kept file in one process at a time, so that others can use it instead of making it again.

The lock is a file beside the kept one, and is removed with the end of the work. It saves work and guards
nothing: whoever cannot have it, or has waited for longer than the work should take, does the work as well.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from omnigraph.cancel import look
from omnigraph.read.kept.sealed import make_private
from omnigraph.storage.flock import FileLock, try_lock

_PAUSE: Final = 0.01


@contextlib.contextmanager
def alone(path: Path, seconds: float) -> Iterator[None]:
    """Wait while another process or thread is inside with the same path, but not longer than ``seconds``."""
    held = _locked(path, seconds)
    try:
        yield
    finally:
        if held is not None:
            # Before it is unlocked: nobody else can have locked this file.
            with contextlib.suppress(OSError):
                path.unlink()
            held.unlock()


def _locked(path: Path, seconds: float) -> FileLock | None:
    until = time.monotonic() + seconds
    try:
        for place in (path.parent.parent, path.parent):
            make_private(place)
        while (held := try_lock(str(path))) is None:
            look()
            if time.monotonic() >= until:
                return None
            pause()
    except OSError:
        return None
    return held


def pause() -> None:
    """Wait a moment for the one who has the lock."""
    time.sleep(_PAUSE)
