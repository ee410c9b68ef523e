"""Make the archive of Spark's classes for this machine or image: ``python -m omnigraph.runner.archive_build``.

It runs Spark with sample jobs, so that Java loads the classes that loads need, and has Java write them down as it
ends. That takes about half a minute, and a file of 160 MB in the cache directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest, OmniGraphError
from omnigraph.runner.archive import JAVA_OPTIONS, archive_directory, archive_prefix
from omnigraph.runner.session import spark_session, stop_session
from omnigraph.storage.scratch import scratch_directory

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# Java writes the archive while it exits, which takes far longer than an ordinary exit.
_EXIT_SECONDS = 600.0


def build() -> Path:
    """Make the archive for this Java and this Spark in place of an older one, and return where it is."""
    directory = archive_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with scratch_directory(directory) as scratch:
        made = Path(scratch) / "archive.jsa"
        options = f"-XX:ArchiveClassesAtExit={made} -Xlog:disable"
        _run_sample_jobs(spark_session("local[2]", {JAVA_OPTIONS: options}))
        stop_session(seconds=_EXIT_SECONDS)
        if not made.exists():
            raise BadRequest(
                f"Java wrote no archive of classes to {directory}; unset SPARK_CONF_DIR if it is set, choose a "
                "cache directory without blanks in its path (OMNIGRAPH_CACHE_DIR), or do without"
            )
        with made.open("rb") as stream:
            os.fsync(stream.fileno())
        older = set(directory.glob(f"{archive_prefix()}*.jsa"))
        published = directory / f"{archive_prefix()}{made.stat().st_size}.jsa"
        made.replace(published)
    for path in older - {published}:
        path.unlink(missing_ok=True)
    return published


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


def main() -> int:
    """Make the archive and print where it is; return the exit status."""
    try:
        sys.stdout.write(f"{build()}\n")
    except OmniGraphError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
