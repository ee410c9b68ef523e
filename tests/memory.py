"""The memory that a step takes, measured in a process that does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.storage.processes import run_processes

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc of Linux"
)


def memory(field: str) -> int:
    """`VmRSS` or `VmHWM` of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def peak_of(step: Callable[[], Any]) -> tuple[Any, int]:
    """What a step of this process returns, and the bytes that it took over idle at its peak."""
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    result = step()
    return result, memory("VmHWM") - before


def in_a_process(worker: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker returns that runs in a process of its own."""
    (result,) = run_processes(worker, [arguments])
    return result
