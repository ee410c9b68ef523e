"""The child process that makes the archive of Spark's classes: ``python -m`` this module, with a key.

`archive.build_later` starts it at the exit of a process that had no archive. The child runs Spark
twice: once with sample jobs, to have Java write down the classes they need, and once to see whether
Java accepts what it wrote.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import OmniGraphError
from omnigraph.runner.archive import (
    JAVA_OPTIONS,
    archive_directory,
    archive_key,
    archive_path,
    claim_path,
)
from omnigraph.runner.session import spark_session, stop_session
from omnigraph.storage.scratch import scratch_directory

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# Java writes the archive while it exits, which takes far longer than an ordinary exit.
_EXIT_SECONDS = 600.0
_KEPT = 2


def build(key: str) -> Path | None:
    """Make the archive for `key` and publish it; return None when this Java does not accept it."""
    directory = archive_directory()
    with scratch_directory(directory) as place:
        made = Path(place) / "archive.jsa"
        _run_spark(f"-XX:ArchiveClassesAtExit={made} -Xlog:disable", samples=True)
        if not made.exists() or archive_key() != key or not _is_accepted(made):
            return None
        with made.open("rb") as stream:
            os.fsync(stream.fileno())
        published = archive_path(directory, key, made.stat().st_size)
        made.replace(published)
    remove_old(directory, published)
    claim_path(directory, key).unlink(missing_ok=True)
    return published


def remove_old(directory: Path, newest: Path) -> None:
    """Remove all archives but the two newest: they are large, and old versions need them no more."""
    others = [path for path in directory.glob("spark-*-*.jsa") if path != newest]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[_KEPT - 1 :]:
        path.unlink(missing_ok=True)


def _is_accepted(archive: Path) -> bool:
    # `-Xshare:on` makes Java refuse to start without the archive, so it is used in this test only.
    try:
        _run_spark(f"-XX:SharedArchiveFile={archive} -Xshare:on -Xlog:disable", samples=False)
    except OmniGraphError:
        return False
    return True


def _run_spark(java_options: str, *, samples: bool) -> None:
    spark = spark_session("local[2]", {JAVA_OPTIONS: java_options})
    if samples:
        _run_sample_jobs(spark)
    stop_session(seconds=_EXIT_SECONDS)


def _run_sample_jobs(spark: SparkSession) -> None:
    """Do what a load does: Arrow functions, a frame kept on disk, queries shaped like set rules."""
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


def main() -> None:
    """Make the archive for the key on the command line, at low priority."""
    if hasattr(os, "nice"):
        os.nice(15)
    build(sys.argv[1])


if __name__ == "__main__":
    main()
