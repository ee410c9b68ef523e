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
ANONYMOUS = """\
match { $p: Person

  $p.age > 1 }
return { $p.name } // no end; here
order { $p.name }

for $x in $list
insert Person { name: $x.name };
($n: String)
match { $p: Person } delete $p  ; .branch
query a() { match { $p: Person } return { $p } }
// who uses it
match { $r: a() }
return { $r.p }
\t
query b() { delete T where a = 1 }

update T set { a: 1 } where b = 2

.explain match { $p: Person }
return { $p }

insertion
insert T { a: 1 }"""
ANONYMOUS_CUT = [
    (1, ANONYMOUS[: ANONYMOUS.index("\n\nfor")]),
    (7, "for $x in $list\ninsert Person { name: $x.name }"),
    (9, "($n: String)\nmatch { $p: Person } delete $p"),
    (10, ".branch"),
    (11, ANONYMOUS[ANONYMOUS.index("query a") : ANONYMOUS.index("\n\t\nquery b")]),
    (16, "query b() { delete T where a = 1 }"),
    (18, "update T set { a: 1 } where b = 2"),
    (20, ".explain match { $p: Person }\nreturn { $p }"),
    (23, "insertion"),
]


def cut(pieces):
    splitter = Splitter()
    found = [statement for piece in pieces for statement in splitter.feed(piece)]
    return [(statement.line, statement.text) for statement in found], splitter.finish()


def finished(pieces):
    found, rest = cut(pieces)
    assert rest is None or rest.is_finished
    return found if rest is None else [*found, (rest.line, rest.text)]


def test_declarations_end_when_their_braces_close():
    assert finished([SEVERAL]) == CUT


def test_queries_without_a_name_end_at_an_empty_line_a_semicolon_or_the_end():
    assert finished([ANONYMOUS]) == [*ANONYMOUS_CUT, (24, "insert T { a: 1 }")]


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("match { $p: Person } return { $p }", False),
        ("match { $p: Person } return { $p };", True),
        ("match { $p: Person } return { $p } ; // all", True),
        ("match { $p: Person } return { $p }\n", True),
        ("match { $p: Person\n", False),
        ("match { $p: Person;", False),
        ("($n: String)", False),
        ("query a() { match { $p: Person } return { $p } }", True),
        ("query a() { match { $p: Person } return { $p } }\nmatch { $r: a() }", False),
        (
            "query a() { match { $p: Person } return { $p } }\nmatch { $r: a() } return { $r.p };",
            True,
        ),
        (".explain match { $p: Person }", False),
        (".explain match { $p: Person } return { $p };", True),
    ],
)
def test_what_enter_runs_at_the_prompt(text, complete):
    assert is_complete(text) is complete


def test_it_does_not_matter_in_which_pieces_the_lines_come():
    for text in (SEVERAL, ANONYMOUS):
        lines = text.splitlines(keepends=True)
        for seed in range(20):
            choice = random.Random(seed)
            pieces, rest = [], lines[:]
            while rest:
                size = choice.randint(1, 4)
                pieces.append("".join(rest[:size]))
                rest = rest[size:]
            assert finished(pieces) == finished([text]), seed


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


@pytest.mark.parametrize("text", [".quit", "query q() {}", "hello", "match { $p: Person };"])
def test_the_last_line_needs_no_newline(text):
    found, rest = cut([text])
    assert found or (rest.text, rest.is_finished) == (text, True)
    assert is_complete(text)
