"""Whole tokens, and pieces that open, close and separate them, for damaged sources."""

from __future__ import annotations

import re

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
