"""Processes that are watched: their processor time, their memory, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
MB = 1 << 20


class Watched:
    """A process of this machine, as Linux tells about it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._directory = Path(f"/proc/{pid}")

    def cpu(self) -> float:
        """Seconds of processor time so far, of all threads."""
        fields = (self._directory / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> float:
        """Megabytes in memory now."""
        return self._status("VmRSS")

    def peak(self) -> float:
        """The most megabytes in memory since the last ``forget_peak``."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Begin to watch for a new peak."""
        (self._directory / "clear_refs").write_text("5")

    def _status(self, name: str) -> float:
        for line in (self._directory / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
        raise LookupError(name)


class Server(Watched):
    """A server under way; ``ready`` is the processor time it took to be ready."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        super().__init__(process.pid)
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.ready = self.cpu()
        self.memory_when_ready = self.memory()


@contextmanager
def serving(
    graphs: Mapping[str, Path],
    env: Mapping[str, str] | None = None,
    policy: Path | None = None,
    flags: Sequence[str] = (),
) -> Iterator[Server]:
    """Serve these graphs until the end of the block, without tokens if there is no policy."""
    argv = [sys.executable, "-m", "omnigraph.server.process.main", "--bind", "127.0.0.1:0"]
    argv += ["--unauthenticated"] if policy is None else ["--policy", str(policy)]
    for name, place in graphs.items():
        argv += ["--graph", f"{name}={place}"]
    argv += flags
    surroundings = {**os.environ, "OMNIGRAPH_LOG": "warning", **(env or {})}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=surroundings)  # noqa: S603
    try:
        assert process.stdout is not None
        told = process.stdout.readline().strip()
        if not told:
            raise RuntimeError(f"the server ended with status {process.wait()}")
        yield Server(process, told.partition("=")[2])
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def child(*words: str) -> dict[str, Any]:
    """Run a part of `benchmarks/serving/embedded.py` in a process of its own; what it measured."""
    argv = [sys.executable, "-m", "benchmarks.serving.embedded", *words]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


class Command:
    """A command that ran to its end: seconds, processor time and peak memory."""

    def __init__(self, argv: Sequence[str]) -> None:
        began = time.perf_counter()
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)  # noqa: S603
        # Not the peak that wait4 tells: that is the one of this process, if this is larger.
        watched, self.peak, status = Watched(process.pid), 0.0, None
        while status is None:
            with contextlib.suppress(OSError, LookupError):
                self.peak = max(self.peak, watched.peak())
            done, found, used = os.wait4(process.pid, os.WNOHANG)
            status = found if done else None
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{argv} ended with status {process.returncode}")
        self.seconds = time.perf_counter() - began
        self.cpu = used.ru_utime + used.ru_stime
