"""Identifies a process in lock files, leases and sidecars."""

from __future__ import annotations

import functools
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class OwnerProcess:
    """A process. ``process_start`` distinguishes it from a later one with the same number."""

    host: str
    pid: int
    process_start: str

    @classmethod
    def current(cls) -> OwnerProcess:
        """This process, also after a fork."""
        return _owner(os.getpid())

    def as_json(self) -> dict[str, str | int]:
        """The fields as a JSON object."""
        return asdict(self)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@functools.lru_cache(maxsize=1)
def _owner(pid: int) -> OwnerProcess:
    # Without /proc: the time of the first call.
    start = process_start(pid) or f"{time.time():.6f}"
    return OwnerProcess(socket.gethostname(), pid, start)


def process_start(pid: int) -> str | None:
    """A text that identifies when a process started; None when the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The command name, up to the last parenthesis, may contain blanks. Field 22 is the start.
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return f"{boot}/{ticks}"
