"""A Spark that does not start: `auto` goes on without it and says so, only `spark` fails."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? @index }"
RECORD = '{"type":"Person","data":{"name":"ada","age":36}}\n'

# A process of its own: this one may have a session that runs.
PROGRAM = """
import json, sys
import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.runner import executors
from omnigraph.runner.session import is_running

executors.LARGE_TABLE_ROWS = 1
uri, master = sys.argv[1:]
told = {}

def tell(name, run):
    try:
        result = run()
    except OmniGraphError as error:
        told[name] = ["refused", type(error).__name__, str(error)]
    else:
        told[name] = [result.engine, result.note]

record = [{"type": "Person", "data": {"name": "ada"}}]
with og.open(uri) as graph:
    tell("auto", lambda: graph.load(record))
    tell("local", lambda: graph.load(record, engine="local"))
    tell("spark", lambda: graph.load(record, engine="spark"))
    tell("master", lambda: graph.load(record, spark_master=master))
    tell("conf", lambda: graph.load(record, spark_conf={"spark.app.name": "mine"}))
    tell("indexes", graph.ensure_indices)
    tell("indexes on spark", lambda: graph.ensure_indices(engine="spark"))
    told["commits"] = len(graph.commits.list())
told["running"] = is_running()
print(json.dumps(told))
"""


@pytest.fixture
def uri(tmp_path):
    og.init(tmp_path / "g", SCHEMA).close()
    return str(tmp_path / "g")


def surroundings(tmp_path, script, **variables):
    """The variables of a process whose Java looks right and does what the script says."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    release = 'JAVA_VERSION="17.0.15"\nMODULES="java.base jdk.incubator.vector"\n'
    (tmp_path / "java" / "release").write_text(release, "utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {
        **os.environ,
        "JAVA_HOME": str(tmp_path / "java"),
        "TMPDIR": str(scratch),
        **variables,
    }


def run(environment, *argv):
    done = subprocess.run(
        [sys.executable, *argv], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert os.listdir(environment["TMPDIR"]) == []
    return done


@pytest.mark.usefixtures("_spark_here")
@pytest.mark.parametrize(
    ("script", "master", "reason"),
    [
        ("echo no such option >&2; exit 1", "local[1]", "Spark did not start on"),
        ("kill -9 $$", "local[1]", "Spark did not start on"),
        ("exit 0", "local[1]", "Spark did not start on"),
        ("exit 0", "spark://127.0.0.1:9", "does not answer"),
        ("exit 0", "mesos://h:5050", "is not a Spark master"),
    ],
)
def test_auto_goes_on_without_and_only_spark_fails(uri, tmp_path, script, master, reason):
    environment = surroundings(tmp_path, script, OMNIGRAPH_SPARK_MASTER=master)
    told = json.loads(run(environment, "-W", "error", "-c", PROGRAM, uri, master).stdout)
    for name in ("auto", "master", "conf"):
        engine, note = told[name]
        assert engine == "local"
        assert note.startswith("this load ran on the local engine: ")
        assert reason in note
        assert "\n" not in note
    assert told["local"] == ["local", None]
    for name in ("spark", "indexes on spark"):
        assert told[name][:2] == ["refused", "BadRequest"], name
        assert reason in told[name][2], name
    engine, note = told["indexes"]
    assert engine == "local"
    assert note.startswith("this process did the work of Spark's executors: ")
    assert reason in note
    # The four loads and the index build of this process, beside the first commit of a graph.
    assert told["commits"] == 1 + 5
    assert told["running"] is False


@pytest.mark.usefixtures("_spark_here")
def test_large_input_is_loaded_here_and_the_command_line_says_why(uri, tmp_path):
    environment = surroundings(
        tmp_path, "echo broken >&2; exit 1", OMNIGRAPH_SPARK_THRESHOLD_MB="0"
    )
    data = tmp_path / "people.jsonl"
    data.write_text(RECORD, "utf-8")
    load = ("-m", "omnigraph", "load", "--mode", "merge", "--data", str(data))
    done = run(environment, *load, uri)
    assert done.stdout.startswith("loaded 1 row into branch main (merge, local)\n")
    assert "this load ran on the local engine: Spark did not start on" in done.stderr
    summary = json.loads(run(environment, *load, "--json", uri).stdout)
    assert summary["engine"] == "local"
    assert summary["note"].startswith("this load ran on the local engine: Spark did not start")
