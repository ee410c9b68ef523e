"""Databases of local runners: which are used again, and that nothing of their former use is in them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing

import duckdb
import pyarrow as pa
import pytest

from omnigraph.errors import StorageError
from omnigraph.runner import databases
from omnigraph.runner.local_runner import TINY_BYTES, TINY_ROWS, LocalRunner

FEW = pa.table({"x": [1, 2, 3]})


@pytest.fixture(autouse=True)
def _none_idle():
    databases.close_idle()
    yield
    databases.close_idle()


def used(table=FEW, text="SELECT sum(x) AS s FROM f", **options):
    """The connection of a runner that asked this and is closed."""
    with closing(LocalRunner(**options)) as runner:
        runner.ask(text, {"f": runner.frame(table)})
        return runner._duck


def is_open(connection):
    try:
        connection.execute("SELECT 1")
    except duckdb.Error:
        return False
    return True


def test_the_database_of_a_few_rows_is_the_next_runners_too_and_empty():
    first = used()
    with closing(LocalRunner()) as runner:
        assert runner._duck is first
        with pytest.raises(StorageError, match="the local engine failed"):
            runner.ask("SELECT * FROM f", {})


def test_runners_at_the_same_time_have_databases_of_their_own():
    with closing(LocalRunner()) as one, closing(LocalRunner()) as other:
        assert one._duck is not other._duck


def test_one_waits_and_others_are_closed():
    runners = [LocalRunner() for _ in range(databases.MOST_IDLE + 1)]
    connections = [runner._duck for runner in runners]
    for runner in runners:
        runner.close()
    assert [is_open(connection) for connection in connections] == [
        *([True] * databases.MOST_IDLE),
        False,
    ]


@pytest.mark.parametrize(
    "use",
    [
        lambda: used(pa.table({"x": range(TINY_ROWS + 1)})),
        lambda: used(pa.table({"x": ["a" * (TINY_BYTES // 2)] * 3}), "SELECT max(x) AS m FROM f"),
        lambda: used(memory_limit="96MB"),
        lambda: used(threads=1),
    ],
    ids=["many rows", "many bytes", "less memory", "fewer threads"],
)
def test_whatever_may_spill_or_has_settings_of_its_own_is_closed(use):
    assert not is_open(use())


def test_a_database_with_tables_is_closed():
    with closing(LocalRunner()) as runner:
        runner.sql("SELECT * FROM f", {"f": runner.frame(FEW)})
        connection = runner._duck
    assert not is_open(connection)


def test_a_database_whose_query_failed_is_closed():
    with closing(LocalRunner()) as runner:
        with pytest.raises(StorageError):
            runner.ask("SELECT nothing FROM f", {"f": runner.frame(FEW)})
        connection = runner._duck
    assert not is_open(connection)


# The child would wait for ever for threads that only its parent has.
FORKED = """
import os
from contextlib import closing
import pyarrow as pa
from omnigraph.runner.local_runner import LocalRunner

def ask():
    with closing(LocalRunner()) as runner:
        return runner.ask("SELECT max(x) AS m FROM f", {"f": runner.frame(pa.table({"x": [1, 2]}))})

ask()
child = os.fork()
answer = ask().to_pylist()
if not child:
    print(answer, flush=True)
else:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(answer)
    print(code)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_asks_and_ends_like_its_parent():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout.splitlines() == ["[{'m': 2}]", "[{'m': 2}]", "0"]
