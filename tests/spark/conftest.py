"""One Spark session for all tests: it takes seconds to start and Spark allows only one."""

from __future__ import annotations

import pytest

from omnigraph.runner.session import spark_problem, spark_session, stop_session


@pytest.fixture(scope="session")
def spark():
    """The shared session on two cores; tests must not stop it."""
    problem = spark_problem()
    if problem is not None:
        pytest.skip(problem)
    yield spark_session("local[2]")
    stop_session()
