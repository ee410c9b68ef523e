"""Pieces for damaged sources, and the judge of what the parser answers to them."""

from __future__ import annotations

import re

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax.ast import QueryFile
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.query.syntax.printer import render
from tests.lang.query.sources import SOURCES

# Whole tokens and the characters that open, close and separate them.
PIECES = [
    *re.findall(r"[$@]?\w+|\S", " ".join(SOURCES)),
    *('"', '"a', "\\", '"\\q"', "//", "/*", "*/", "\n", "\t", "$", "'", "#", ";", "é", "\x00"),
    *(
        "\ud800",
        "-",
        "1.",
        "99999999999999999999",
        "9" * 5000,
        "not {",
        "[" * 70,
        "{1,",
        "<>",
        "==",
    ),
]


def answer(text: str) -> QueryFile | ParseError:
    """The outcome of parsing, judged; anything but these two is an error of the test."""
    try:
        tree = parse(text)
    except ParseError as error:
        judge(error, text)
        return error
    assert parse(render(tree)) == tree
    return tree


def judge(error: ParseError, text: str) -> None:
    span = error.span
    assert span is not None
    assert 0 <= span.start < span.end <= len(text)
    assert span.line == text.count("\n", 0, span.start) + 1
    assert span.column == span.start - text.rfind("\n", 0, span.start)
    assert error.message
    assert error.render().startswith(f"parse error: {error.message}\n")
