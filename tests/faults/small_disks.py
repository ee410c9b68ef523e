"""Small disks for tests: file systems in memory of a few MB, which takes root, and a way to fill them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A disk of that size at a place; skips the test where none can be mounted."""
    place.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)],
        capture_output=True, check=False,
    ).returncode  # fmt: skip
    if not mounted:
        pytest.skip("no small disk can be mounted here, which takes root and a real mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, free: int = 0) -> Path:
    """Fill the disk up to that many free bytes."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
        file.truncate(max(0, file.seek(0, os.SEEK_END) - free))
    return filler


def used(place: Path) -> int:
    """How many bytes of the disk are taken."""
    found = os.statvfs(place)
    return (found.f_blocks - found.f_bfree) * found.f_frsize
