"""Convert dates and instants between text and the integers they are stored as.

A Date is stored as days, a DateTime as milliseconds since 1970-01-01 (UTC). Both are limited
to the years 0001 to 9999, so that everything stored can be printed and read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from omnigraph.types.unfit import Unfit, shown

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MS_PER_DAY = 86_400_000
US_PER_SECOND = 1_000_000
US_DIGITS = 6
MIN_DAYS = date.min.toordinal() - EPOCH_ORDINAL
MAX_DAYS = date.max.toordinal() - EPOCH_ORDINAL
MIN_MS = MIN_DAYS * MS_PER_DAY
MAX_MS = (MAX_DAYS + 1) * MS_PER_DAY - 1

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME = re.compile(
    rf"{_DATE.pattern}(?:[Tt ]"
    r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]+))?)?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?"
)


def parse_date(text: str) -> int:
    """Read a date written ``YYYY-MM-DD`` as days since the epoch."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise Unfit(f"{shown(text)} is not a date written YYYY-MM-DD")
    return _days(text, *match.groups())


def _days(text: str, year: str, month: str, day: str) -> int:
    try:
        return date(int(year), int(month), int(day)).toordinal() - EPOCH_ORDINAL
    except ValueError:
        raise Unfit(f"{shown(text)} is not on a day of the years 0001 to 9999") from None


def format_date(days: int) -> str:
    """Write a stored Date as ``YYYY-MM-DD``."""
    return date.fromordinal(checked_days(days) + EPOCH_ORDINAL).isoformat()


def checked_days(days: int) -> int:
    """Return the days unchanged if they lie in the years 0001 to 9999; else raise ``Unfit``."""
    if not MIN_DAYS <= days <= MAX_DAYS:
        raise Unfit(f"{shown(days)} days since 1970-01-01 leaves the years 0001 to 9999")
    return days


def parse_datetime(text: str) -> int:
    """Read an RFC 3339 date and time as milliseconds since the epoch.

    Without an offset it is UTC, a date alone is midnight UTC, and digits beyond milliseconds are
    dropped.
    """
    instant = _parse_instant(text)
    return instant.seconds * 1000 + int(instant.fraction[:3].ljust(3, "0"))


def parse_moment(text: str) -> int:
    """Read a date, or a date and time, as the last microsecond since the epoch that it includes.

    A date alone means its end of day UTC. A time may have up to six fraction digits.
    """
    instant = _parse_instant(text)
    if not instant.has_time:
        return end_of_day(instant.seconds * 1000 // MS_PER_DAY)
    if len(instant.fraction) > US_DIGITS:
        raise Unfit(f"{shown(text)} has more than {US_DIGITS} digits after the second")
    return instant.seconds * US_PER_SECOND + int(instant.fraction.ljust(US_DIGITS, "0"))


def moment_of(value: object) -> int:
    """Return the microsecond since the epoch that a datetime, a date or a text means.

    A naive datetime is UTC; a date means its end of day UTC; a text is read by ``parse_moment``.
    """
    if isinstance(value, str):
        return parse_moment(value.strip())
    if isinstance(value, datetime) and value == value:  # noqa: PLR0124 - a missing one differs
        if value.utcoffset() is None:
            value = value.replace(tzinfo=UTC)
        us = (value - _EPOCH) // timedelta(microseconds=1)
        if not MIN_MS <= us // 1000 <= MAX_MS:
            raise Unfit(f"{value.isoformat()} leaves the years 0001 to 9999 in UTC")
        return us
    if isinstance(value, date) and not isinstance(value, datetime):
        return end_of_day(value.toordinal() - EPOCH_ORDINAL)
    raise Unfit(f"{shown(value)} is neither a datetime nor a date nor a text")


def milliseconds_of(value: object) -> int:
    """Return the millisecond since the epoch that a datetime, a date or a text means, as in a query.

    A naive datetime is UTC, and a date is its midnight UTC.
    """
    if isinstance(value, str):
        return parse_datetime(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value.toordinal() - EPOCH_ORDINAL) * MS_PER_DAY
    return moment_of(value) // 1000


def end_of_day(days: int) -> int:
    """Return the last microsecond of a day, given in days since the epoch."""
    return (days + 1) * MS_PER_DAY * 1000 - 1


class _Instant(NamedTuple):
    """A parsed time: whole seconds since the epoch, and the digits of its fraction (may be empty)."""

    seconds: int
    fraction: str
    has_time: bool


def _parse_instant(text: str) -> _Instant:
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise Unfit(f"{shown(text)} is not a date and time written YYYY-MM-DDTHH:MM:SS.mmmZ")
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = match.groups()
    seconds = _days(text, year, month, day) * MS_PER_DAY // 1000
    if hour is not None:
        seconds += (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    if sign is not None:
        offset = (int(off_hour) * 60 + int(off_minute or 0)) * 60
        seconds += offset if sign == "-" else -offset
    if not MIN_MS <= seconds * 1000 <= MAX_MS:
        raise Unfit(f"{shown(text)} leaves the years 0001 to 9999 in UTC")
    return _Instant(seconds, fraction or "0", hour is not None)


def format_moment(us: int) -> str:
    """Write microseconds since the epoch as ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
    ms, rest = divmod(us, 1000)
    return f"{format_datetime(ms)[:-1]}{rest:03}Z"


def format_datetime(ms: int) -> str:
    """Write a stored DateTime as ``YYYY-MM-DDTHH:MM:SS.mmmZ``."""
    moment = _EPOCH + timedelta(milliseconds=int(checked_ms(ms)))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def checked_ms(ms: int) -> int:
    """Return the milliseconds unchanged if they lie in the years 0001 to 9999; else ``Unfit``."""
    if not MIN_MS <= ms <= MAX_MS:
        raise Unfit(f"{shown(ms)} ms since 1970-01-01 leaves the years 0001 to 9999")
    return ms


def date_texts(array: pa.Array) -> Iterator[pa.Array]:
    """Write a column of Dates as ``format_date`` does; there is no other spelling."""
    import pyarrow as pa

    yield array.cast(pa.utf8())


def datetime_texts(array: pa.Array) -> Iterator[pa.Array]:
    """Write a column of DateTimes as ``format_datetime`` does, then without milliseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for unit in ("ms", "s"):
        # Casting without the zone gives UTC text and needs no time zone database.
        text = array.cast(pa.timestamp(unit), safe=False).cast(pa.utf8())
        yield pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", "")
