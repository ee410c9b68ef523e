"""Text cut into statements."""

import random

import pytest

from omnigraph.cli.shell.statements import Splitter, is_complete

SEVERAL = """\
// a comment with a { brace
query a() {
  match { $p: Person { name: "}" } /* } */ }
  return { $p.name }
}
query b() { } query c() { };
.branch side
.explain
.explain query d() {
}
hello
}
query e(
) {
}
"""
CUT = [
    (2, SEVERAL[SEVERAL.index("query a") : SEVERAL.index("\nquery b")]),
    (6, "query b() { }"),
    (6, "query c() { }"),
    (7, ".branch side"),
    (8, ".explain"),
    (9, ".explain query d() {\n}"),
    (11, "hello"),
    (12, "}"),
    (13, "query e(\n) {\n}"),
]


def cut(pieces):
    splitter = Splitter()
    found = [statement for piece in pieces for statement in splitter.feed(piece)]
    return [(statement.line, statement.text) for statement in found], splitter.finish()


def test_statements_end_when_their_braces_close():
    assert cut([SEVERAL]) == (CUT, None)


def test_it_does_not_matter_in_which_pieces_the_lines_come():
    lines = SEVERAL.splitlines(keepends=True)
    for seed in range(20):
        choice = random.Random(seed)
        pieces, rest = [], lines[:]
        while rest:
            size = choice.randint(1, 4)
            pieces.append("".join(rest[:size]))
            rest = rest[size:]
        assert cut(pieces) == (CUT, None), seed


@pytest.mark.parametrize("text", ["", "  \n", "// nothing", "/* nothing */", ";;"])
def test_where_there_is_nothing_no_statement_is_left(text):
    assert cut([text]) == ([], None)
    assert is_complete(text)


@pytest.mark.parametrize(
    "text", ["query q()", "query q() { match {", 'query q() { "}', "/* }", ".explain query q() {"]
)
def test_the_end_finds_a_statement_that_is_not_finished(text):
    found, rest = cut([f"query a() {{}}\n{text}"])
    assert found == [(1, "query a() {}")]
    assert (rest.text, rest.line, rest.is_finished) == (text, 2, False)
    assert not is_complete(text)


@pytest.mark.parametrize("text", [".quit", "query q() {}", "hello", "match { $p: Person }"])
def test_the_last_line_needs_no_newline(text):
    found, rest = cut([text])
    assert found or (rest.text, rest.is_finished) == (text, True)
    assert is_complete(text)
