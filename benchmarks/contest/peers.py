"""The engines that are no dependency of the project, in a directory of their own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from omnigraph import settings

LOCK = Path(__file__).with_name("peers.lock")
PEERS = ("kuzu", "ladybug")


def peers_place(lock: Path = LOCK) -> Path:
    """The directory for the peers of a lock, whether it is there or not."""
    fingerprint = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return settings.CACHE_DIR.get() / f"benchmark-peers-{fingerprint}"


def peers_directory(lock: Path = LOCK, names: Sequence[str] = PEERS) -> Path | None:
    """Where the peers are installed, with their hashes checked; None when that is not possible."""
    place = peers_place(lock)
    if place.is_dir():
        return place
    print(f"installing {' and '.join(names)} into {place} (once)", file=sys.stderr)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        made = Path(scratch) / "peers"
        command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        command += ["--no-input", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        command += ["--target", str(made), "-r", str(lock)]
        if subprocess.run(command, check=False).returncode != 0:  # noqa: S603
            print("could not install them; going on without", file=sys.stderr)
            return None
        shutil.move(made, place)
    return place
