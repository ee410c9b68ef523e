"""A real cluster: our session reaches it, work spreads over its executors, one may die."""

import os
import signal
import time

# Each task leaves a mark and holds on, so both executors have taken work when one is killed.
OUTLIVE = """
import sys
from omnigraph.runner.session import spark_session

marks = sys.argv[1]

def held(batches):
    import os, pathlib, time
    pathlib.Path(marks, f"task-{os.getpid()}").touch()
    while not pathlib.Path(marks, "go").exists():
        time.sleep(0.05)
    yield from batches

session = spark_session(conf={
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
})
rows = session.range(0, 1000, 1, 4).mapInArrow(held, "id long").collect()
print(session.sparkContext.master, len(rows), sum(row.id for row in rows))
"""


def test_a_job_spreads_over_executors_and_survives_the_death_of_one(cluster, tmp_path):
    driver = cluster.start_driver(OUTLIVE, tmp_path)
    try:
        deadline = time.monotonic() + 180
        while len(list(tmp_path.glob("task-*"))) < 2:
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline, cluster.logs()
            time.sleep(0.05)
        executors = cluster.executor_pids()
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        (tmp_path / "go").touch()
        printed, complaints = driver.communicate(timeout=180)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 0, complaints
    assert printed.split() == [cluster.master, "1000", str(sum(range(1000)))]
    assert complaints == ""
