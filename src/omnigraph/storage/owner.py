"""Which process does something: written into lock files, leases and sidecars."""

from __future__ import annotations

import functools
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process. ``process_start`` tells it from a later one that was given the same number."""

    host: str
    pid: int
    process_start: str

    @classmethod
    def current(cls) -> Owner:
        """This process, also after a fork."""
        return _owner(os.getpid())

    def as_json(self) -> dict[str, str | int]:
        """The fields as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@functools.lru_cache(maxsize=1)
def _owner(pid: int) -> Owner:
    # Without /proc: the time this was first asked for.
    start = process_start(pid) or f"{time.time():.6f}"
    return Owner(socket.gethostname(), pid, start)


def process_start(pid: int) -> str | None:
    """When a process began, as nothing else on this machine did; None where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The command name before the last parenthesis may hold blanks; field 22 is the start.
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return f"{boot}/{ticks}"
