"""The memory of a process and of those it started, by what they are. Reads /proc (Linux)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

SECONDS = 0.2


@contextlib.contextmanager
def peaks(*roots: int) -> Iterator[dict[str, float]]:
    """The highest memory in MB seen of the driver and of each kind of process below it.

    `roots` are further processes to look at, such as those of a cluster. Of several processes of a
    kind, the largest counts.
    """
    found: dict[str, float] = {}
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(SECONDS):
            for kind, size in _sizes((os.getpid(), *roots)).items():
                found[kind] = max(found.get(kind, 0.0), size)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()


def _sizes(roots: tuple[int, ...]) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for root in roots:
        for pid in (root, *descendants(root)):
            with contextlib.suppress(OSError):
                kind = _kind(pid)
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                size = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
                sizes[kind] = max(sizes.get(kind, 0.0), size)
    return sizes


def is_java(pid: int) -> bool:
    """Whether a process runs Java."""
    return _is_java(Path(f"/proc/{pid}/cmdline").read_bytes())


def _is_java(line: bytes) -> bool:
    return line.partition(b"\0")[0].endswith(b"java")


def _kind(pid: int) -> str:
    line = Path(f"/proc/{pid}/cmdline").read_bytes()
    if not _is_java(line):
        return "worker" if b"pyspark" in line else "driver"
    if b"CoarseGrainedExecutorBackend" in line:
        return "executor JVM"
    daemon = b"deploy.master.Master" in line or b"deploy.worker.Worker" in line
    return "cluster daemon" if daemon else "JVM"


def descendants(pid: int) -> list[int]:
    """Every process below one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found
