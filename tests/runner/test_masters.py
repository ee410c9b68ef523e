"""A master is judged before Java starts."""

import os
import socket
import sys
from pathlib import Path

import pytest

from omnigraph.errors import BadRequest
from omnigraph.runner import masters


@pytest.fixture
def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # held and not listening: nobody else can answer there
        yield held.getsockname()[1]


@pytest.fixture
def open_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[*]", "local[4]", "local[2,3]", "local-cluster[2,1,1024]", "yarn"),
        *("spark://h:7077", "spark://a:7077,b:7077", "k8s://https://h:443", "k8s://h"),
    ],
)
def test_masters_of_spark_are_accepted(master):
    masters.check(master)


@pytest.mark.parametrize(
    "master", ["", "local[0]", "local[x]", "host:7077", "spark://", "http://h"]
)
def test_anything_else_is_refused_with_examples(master):
    with pytest.raises(BadRequest, match=r"not a Spark master; use `local\[\*\]`"):
        masters.check(master)


def test_spark_connect_is_refused_with_what_would_do():
    with pytest.raises(BadRequest, match=r"Spark Connect server.*use `local\[\*\]`"):
        masters.check("sc://host:15002")


def test_a_master_that_does_not_answer_is_named_with_the_reason(closed_port):
    with pytest.raises(BadRequest, match=rf"127\.0\.0\.1:{closed_port}: .*refused.*start it"):
        masters.check_reachable(f"spark://127.0.0.1:{closed_port}")


def test_one_answer_of_a_standby_group_is_enough(closed_port, open_port):
    masters.check_reachable(f"spark://127.0.0.1:{closed_port},127.0.0.1:{open_port}")
    masters.check_reachable(f"k8s://http://127.0.0.1:{open_port}")


@pytest.mark.parametrize("master", ["spark://h:port", "spark://:7077", "k8s://https://"])
def test_an_address_that_is_none_is_refused(master):
    with pytest.raises(BadRequest, match="not a Spark master"):
        masters.check_reachable(master)


def test_what_runs_here_listens_here_and_is_sized_to_its_cores():
    settings = masters.defaults("local[3]", Path("/scratch"))
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.sql.shuffle.partitions"] == "3"
    assert settings["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    "master", ["spark://h:7077", "k8s://https://h:443", "k8s://https://127.0.0.1:6443", "yarn"]
)
def test_a_cluster_elsewhere_must_reach_the_driver(master):
    """Pods are elsewhere even where their Kubernetes listens on this machine."""
    settings = masters.defaults(master, Path("/scratch"))
    assert "spark.driver.host" not in settings
    assert "spark.driver.bindAddress" not in settings
    assert "spark.sql.shuffle.partitions" not in settings
    assert "SPARK_LOCAL_IP" not in masters.environment(master, {})


def test_all_cores_are_those_this_process_may_use():
    assert masters.local_cores("local[*]") == len(os.sched_getaffinity(0))
    assert masters.local_cores("local") == 1
    assert masters.local_cores("yarn") is None


def test_workers_run_our_python_unless_a_cluster_has_its_own(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python")
    assert masters.worker_python("local[2]", {}) == sys.executable
    assert masters.worker_python("spark://h:7077", {}) == "/elsewhere/python"
    assert masters.worker_python("yarn", {"spark.pyspark.python": "mine"}) == "mine"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert masters.worker_python("yarn", {}) == sys.executable
