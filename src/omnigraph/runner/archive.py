"""Let Java share the classes of an earlier run: two fifths less work for Spark's start and its first job.

Java can write down the classes that a run has loaded and verified, and map them into memory the next time.
Writing them is left to whoever wants it (`archive_build`), and here a file that is there is only used. On Java 17 a
start and a first job take 25 s of processor time without it and 15 s with it; writing it takes 28 s more, at the end
of the process that does (Java 25 by `-XX:+AutoCreateSharedArchive`: 14 s). Where processes are few, or their disks
new each time, that would never come back, so no process pays for it unasked.

Java checks by itself that the file is for this Java and these jars, and starts without it otherwise. But Java 17 dies
on a file that was cut off, so its size is part of its name.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from omnigraph import settings
from omnigraph.runner.java import find_java

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def with_archive(conf: Mapping[str, str]) -> dict[str, str]:
    """Add the archive to Spark's settings, if there is one and the caller's options allow it."""
    given = conf.get(JAVA_OPTIONS, "")
    is_decided = any(word in given for word in ("Archive", "-Xshare", "AOT"))
    archive = None if is_decided or not settings.SPARK_ARCHIVE.get() else find_archive()
    if archive is None:
        return dict(conf)
    # Without -Xlog:disable Java complains on the standard output about an archive that does not fit.
    options = f"{given} -XX:SharedArchiveFile={archive} -Xlog:disable".strip()
    return {**conf, JAVA_OPTIONS: options}


def find_archive() -> Path | None:
    """Return the archive for this Java and this Spark, or None when there is none to rely on."""
    with contextlib.suppress(OSError):
        for path in archive_directory().glob(f"{archive_prefix()}*.jsa"):
            if _is_trusted(path):
                return path
    return None


def archive_directory() -> Path:
    """Return the directory that archives lie in."""
    return settings.CACHE_DIR.get() / "spark"


def archive_prefix() -> str:
    """Return how the names of archives for this Java and this Spark begin; their size in bytes follows."""
    from pyspark import __version__

    java = find_java()
    return f"java-{'none' if java is None else java.version}-spark-{__version__}-"


def _is_trusted(path: Path) -> bool:
    """Whether an archive is whole, and of somebody who may run code here anyway; options have no blanks."""
    state = path.stat()
    is_ours = sys.platform != "win32" and state.st_uid in {0, os.getuid()}
    is_whole = path.name.endswith(f"-{state.st_size}.jsa")
    return is_ours and is_whole and " " not in str(path)
