"""What the Spark tests share: Spark allows one session for each process, and starts for seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from omnigraph.runner.session import spark_problem, spark_session, stop_session
from omnigraph.spark import register
from tests.spark.sessions import QUICK_START
from tests.spark.sizes import all_loads_with


@pytest.fixture(scope="session")
def _spark_here():
    """Spark can run; without Java, `./dev` says how to get one where it could not install it."""
    problem = spark_problem()
    if problem is not None and os.environ.get("CI"):
        pytest.fail(problem)
    if problem is not None:
        pytest.skip(problem)


@pytest.fixture(scope="session")
def s3_of_session(_spark_here):
    """The S3 that the environment of the session's Java leads to, and so the one of its workers."""
    from tests.s3_server import S3Server

    server = S3Server().start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def event_log(tmp_path_factory):
    """The directory where the session notes what happens in it, as a history server would show it."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(_spark_here, s3_of_session, event_log):
    """The session of this process, on two cores; tests must not stop it.

    It finds the data source by itself, unless its Python lies on a path with a space: Spark asks a
    shell for that path without quoting it, and then looks for no source at all.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_of_session.environment().items():
            patch.setenv(name, value)
        events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": event_log.as_uri()}
        session = spark_session("local[2]", {**QUICK_START, **events})
    if " " in sys.executable:
        register(session)
    yield session
    stop_session()


@pytest.fixture
def load_with():
    """Have all loads of the test go by other sizes: `load_with(ON_EXECUTORS)`."""
    with ExitStack() as sizes:
        yield lambda given: sizes.enter_context(all_loads_with(given))


@pytest.fixture(scope="session")
def cluster(_spark_here, tmp_path_factory):
    """A real cluster with two executors of one core; one driver at a time has them."""
    from tests.spark.cluster import leftovers, standalone_cluster

    directory = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(directory) as running:
        assert len(leftovers(directory, seconds=0)) >= 2, "workers are seen while they run"
        yield running
    assert leftovers(directory) == []


@pytest.fixture(scope="session")
def built_wheel(tmp_path_factory):
    """The wheel of these sources."""
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    (found,) = built.glob("*.whl")
    return found
