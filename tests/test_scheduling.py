"""The order of the tests in two processes names files that exist, and keeps together what must be."""

from pathlib import Path

from tests.scheduling import FIRST, rank, unit

ROOT = Path(__file__).parents[1]


def test_what_goes_first_exists():
    assert [name for name in FIRST if not (ROOT / name).exists()] == []


def test_a_file_is_one_unit_and_so_is_everything_on_spark():
    assert unit("tests/read/test_a.py::TestX::test_y[a::b]") == "tests/read/test_a.py"
    assert unit("tests/spark/test_a.py::test_x") == unit("tests/spark/test_b.py::test_y")


def test_long_units_come_before_the_others():
    ranks = [rank(f"{name}::test_x") for name in (*FIRST, "tests/test_a.py")]
    assert ranks == list(range(len(FIRST) + 1))
