"""What something cost on Spark: jobs, stages, tasks, bytes shuffled, processor time, memory.

Counts come from Spark's own status store, processor time from /proc (Linux): that of the Java process
and, apart, of all the Python processes below it, which are tasks and what runs a data source's commit.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bulk.watch import descendants, is_java, peaks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# All of them at once, also of a load with many jobs.
RETAINED = {
    "spark.ui.retainedJobs": "100000",
    "spark.ui.retainedStages": "100000",
    "spark.ui.retainedTasks": "1000",
}
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def costs(session: SparkSession, *roots: int) -> Iterator[dict[str, Any]]:
    """Fill the dict, on leaving, with what was done inside. `roots`: processes of a cluster."""
    found: dict[str, Any] = {}
    jobs, queries = _newest_job(session), _queries(session)
    java, python = processor_seconds(*roots)
    busy, start = time.process_time(), time.perf_counter()
    with peaks(*roots) as memory:
        yield found
        found["seconds"] = time.perf_counter() - start
    found["driver cpu"] = time.process_time() - busy
    after = processor_seconds(*roots)
    found["JVM cpu"], found["Python cpu"] = after[0] - java, after[1] - python
    found["memory"] = memory
    found["queries"] = _queries(session) - queries
    found |= _stages(session, jobs)


def _newest_job(session: SparkSession) -> int:
    return max((job.jobId() for job in _jobs(session)), default=-1)


def _jobs(session: SparkSession) -> list[Any]:
    context = session.sparkContext._jsc.sc()  # noqa: SLF001 - no public way in Python
    context.listenerBus().waitUntilEmpty()
    return _listed(session, context.statusStore().jobsList(None))


def _listed(session: SparkSession, sequence: Any) -> list[Any]:
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence))


def _queries(session: SparkSession) -> int:
    store = session._jsparkSession.sharedState().statusStore()  # noqa: SLF001
    return int(store.executionsCount())


def _stages(session: SparkSession, after: int) -> dict[str, int]:
    """The jobs begun after one, and of their stages those that ran."""
    jobs = [job for job in _jobs(session) if job.jobId() > after]
    wanted = {number for job in jobs for number in _listed(session, job.stageIds())}
    context = session.sparkContext
    store: Any = context._jsc.sc().statusStore()  # noqa: SLF001
    gateway: Any = context._gateway  # noqa: SLF001
    nothing = gateway.new_array(gateway.jvm.double, 0)
    stages = [
        stage
        for stage in _listed(session, store.stageList(None, False, False, nothing, None))
        if stage.stageId() in wanted and stage.numCompleteTasks()
    ]
    return {
        "jobs": len(jobs),
        "stages": len(stages),
        "tasks": sum(stage.numCompleteTasks() for stage in stages),
        "shuffle write": sum(stage.shuffleWriteBytes() for stage in stages),
        "shuffle read": sum(stage.shuffleReadBytes() for stage in stages),
        "spilled": sum(stage.diskBytesSpilled() for stage in stages),
    }


def processor_seconds(*roots: int) -> tuple[float, float]:
    """The processor seconds of all Java processes below this one, and of the others below those.

    A process counts what its ended children used, so nothing is lost when one ends; what a Java
    process counts for its children was Python's.
    """
    java = python = 0.0
    for pid in {child for root in (os.getpid(), *roots) for child in (root, *descendants(root))}:
        if pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            own, ended = (sum(map(int, fields[at : at + 2])) / TICKS for at in (11, 13))
            if is_java(pid):
                java += own
            else:
                python += own
            python += ended
    return java, python
