"""Find and use the archive of Spark's classes, which saves about two fifths of Java's start-up work.

Java can write down the classes that a run loaded and verified, and map them into memory the next
time. The archive is made once, by a child process of low priority (`archive_build`) after a run that
had none, and kept in the cache directory. Its name contains a key (which Java, which Spark) and its
size. Java 17 dies on a truncated archive, so an archive whose size differs from its name is never
used. Java notices every other defect by itself and starts without the archive. Nothing here ever
fails a job.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from omnigraph import settings
from omnigraph.errors import OmniGraphError
from omnigraph.runner.gateway import spark_home
from omnigraph.runner.java import find_java

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# About five times what an archive takes.
_FREE_BYTES = 1_000_000_000
_TRY_AGAIN_SECONDS = 7 * 24 * 3600.0


def with_archive(conf: Mapping[str, str]) -> dict[str, str]:
    """Add the archive to Spark's settings, if there is one and the caller's options allow it."""
    given = conf.get(JAVA_OPTIONS, "")
    archive = None if _is_ruled_out(given) else find_archive()
    if archive is None:
        return dict(conf)
    # Without -Xlog:disable Java complains on the standard output about an archive that does not fit.
    options = f"{given} -XX:SharedArchiveFile={archive} -Xlog:disable".strip()
    return {**conf, JAVA_OPTIONS: options}


def find_archive() -> Path | None:
    """Return the archive for this Java and this Spark, or None when there is none to rely on."""
    with contextlib.suppress(OSError, OmniGraphError):
        key = archive_key()
        for path in archive_directory().glob(f"spark-{key}-*.jsa") if key else ():
            if _is_trusted(path):
                return path
    return None


def build_later(conf: Mapping[str, str]) -> None:
    """Start a child process that makes the archive, unless there is one or it is being made.

    Nor is it tried again within a week after an attempt that failed.
    """
    if _is_ruled_out(conf.get(JAVA_OPTIONS, "")):
        return
    with contextlib.suppress(OSError, OmniGraphError, ValueError):
        key = archive_key()
        if key is None or find_archive() is not None or not claim(archive_directory(), key):
            return
        subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "omnigraph.runner.archive_build", key],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def archive_key() -> str | None:
    """Return a hash of all that an archive depends on; None where no archive can be made."""
    java, home = find_java(), spark_home()
    # Java cannot archive a class path with a directory that is not empty.
    has_own_conf = "SPARK_CONF_DIR" in os.environ or (home / "conf").exists()
    if java is None or has_own_conf or " " in str(archive_directory()) or sys.platform == "win32":
        return None
    facts = [str(java.program), java.version, str(java.program.stat().st_mtime_ns), str(home)]
    for jar in sorted((home / "jars").iterdir()):
        state = jar.stat()
        facts.append(f"{jar.name} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def archive_directory() -> Path:
    """Return the directory that archives and claims are kept in."""
    return settings.CACHE_DIR.get() / "spark"


def archive_path(directory: Path, key: str, size: int) -> Path:
    """Return where the archive for `key` is kept; its size is part of its name."""
    return directory / f"spark-{key}-{size}.jsa"


def claim_path(directory: Path, key: str) -> Path:
    """Return the file whose presence says that the archive for `key` is being made, or failed."""
    return directory / f"spark-{key}.claim"


def claim(directory: Path, key: str) -> bool:
    """Say whether this process may make the archive. A claim that led to nothing holds for a week."""
    directory.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(directory).free < _FREE_BYTES:
        return False
    path = claim_path(directory, key)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime < _TRY_AGAIN_SECONDS:
            return False
        path.unlink()
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _is_ruled_out(java_options: str) -> bool:
    """Whether the setting turns archives off, or the caller's own options already decide about them."""
    words = ("Archive", "-Xshare", "AOT")
    return not settings.SPARK_ARCHIVE.get() or any(word in java_options for word in words)


def _is_trusted(path: Path) -> bool:
    state = path.stat()
    size = path.stem.rpartition("-")[2]
    is_own = not hasattr(os, "getuid") or state.st_uid == os.getuid()
    return is_own and size == str(state.st_size)
