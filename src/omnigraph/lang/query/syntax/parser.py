"""Parses `.gq` text into a syntax tree."""

from __future__ import annotations

import json
import pkgutil
from functools import lru_cache, partial
from typing import cast

from omnigraph.lang.query.syntax import ast
from omnigraph.lang.query.syntax.build import Builder
from omnigraph.lang.query.syntax.driver import Declined, Driver
from omnigraph.lang.query.syntax.parse_state import CLOSE, NESTING_LIMIT, OPEN, READING, Reading
from omnigraph.lang.source import Source

__all__ = ["NESTING_LIMIT", "parse"]


def parse(text: str, filename: str | None = None) -> ast.QueryFile:
    """The queries of a source; any fault is a ParseError with its place."""
    reading = Reading(Source(text, filename))
    outer = READING.set(reading)
    try:
        try:
            made = _driver().run(text)
        except Declined:
            made = _by_lark(reading)
        return cast("ast.QueryFile", made)
    finally:
        READING.reset(outer)


def _by_lark(reading: Reading) -> object:
    from omnigraph.lang import failures
    from omnigraph.lang.query.syntax.advice import NAMES, advise
    from omnigraph.lang.query.syntax.grammar import lark_parser

    return failures.run(lark_parser(), reading.source, NAMES, partial(advise, reading))


@lru_cache(maxsize=1)
def _driver() -> Driver:
    # Not by a path: on Spark's executors the package may lie in a zip file.
    tables = json.loads(pkgutil.get_data(__package__, "tables.json") or b"")
    nesting = {**dict.fromkeys(OPEN, 1), **dict.fromkeys(CLOSE, -1)}
    return Driver(tables, Builder(), nesting, NESTING_LIMIT)
