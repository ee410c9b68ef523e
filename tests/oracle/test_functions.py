"""The oracle's functions against values worked out by hand from the specification."""

import math
from datetime import UTC, date, datetime

import pytest

from omnigraph.lang.query.functions import FUNCTIONS
from omnigraph.types import PropType, Scalar
from tests.oracle import functions
from tests.oracle.analysis import shares_term_or_phrase

I64, U64, F64 = PropType(Scalar.I64), PropType(Scalar.U64), PropType(Scalar.F64)
TEXT, BOOL = PropType(Scalar.STRING), PropType(Scalar.BOOL)
DATE, DATETIME = PropType(Scalar.DATE), PropType(Scalar.DATETIME)
KINDS = {bool: BOOL, int: I64, float: F64, str: TEXT}


def applied(name, *args):
    return functions.applied(name, [KINDS[type(arg)] for arg in args], list(args))


def days(year, month, day):
    return (date(year, month, day) - date(1970, 1, 1)).days


def ms(*parts):
    moment = datetime(*parts, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return moment.days * 86_400_000 + moment.seconds * 1000 + moment.microseconds // 1000


def on_days(name, *args):
    """With dates for the arguments that are whole numbers, units aside."""
    return functions.applied(name, [TEXT if isinstance(a, str) else DATE for a in args], list(args))


def on_moments(name, *args):
    kinds = [TEXT if isinstance(arg, str) else DATETIME for arg in args]
    return functions.applied(name, kinds, list(args))


def test_the_names_are_those_of_the_language():
    assert FUNCTIONS.keys() == functions.FUNCTIONS


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("+", (2, 3), 5),
        ("+", (2**63 - 1, 1), None),
        ("-", (-(2**63), 1), None),
        ("*", (2**32, 2**31), None),
        ("*", (2**31, 2**31), 2**62),
        ("+", (0.1, 0.2), 0.30000000000000004),
        ("*", (1e308, 10.0), math.inf),
        ("/", (7, 2), 3.5),
        ("/", (7, 0), None),
        ("/", (7.0, -0.0), None),
        ("%", (7, 3), 1),
        ("%", (-7, 3), -1),
        ("%", (7, -3), 1),
        ("%", (7, 0), None),
        ("neg", (-(2**63),), None),
        ("neg", (5,), -5),
        ("abs", (-(2**63),), None),
        ("abs", (-2.5,), 2.5),
        ("floor", (-2.5,), -3),
        ("ceil", (-2.5,), -2),
        ("round", (2.5,), 3),
        ("round", (-2.5,), -3),
        ("round", (0.49999999999999994,), 1),
        ("round", (math.nan,), None),
        ("round", (math.inf,), None),
        ("floor", (1e19,), None),
        ("round", (2.345, 2), 2.35),
        ("round", (-2.345, 1), -2.3),
        ("round", (math.inf, 1), None),
        ("round", (7, 2), 7.0),
        ("lower", ("ΑΣ",), "ας"),
        ("upper", ("straße",), "STRASSE"),
        ("trim", ("  a ",), "a"),
        ("length", ("é😀",), 2),
        ("substring", ("abc", 1), "bc"),
        ("substring", ("abc", 1, 1), "b"),
        ("substring", ("abc", 5), ""),
        ("substring", ("abc", -1), None),
        ("substring", ("abc", 0, -1), None),
        ("replace", ("aaa", "aa", "b"), "ba"),
        ("replace", ("abc", "", "x"), "abc"),
        ("concat", ("a", "b"), "ab"),
        ("text", (7.0,), "7.0"),
        ("text", (1e300,), "1e+300"),
        ("text", (True,), "true"),
        ("text", (-3,), "-3"),
        ("coalesce", (1, 2), 1),
    ],
)
def test_values(name, args, expected):
    assert applied(name, *args) == expected


def test_half_is_added_in_floating_point():
    """The largest number below a half becomes 1, as the page computes it."""
    assert applied("round", 0.49999999999999994) == 1


def test_null():
    assert functions.applied("+", [I64, I64], [None, 1]) is None
    assert functions.applied("coalesce", [I64, I64], [None, 1]) == 1
    assert functions.applied("if", [BOOL, I64], [False, 1]) is None
    assert functions.applied("if", [BOOL, I64, I64], [True, None, 1]) is None


def test_wide_unsigned_numbers_have_no_sum():
    assert functions.applied("+", [U64, I64], [2**63, -1]) is None


class TestDates:
    @pytest.mark.parametrize(
        ("unit", "expected"), [("year", 2024), ("month", 2), ("day", 29), ("weekday", 4)]
    )
    def test_part(self, unit, expected):
        assert on_days("part", days(2024, 2, 29), unit) == expected

    def test_part_of_a_moment_before_1970(self):
        moment = ms(1969, 12, 31, 23, 59, 58, 250_000)
        parts = [on_moments("part", moment, unit) for unit in ("hour", "minute", "second")]
        assert parts == [23, 59, 58]
        assert on_moments("part", moment, "millisecond") == 250

    def test_floor(self):
        assert on_days("floor_date", days(2024, 2, 29), "week") == days(2024, 2, 26)
        assert on_days("floor_date", days(2024, 2, 29), "year") == days(2024, 1, 1)
        assert on_moments("floor_date", ms(2024, 2, 29, 5, 6, 7), "hour") == ms(2024, 2, 29, 5)
        assert on_moments("floor_date", ms(2024, 2, 29, 5, 6, 7), "month") == ms(2024, 2, 1)

    def test_shift_clamps(self):
        assert on_days("shift", days(2024, 1, 31), 1, "month") == days(2024, 2, 29)
        assert on_days("shift", days(2024, 2, 29), -1, "year") == days(2023, 2, 28)
        assert on_days("shift", days(2024, 2, 29), 8000, "year") is None
        assert on_days("shift", days(9999, 12, 31), 1, "day") is None
        assert on_moments("shift", ms(2024, 1, 31, 4), -1, "week") == ms(2024, 1, 24, 4)

    def test_elapsed(self):
        assert on_days("elapsed", days(2000, 2, 29), days(2001, 2, 28), "year") == 1
        assert on_days("elapsed", days(2000, 2, 29), days(2001, 2, 27), "year") == 0
        assert on_days("elapsed", days(2001, 3, 1), days(2000, 2, 29), "month") == -12
        assert on_days("elapsed", days(2024, 1, 8), days(2024, 1, 1), "week") == -1
        assert on_days("elapsed", days(2024, 1, 8), days(2024, 1, 2), "week") == 0
        assert on_moments("elapsed", ms(2024, 1, 1), ms(2023, 12, 31, 0, 0, 1), "day") == 0

    def test_conversions(self):
        assert on_moments("date", ms(1969, 12, 31, 23)) == days(1969, 12, 31)
        assert on_days("datetime", days(2024, 2, 29)) == ms(2024, 2, 29)
        assert on_days("text", days(2024, 2, 29)) == "2024-02-29"


class TestPhrases:
    @pytest.mark.parametrize(
        ("text", "query", "expected"),
        [
            ("a boundary layer", '"boundary layer"', True),
            ("a layer boundary", '"boundary layer"', False),
            ("boundary of the layer", '"boundary layer"', False),
            ("state of the art", '"state of the art"', True),
            ("state art", '"state of the art"', False),
            ("boundaries layers", '"boundary layer"', True),
            ("nothing", '"of the"', False),
            ("flow", '"boundary layer" flow', True),
            ("layer", '"boundary layer', True),
        ],
    )
    def test_occur(self, text, query, expected):
        assert shares_term_or_phrase(text, query) is expected
