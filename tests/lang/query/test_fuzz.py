"""Whatever the text, the parser answers with a tree or with a ParseError that points into it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax.ast import QueryFile
from omnigraph.lang.query.syntax.parser import parse
from omnigraph.lang.query.syntax.printer import render
from tests.lang.query.fuzz_helpers import PIECES
from tests.lang.query.sources import SOURCES


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


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=60))
def test_any_text(text):
    answer(text)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", " "]))
def test_any_run_of_tokens(pieces, space):
    answer(space.join(pieces))


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(SOURCES),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(["", *PIECES])),
        min_size=1,
        max_size=3,
    ),
)
def test_damaged_sources(source, cuts):
    for start, length, piece in cuts:
        at = start % (len(source) + 1)
        source = source[:at] + piece + source[at + length :]
    answer(source)


@pytest.mark.parametrize("source", SOURCES)
def test_every_beginning_of_a_source(source):
    for end in range(len(source)):
        answer(source[:end])


@pytest.mark.parametrize(
    "opening", ["not {", "[", "count(", "rrf(", "{", "(", "$x: T {", "$a knows{", "query q() {"]
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
