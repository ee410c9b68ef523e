"""Errors of executors come home as themselves; failures of Spark become one line with advice."""

import pickle

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from omnigraph.errors import BadRequest, InputError, KeyConflict, OmniGraphError, StorageError
from omnigraph.runner.spark_errors import (
    CarriedError,
    carried_errors,
    error_bytes,
    error_of,
    reason_in,
    short_errors,
    spark_errors,
)

# What the driver gets of an exception in a Python worker.
WORKER_FAILED = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/worker.py", line 7, in run
    yield from function()
{}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:588)
java.lang.IllegalStateException: something that followed from it
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def as_raised(error):
    """The text of an error that an executor raised, as Spark tells it to the driver."""
    with pytest.raises(CarriedError) as caught, carried_errors():
        raise error
    name = f"{CarriedError.__module__}.{CarriedError.__name__}"
    return WORKER_FAILED.format(f"{name}: {caught.value}")


@pytest.mark.parametrize(
    "error",
    [
        InputError("row 7 is bad", row=7),
        KeyConflict("`ada` is taken twice, 日本", table_key="node:Person", entity_id="ada"),
        StorageError("two\nlines"),
    ],
)
@pytest.mark.parametrize("kind", [PySparkException, Py4JError])
def test_an_error_of_an_executor_comes_home_as_itself(error, kind):
    with pytest.raises(type(error)) as caught, spark_errors():
        raise kind(as_raised(error))
    assert (caught.value.message, caught.value.details) == (error.message, error.details)
    assert str(caught.value) == str(error)
    assert caught.value.__suppress_context__, "and shows nothing of Spark's"


def test_an_error_in_a_row_comes_home_as_itself():
    back = error_of(error_bytes(InputError("row 7 is bad", row=7)))
    assert (type(back), back.message, back.details) == (InputError, "row 7 is bad", {"row": 7})


def test_other_exceptions_of_an_executor_are_not_packed():
    with pytest.raises(ZeroDivisionError), carried_errors():
        raise ZeroDivisionError


@pytest.mark.parametrize("line", ["ValueError: odd", "AssertionError", "SystemExit: gone"])
def test_the_end_of_a_python_traceback_is_the_reason(line):
    assert reason_in(WORKER_FAILED.format(line)) == line
    with pytest.raises(StorageError) as caught, spark_errors():
        raise PySparkException(WORKER_FAILED.format(line))
    assert caught.value.message == f"the Spark engine failed: {line}"
    with pytest.raises(StorageError) as caught, spark_errors("the Spark job"):
        raise PySparkException(WORKER_FAILED.format(line))
    assert caught.value.message == f"the Spark job failed: {line}"


def test_a_fault_of_the_caller_is_told_with_its_type_and_place():
    frame = '  File "/srv/etl.py", line 12, in clean\n    1 / 0\n{}'
    failed = WORKER_FAILED.format(frame.format("ZeroDivisionError: division by zero"))
    with (
        pytest.raises(InputError, match=r"clean in \"/srv/etl\.py\", line 12") as caught,
        spark_errors(),
    ):
        raise PySparkException(failed)
    assert caught.value.message.startswith("ZeroDivisionError: division by zero; ")
    place = {"file": "/srv/etl.py", "line": 12, "function": "clean"}
    assert caught.value.details == {"error": "ZeroDivisionError", **place}
    ours = '  File "/lib/omnigraph/pipeline/spark/tasks.py", line 3, in read\n    x\n' + frame
    with pytest.raises(StorageError, match="the Spark engine failed: ValueError"), spark_errors():
        raise PySparkException(WORKER_FAILED.format(ours.format("ValueError: odd")))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no reason given"),
        (" \n\n", "no reason given"),
        ("\n [TABLE_OR_VIEW_NOT_FOUND] no `x`; line 1\n'Project [*]\n", None),
        ("Job aborted\njava.io.IOException: disk\n\tat java.x\n", "Job aborted"),
        ("x" * 600, "x" * 500),
    ],
)
def test_without_a_python_traceback_the_first_line_is_the_reason(text, reason):
    assert reason_in(text) == (reason or "[TABLE_OR_VIEW_NOT_FOUND] no `x`; line 1")


@pytest.mark.parametrize(
    ("raised", "kind", "advice"),
    [
        (
            PySparkException("Python in worker has different version: 3.8 than that in driver"),
            BadRequest,
            "Spark's workers run Python 3.8 .*PYSPARK_PYTHON",
        ),
        (
            PySparkException('java.io.IOException: Cannot run program "/no/python": error=2'),
            BadRequest,
            'cannot run "/no/python".*PYSPARK_PYTHON',
        ),
        (
            PySparkException(WORKER_FAILED.format("ModuleNotFoundError: No module named 'lance'")),
            BadRequest,
            "has no module lance; install omnigraph",
        ),
        (
            PySparkException("java.lang.OutOfMemoryError: Java heap space"),
            StorageError,
            "spark.driver.memory",
        ),
        (PySparkException("No space left on device"), StorageError, "spark.local.dir"),
        (PySparkException("SparkContext was shut down"), StorageError, "session was stopped"),
        (Py4JNetworkError("gone"), StorageError, "Java process ended"),
        (ConnectionRefusedError(111, "Connection refused"), StorageError, "Java process ended"),
        (ConnectionResetError(104, "reset"), StorageError, "failed: its Java process is gone"),
        (pickle.PicklingError("a lock"), BadRequest, "cannot be sent to Spark's executors: a lock"),
    ],
)
def test_known_failures_are_told_with_what_to_do(raised, kind, advice):
    with pytest.raises(OmniGraphError, match=advice) as caught, spark_errors():
        raise raised
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is raised


def test_what_is_not_of_spark_passes():
    refused = BadRequest("no")
    with pytest.raises(BadRequest) as caught, spark_errors():
        raise refused
    assert caught.value is refused
    with pytest.raises(KeyError), spark_errors():
        raise KeyError("x")


def test_the_data_source_shows_an_error_without_its_traceback():
    def deep(levels):
        if levels:
            deep(levels - 1)
        raise InputError("row 7 is bad", row=7)

    with pytest.raises(InputError) as caught, short_errors():
        deep(5)
    assert "deep" not in {entry.name for entry in caught.traceback}
    assert caught.value.details == {"row": 7}
    assert caught.value.__suppress_context__
