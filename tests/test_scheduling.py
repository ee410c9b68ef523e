"""The order of the tests in several processes names files that exist, and keeps together what must be."""

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import pytest_ignore_collect
from tests.scheduling import (
    FIRST,
    LOADS_ON_SPARK,
    LONG,
    ONLY_NAMED,
    QUARTERED,
    SPARK,
    SPARK_LOADS,
    is_left_out,
    quick_sample,
    rank,
    unit,
)

ROOT = Path(__file__).parents[1]


def test_what_is_named_exists_and_is_named_once():
    names = [*FIRST, *ONLY_NAMED, *(f"{SPARK}{name}" for name in LOADS_ON_SPARK)]
    names.remove(SPARK_LOADS)
    assert [name for name in (*names, *LONG, *QUARTERED) if not (ROOT / name).exists()] == []
    assert len({*names}) == len(names)
    assert len({*LONG}) == len(LONG)


def test_runs_leave_out_whole_files_and_directories():
    assert is_left_out("tests/spark", quick=True)
    assert is_left_out("tests/write/test_model.py", quick=True)
    assert not is_left_out("tests/spark", quick=False)
    assert not is_left_out("tests/conformance", quick=True)
    assert is_left_out("tests/faults/model", quick=False)


def test_a_quick_run_takes_one_in_four_of_files_with_graphs_and_the_first_of_each():
    def tests(file, number):
        return [f"{file}::test_{at}" for at in range(number)]

    types, guard = "tests/types/test_a.py", "tests/storage/test_a_guard.py"
    graphs, other = "tests/graph/test_a.py", "tests/graph/test_b.py"
    every = [*tests(types, 3), *tests(graphs, 9), *tests(other, 1), *tests(guard, 3)]
    assert [name for name in every if name not in quick_sample(every)] == [
        f"{graphs}::test_{at}" for at in (1, 2, 3, 5, 6, 7)
    ]


def test_what_runs_leave_out_runs_where_it_is_named(pytestconfig):
    model = ROOT / "tests/faults/model"
    assert pytest_ignore_collect(model, pytestconfig)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", str(model)]
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, cwd=ROOT, env=plain, check=True, capture_output=True, text=True)
    told = done.stdout
    assert "tests/faults/model/" in told


def test_a_file_is_one_unit_and_so_are_loads_on_spark_and_all_else_there():
    assert unit("tests/read/test_a.py::TestX::test_y[a::b]") == "tests/read/test_a.py"
    assert unit("tests/spark/test_a.py::test_x") == unit("tests/spark/test_b.py::test_y")
    assert unit("tests/spark/test_load.py::test_x") == unit("tests/spark/test_ways.py::test_y")
    assert unit("tests/spark/test_load.py::test_x") != unit("tests/spark/test_a.py::test_x")


def test_the_explorer_is_one_unit():
    assert unit("tests/explorer/test_a.py::test_x") == unit("tests/explorer/test_b.py::test_y")


def test_long_units_come_before_the_others():
    names = [f"{SPARK}test_load.py" if name == SPARK_LOADS else name for name in FIRST]
    ranks = [rank(f"{name}::test_x") for name in (*names, "tests/test_a.py")]
    assert ranks == list(range(len(FIRST) + 1))


def test_a_test_that_ends_its_process_fails_once_and_the_others_run(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from tests.scheduling import Schedule\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    return Schedule(config, log)\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import os\n"
        "def test_before(): pass\n"
        "def test_fatal(): os._exit(1)\n"
        "def test_after(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    around = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=tmp_path, env=around, check=False, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.count("crashed while running 'test_it.py::test_fatal'") >= 1
    assert "1 failed, 2 passed" in done.stdout, done.stdout
