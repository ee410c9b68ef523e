from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types import Unfit, format_date, format_datetime, parse_date, parse_datetime
from tests.types.stored import CALM

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(*parts):
    return (datetime(*parts, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("1970-01-02", 1),
        ("1969-12-31", -1),
        ("2000-02-29", 11016),
        ("0001-01-01", -719162),
        ("9999-12-31", 2932896),
    ],
)
def test_dates(text, days):
    assert parse_date(text) == days
    assert format_date(days) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1970",
        "1970-1-1",
        "1970-01-01 ",
        "1970-01-01\n",
        "1970-01-01T00:00:00Z",
        "70-01-01",
        "1999-02-29",
        "1970-13-01",
        "1970-00-10",
        "1970-01-32",
        "0000-01-01",
        "10000-01-01",
        "-0001-01-01",
        "1970/01/01",
        "19700101",
        "１９７０-01-01",
        "�",
    ],
)
def test_malformed_dates_are_unfit(text):
    with pytest.raises(Unfit):
        parse_date(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000Z", 0),
        ("1970-01-01", 0),
        ("2015-02-18", instant(2015, 2, 18)),
        ("2015-02-18T08:15:30.250Z", instant(2015, 2, 18, 8, 15, 30) + 250),
        ("2015-02-18T08:15:30.25Z", instant(2015, 2, 18, 8, 15, 30) + 250),
        ("2015-02-18T08:15:30.2509999Z", instant(2015, 2, 18, 8, 15, 30) + 250),
        ("2015-02-18T08:15:30", instant(2015, 2, 18, 8, 15, 30)),
        ("2015-02-18T08:15", instant(2015, 2, 18, 8, 15)),
        ("2015-02-18t08:15:30z", instant(2015, 2, 18, 8, 15, 30)),
        ("2015-02-18 08:15:30", instant(2015, 2, 18, 8, 15, 30)),
        ("2015-02-18T08:15:30+02:00", instant(2015, 2, 18, 6, 15, 30)),
        ("2015-02-18T08:15:30-05:30", instant(2015, 2, 18, 13, 45, 30)),
        ("2015-02-18T08:15:30+0200", instant(2015, 2, 18, 6, 15, 30)),
        ("2015-02-18T08:15:30+02", instant(2015, 2, 18, 6, 15, 30)),
        ("2015-01-01T00:30:00+01:00", instant(2014, 12, 31, 23, 30)),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("0001-01-01T00:00:00Z", instant(1, 1, 1)),
        ("9999-12-31T23:59:59.999Z", instant(9999, 12, 31, 23, 59, 59) + 999),
    ],
)
def test_instants(text, ms):
    assert parse_datetime(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2015-02-18T",
        "2015-02-18Z",
        "2015-02-18T24:00:00Z",
        "2015-02-18T08:60:00Z",
        "2015-02-18T08:15:60Z",
        "2015-02-18T08:15:30.Z",
        "2015-02-18T08:15:30 Z",
        "2015-02-30T08:15Z",
        "2015-02-18T08:15:30+24:00",
        "2015-02-18T08:15:30+02:60",
        "2015-02-18T08:15:30Z\n",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "0000-12-31T23:00:00-05:00",
        "20150218T081530Z",
        "1424247330250",
    ],
)
def test_malformed_instants_are_unfit(text):
    with pytest.raises(Unfit):
        parse_datetime(text)


@pytest.mark.parametrize("parse", [parse_date, parse_datetime])
@pytest.mark.parametrize("text", ["tomorrow", "2015-02-30"])
def test_the_refusal_quotes_the_value(parse, text):
    with pytest.raises(Unfit, match=f'"{text}"'):
        parse(text)


@pytest.mark.parametrize("days", [-719163, 2932897, 10**30])
def test_days_that_cannot_be_printed_are_unfit(days):
    with pytest.raises(Unfit):
        format_date(days)
    with pytest.raises(Unfit):
        format_datetime(days * 86_400_000)


@CALM
@given(st.dates())
def test_every_date_reads_back(day):
    days = parse_date(day.isoformat())
    assert days == (day - date(1970, 1, 1)).days
    assert format_date(days) == day.isoformat()


@CALM
@given(st.datetimes())
def test_every_instant_reads_back_to_the_millisecond(moment):
    ms = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
    assert parse_datetime(moment.isoformat()) == ms
    assert format_datetime(ms) == moment.isoformat(timespec="milliseconds") + "Z"
    assert parse_datetime(format_datetime(ms)) == ms
