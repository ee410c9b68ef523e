"""The log of a server: one JSON object a line on stderr, or lines to read on a terminal.

    {"ts": "2026-11-17T22:06:40.123456Z", "level": "info", "event": "request", "request_id": "5b0f…",
     "method": "POST", "route": "query", "status": 200, "ms": 3.1, "actor": "ada", "graph": "default"}

Whoever logs gives the facts as ``extra``; of those only the fields below are written, so that nothing else
gets into the log by chance: no parameters, no query, no token and no row.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from omnigraph import settings
from omnigraph.errors import BadRequest
from omnigraph.settings import LogFormat, LogLevel

FIELDS: Final = (
    *("request_id", "method", "route", "status", "ms", "actor", "graph"),
    *("action", "branch", "target_branch", "allowed", "rule"),
)
"""What a record may say beside its event."""

_ENCODED: Final = json.JSONEncoder(default=str).encode
"""Lines are many: the encoder is made once."""

logger = logging.getLogger(__name__)


def set_up_logs(stream: TextIO | None = None) -> None:
    """Log as the environment says; a value that cannot be used is a warning."""
    stream = sys.stderr if stream is None else stream
    level, refused = _chosen(settings.LOG_LEVEL)
    form, also_refused = _chosen(settings.LOG_FORMAT)
    write_to(stream, level, form or ("text" if stream.isatty() else "json"))
    for problem in (refused, also_refused):
        if problem is not None:
            logger.warning("%s", problem)


def _chosen(setting: settings.Setting[Any]) -> tuple[Any, BadRequest | None]:
    try:
        return setting.get(), None
    except BadRequest as refused:
        return setting.default(), refused


def write_to(stream: TextIO, level: LogLevel, form: LogFormat) -> None:
    """Write the records of the product from a level on, and the warnings of its libraries."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(_is_news)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    # Libraries log addresses and headers of their own requests below this.
    root.setLevel(logging.WARNING)
    logging.getLogger("omnigraph").setLevel(level.upper())
    logging.captureWarnings(capture=True)
    # If nobody reads the log any more, serving goes on.
    logging.raiseExceptions = False


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out that a request was cut off when the server ended: uvicorn takes it for a failure."""
    return record.exc_info is None or record.exc_info[0] is not asyncio.CancelledError


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        facts = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **dict(_fields(record)),
        }
        if (story := _story(self, record)) is not None:
            facts["traceback"] = story
        return _ENCODED(facts)


class TextLines(logging.Formatter):
    """A record as a line to read; a traceback follows it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        facts = "".join(f" {name}={_plain(str(value))}" for name, value in _fields(record))
        line = f"{_time(record)} {record.levelname.lower():7} {_plain(record.getMessage())}{facts}"
        story = _story(self, record)
        return line if story is None else f"{line}\n{story}"


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name in FIELDS:
        value = getattr(record, name, None)
        if value is not None:
            yield name, value


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _story(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if record.exc_info is None or record.exc_info[1] is None:
        return None
    return formatter.formatException(record.exc_info)


def _plain(text: str) -> str:
    """Return a text that stays on its line and moves no cursor: clients choose some of it."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
