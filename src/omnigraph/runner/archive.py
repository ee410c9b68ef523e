"""The archive of Spark's classes that lets Java start with about three fifths of the work.

Java can write down the classes a run has loaded and verified, and map them the next time. The
archive is made once, by a child of low priority after a run that had none, and kept in the cache
directory under a name that says for which Java, which Spark and of how many bytes. Java 17 dies on
a truncated archive, so one whose size is not that of its name is never used. Everything else that
may be wrong with it Java sees by itself and does without, and so do we: nothing here ever fails a
job.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph import settings
from omnigraph.errors import OmniGraphError
from omnigraph.runner.java import find_java
from omnigraph.storage.scratch import scratch_directory

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# About five times what an archive takes.
_FREE_BYTES = 1_000_000_000
_BUILD_SECONDS = 600.0
_TRY_AGAIN_SECONDS = 7 * 24 * 3600.0
_KEPT = 2


def with_archive(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings with the archive in them, when there is one and the caller's options allow."""
    given = conf.get(JAVA_OPTIONS, "")
    archive = None if _decided_otherwise(given) else find_archive()
    if archive is None:
        return dict(conf)
    # Java would say on the standard output what it thinks of an archive that does not fit.
    options = f"{given} -XX:SharedArchiveFile={archive} -Xlog:disable".strip()
    return {**conf, JAVA_OPTIONS: options}


def find_archive() -> Path | None:
    """The archive for this Java and this Spark; None when there is none to rely on."""
    with contextlib.suppress(OSError, OmniGraphError):
        key = archive_key()
        for path in _directory().glob(f"spark-{key}-*.jsa") if key else ():
            if _trusted(path):
                return path
    return None


def build_later(conf: Mapping[str, str]) -> None:
    """Have a child make the archive, if there is none and nobody is at it or failed at it."""
    if _decided_otherwise(conf.get(JAVA_OPTIONS, "")):
        return
    with contextlib.suppress(OSError, OmniGraphError, ValueError):
        key = archive_key()
        if key is None or find_archive() is not None or not _claim(_directory(), key):
            return
        subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "omnigraph.runner.archive", key],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def archive_key() -> str | None:
    """What an archive depends on, as a name; None where none can be made."""
    from pyspark.find_spark_home import _find_spark_home

    java, home = find_java(), Path(_find_spark_home())
    # A class path with a directory that is not empty cannot be archived.
    has_own_conf = "SPARK_CONF_DIR" in os.environ or (home / "conf").exists()
    if java is None or has_own_conf or " " in str(_directory()) or sys.platform == "win32":
        return None
    facts = [str(java.program), java.version, str(java.program.stat().st_mtime_ns), str(home)]
    for jar in sorted((home / "jars").iterdir()):
        state = jar.stat()
        facts.append(f"{jar.name} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def build(key: str) -> Path | None:
    """Make the archive for `key` and publish it; None when this Java does not take it."""
    directory = _directory()
    with scratch_directory(directory) as place:
        made = Path(place) / "archive.jsa"
        _run_samples(f"-XX:ArchiveClassesAtExit={made} -Xlog:disable", samples=True)
        if not made.exists() or archive_key() != key or not _taken(made):
            return None
        with made.open("rb") as stream:
            os.fsync(stream.fileno())
        published = directory / f"spark-{key}-{made.stat().st_size}.jsa"
        made.replace(published)
    _remove_old(directory, published)
    _claim_path(directory, key).unlink(missing_ok=True)
    return published


def _taken(archive: Path) -> bool:
    # Only here: a Java that must share and cannot does not start at all.
    try:
        _run_samples(f"-XX:SharedArchiveFile={archive} -Xshare:on -Xlog:disable", samples=False)
    except OmniGraphError:
        return False
    return True


def _run_samples(options: str, *, samples: bool) -> None:
    from omnigraph.runner import session

    spark = session.spark_session("local[2]", {JAVA_OPTIONS: options})
    if samples:
        _sample_jobs(spark)
    session.stop_session(seconds=_BUILD_SECONDS)


def _sample_jobs(spark: SparkSession) -> None:
    """What a load does to Spark: Arrow functions, a frame kept on disk, the shapes of set rules."""
    from pyspark import StorageLevel

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    frame = spark.range(0, 1000, 1, 2).selectExpr("id", "CAST(id AS STRING) AS name")
    kept = frame.mapInArrow(same, frame.schema).persist(StorageLevel.DISK_ONLY)
    kept.createOrReplaceTempView("kept")
    spark.sql(
        "SELECT name FROM (SELECT name, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id DESC) "
        "AS rn FROM kept) w WHERE rn = 1 AND NOT EXISTS "
        "(SELECT 1 FROM kept k WHERE k.id = 1 AND k.name = w.name)"
    ).count()
    spark.sql(
        "SELECT k.name, COUNT(*) AS n, MIN(k.id) AS first FROM kept k LEFT JOIN kept m "
        "ON m.name = k.name GROUP BY k.name HAVING COUNT(*) > 1 ORDER BY first LIMIT 20"
    ).toArrow()
    kept.unpersist()


def _decided_otherwise(options: str) -> bool:
    words = ("Archive", "-Xshare", "AOT")
    return not settings.SPARK_ARCHIVE.get() or any(word in options for word in words)


def _directory() -> Path:
    return settings.CACHE_DIR.get() / "spark"


def _trusted(path: Path) -> bool:
    state = path.stat()
    size = path.stem.rpartition("-")[2]
    ours = not hasattr(os, "getuid") or state.st_uid == os.getuid()
    return ours and size == str(state.st_size)


def _claim_path(directory: Path, key: str) -> Path:
    return directory / f"spark-{key}.claim"


def _claim(directory: Path, key: str) -> bool:
    """Whether we are the one to make it. A claim that led to nothing holds for a week."""
    directory.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(directory).free < _FREE_BYTES:
        return False
    path = _claim_path(directory, key)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime < _TRY_AGAIN_SECONDS:
            return False
        path.unlink()
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _remove_old(directory: Path, newest: Path) -> None:
    """Keep few archives: they are large, and those of older versions are of no use."""
    others = [path for path in directory.glob("spark-*-*.jsa") if path != newest]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[_KEPT - 1 :]:
        path.unlink(missing_ok=True)


def main() -> None:
    """Make the archive of the key on the command line, out of everybody's way."""
    if hasattr(os, "nice"):
        os.nice(15)
    build(sys.argv[1])


if __name__ == "__main__":
    main()
