"""The session of a process: what it is set to, who gets it, and what its failures say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BadRequest, InputError, StorageError
from omnigraph.runner.session import is_running, running_session, spark_session, usable_session
from omnigraph.runner.spark_errors import spark_errors
from tests.spark.sessions import QUICK_JAVA

# One program for what needs a process of its own: every start of Spark takes seconds.
LIFE = """
import gc, json, os, pathlib, sys, threading, warnings
import lance
from pyspark.sql import SparkSession
from omnigraph.errors import BadRequest
from omnigraph.runner import session

facts = {"before": session.is_running()}
got = []
ask = lambda: got.append(session.spark_session(conf={"spark.app.name": "mine"}))
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spark = got[0]
facts["one"] = len({id(each) for each in got})
facts["master"] = spark.sparkContext.master
facts["name"] = spark.sparkContext.appName
java = session._own.gateway.process.pid
facts["scratch"] = [str(session._own.gateway.scratch)]
facts["command"] = pathlib.Path(f"/proc/{java}/cmdline").read_text()

def count():
    session.spark_session().range(10).createOrReplaceTempView("ten")
    return session.spark_session().sql("SELECT COUNT(*) AS n FROM ten WHERE id < 7").first().n

facts["counts"] = [count()]
warnings.simplefilter("ignore")  # Lance warns about every fork
child = os.fork()
if child == 0:
    got.clear()
    del spark
    gc.collect()
    os._exit(int(session.is_running()))
warnings.simplefilter("error")
facts["running in a forked child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
facts["counts"].append(count())

spark.stop()
facts["after stop"] = session.is_running()
try:
    session.usable_session(spark)
except BadRequest as error:
    facts["stopped"] = str(error)
facts["counts"].append(session.spark_session(conf={"spark.app.name": "mine"}) and count())
facts["same java"] = session._own.gateway.process.pid == java

session.running_session().stop()
own = SparkSession.builder.master("local[1]").appName("caller").getOrCreate()
facts["the caller's"] = session.spark_session() is own
session.stop_session()
facts["the caller's lives"] = session.is_running()
own.stop()

session.spark_session(conf={"spark.app.name": "mine"})
killed = session._own.gateway
killed.process.kill(), killed.process.wait()
facts["after kill"] = session.is_running()
session._own.session = None
gc.collect()  # releases objects of the dead Java, in silence
facts["counts"].append(count())
facts["scratch"].append(str(session._own.gateway.scratch))
facts["java"] = [java, killed.process.pid, session._own.gateway.process.pid]
facts["left here"] = os.listdir()
pathlib.Path(sys.argv[1]).write_text(json.dumps(facts))
"""


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("_spark_here")
def test_a_session_from_its_start_to_the_end_of_its_process(tmp_path):
    (tmp_path / "here").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIFE, tmp_path / "facts"],
        cwd=tmp_path / "here",
        env={
            **os.environ,
            "OMNIGRAPH_SPARK_MASTER": "local[1]",
            "SPARK_SUBMIT_OPTS": QUICK_JAVA,
            "PYSPARK_PYTHON": "/no/such/python",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,  # it starts Java three times, and others may use the machine
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    facts = json.loads((tmp_path / "facts").read_text())
    assert facts["before"] is False
    assert facts["one"] == 1
    assert (facts["master"], facts["name"]) == ("local[1]", "mine")
    assert "spark.app.name" not in facts["command"]
    assert facts["counts"] == [7, 7, 7, 7]
    assert facts["running in a forked child"] == 0
    assert facts["after stop"] is False
    assert "is stopped; pass one that runs" in facts["stopped"]
    assert facts["same java"] is True
    assert facts["the caller's"] is True
    assert facts["the caller's lives"] is True
    assert facts["after kill"] is False
    assert facts["left here"] == []
    assert not any(alive(pid) for pid in facts["java"])
    assert not any(Path(scratch).exists() for scratch in facts["scratch"])


def test_workers_run_arrow_functions_in_our_python(spark):
    def seen(batches):
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * batch.num_rows})

    rows = spark.range(4).mapInArrow(seen, "python string").collect()
    assert {row.python for row in rows} == {sys.executable}


def test_the_running_session_is_the_answer_when_nothing_else_is_asked_for(spark):
    assert is_running()
    assert running_session() is spark
    assert spark_session() is spark
    assert spark_session("local[2]", {"spark.sql.caseSensitive": "true"}) is spark


def test_another_master_or_setting_than_the_running_one_is_refused(spark):
    with pytest.raises(BadRequest, match=r'runs Spark on "local\[2\]".*session\.stop\(\)'):
        spark_session("local[1]")
    with pytest.raises(BadRequest, match=r"spark\.sql\.caseSensitive.*session\.stop\(\)"):
        spark_session(conf={"spark.sql.caseSensitive": "false"})


class TestPassedSessions:
    """What is passed as `spark` is judged before any work; nothing here starts Spark."""

    def connected(self):
        # Stands in for the class of Spark Connect, whose dependencies are not installed.
        kind = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
        return kind()

    def test_a_session_of_spark_connect(self):
        with pytest.raises(BadRequest, match=r"Spark Connect.*spark_master"):
            usable_session(self.connected())

    @pytest.mark.parametrize("given", ["local[2]", 4, object()])
    def test_what_is_no_session(self, given):
        with pytest.raises(BadRequest, match=rf"spark is a {type(given).__name__}; pass a Spark"):
            usable_session(given)

    def test_loads_refuse_them_whatever_the_engine(self, tmp_path):
        with og.init(tmp_path / "g", "node N { k: String @key }") as graph:
            for engine in ("auto", "spark"):
                with pytest.raises(BadRequest, match="Spark Connect"):
                    graph.load([], engine=engine, spark=self.connected())
            frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
            frame.mapInArrow, frame.sparkSession = None, self.connected()
            with pytest.raises(BadRequest, match="Spark Connect"):
                graph.load_nodes("N", frame)

    def test_a_session_that_runs_is_taken(self, spark):
        assert usable_session(spark) is spark


def test_a_setting_that_is_not_sparks_is_refused():
    with pytest.raises(BadRequest, match=r'"executor\.memory" is not a Spark setting'):
        spark_session(conf={"executor.memory": "2g"})


def test_names_that_differ_in_case_are_different(spark):
    row = spark.sql("SELECT a, A FROM (SELECT 1 AS a, 2 AS A) t").first()
    assert tuple(row) == (1, 2)


def job(spark, function):
    with spark_errors("the Spark job"):
        spark.range(2).mapInArrow(function, "id long").collect()


def unchanged(batches):
    yield from batches


class TestFailures:
    def test_another_python_on_the_workers(self, spark, monkeypatch):
        monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.8")
        with pytest.raises(BadRequest, match=r"workers run Python 3\.\d+.*PYSPARK_PYTHON"):
            job(spark, unchanged)

    def test_no_python_on_the_workers(self, spark, monkeypatch):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
        with pytest.raises(BadRequest, match=r'cannot run "/no/such/python".*PYSPARK_PYTHON'):
            job(spark, unchanged)

    def test_a_module_that_the_workers_lack(self, spark):
        def needs_more(batches):
            import no_such_module  # noqa: F401

            yield from batches

        with pytest.raises(BadRequest, match="no module no_such_module; install omnigraph"):
            job(spark, needs_more)

    def test_anything_else_is_told_in_one_line(self, spark):
        def fails(batches):
            raise ValueError("the third record is odd")

        with pytest.raises(InputError) as caught:
            job(spark, fails)
        assert caught.value.message.startswith(
            "ValueError: the third record is odd; raised by a function of the frame, fails in"
        )
        assert "\n" not in caught.value.message

    def test_a_failure_of_sql_names_its_class(self, spark):
        with pytest.raises(StorageError, match="TABLE_OR_VIEW_NOT_FOUND"), spark_errors():
            spark.sql("SELECT 1 FROM nowhere")

    def test_errors_that_are_not_of_spark_pass(self):
        with pytest.raises(KeyError), spark_errors():
            raise KeyError("x")
