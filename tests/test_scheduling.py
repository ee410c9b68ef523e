"""The order of the tests in two processes names files that exist, and keeps together what must be."""

from pathlib import Path

from tests.scheduling import FIRST, LONG, is_long, rank, unit

ROOT = Path(__file__).parents[1]


def test_what_is_named_exists():
    assert [name for name in (*FIRST, *LONG) if not (ROOT / name).exists()] == []


def test_quick_runs_leave_out_whole_files_and_directories():
    assert is_long("tests/spark")
    assert is_long("tests/write/test_model.py")
    assert not is_long("tests/conformance")


def test_a_file_is_one_unit_and_so_is_everything_on_spark():
    assert unit("tests/read/test_a.py::TestX::test_y[a::b]") == "tests/read/test_a.py"
    assert unit("tests/spark/test_a.py::test_x") == unit("tests/spark/test_b.py::test_y")


def test_long_units_come_before_the_others():
    ranks = [rank(f"{name}::test_x") for name in (*FIRST, "tests/test_a.py")]
    assert ranks == list(range(len(FIRST) + 1))
