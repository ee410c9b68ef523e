"""Whatever the text, the parser answers with a tree or with a ParseError that points into it.

Random texts are in `tests/faults/fuzz`; here are those that somebody thought of.
"""

from __future__ import annotations

import pytest

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax.ast import QueryFile
from tests.lang.query.fuzz_helpers import answer
from tests.lang.query.sources import SOURCES


@pytest.mark.parametrize("source", SOURCES)
def test_every_beginning_of_a_source(source):
    for end in range(len(source)):
        answer(source[:end])


@pytest.mark.parametrize(
    "opening",
    [
        "not ",
        "exists {",
        "optional {",
        "-",
        "not {",
        "[",
        "count(",
        "rrf(",
        "{",
        "(",
        "$x: T {",
        "$a knows{",
        "query q() {",
    ],
)
@pytest.mark.parametrize(
    "before",
    ["", "query q() { match { ", "query q() { match { $x.p = ", "query q() { insert T { a: "],
)
def test_deep_nesting_is_refused_without_overflow(before, opening):
    assert isinstance(answer(before + opening * 20_000), ParseError)


@pytest.mark.parametrize(
    "trivia",
    [
        "/* a */" * 3000,
        "// // // //" * 1000 + "\n",
        "//\n" * 3000,
        " " * 30_000,
        "/*" * 3000,
        "/* * / ** */" * 1000,
        "/" * 3000,
    ],
)
def test_looking_past_trivia_does_not_explode(trivia):
    """A function word and `not` look for their bracket behind any trivia: once, and no way twice."""
    for word in ("count", "not", "now", "date", "search"):
        answer(f"query q() {{ match {{ {word}{trivia}= 1 }} return {{ {word}{trivia}x }} }}")


def test_long_sources():
    clauses = "\n".join(f"$x{n} knows $x{n + 1}" for n in range(3000))
    literal = "[" + ", ".join(map(str, range(5000))) + "]"
    text = '"' + r"\n\"" * 20_000 + '"'
    assert isinstance(
        answer(
            f"query q() {{ match {{ {clauses} $x.p = {literal} $x.q = {text} }} return {{ $x }} }}"
        ),
        QueryFile,
    )
    assert isinstance(answer('query q() { match { $x.p = "' + "a\\n" * 50_000), ParseError)
