"""The driver and lark run the same tables: where the driver answers, lark gives the same tree."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ParseError
from omnigraph.lang.query.syntax import parser
from omnigraph.lang.query.syntax.grammar import TABLES, tables
from omnigraph.lang.query.syntax.parse_state import NESTING_LIMIT
from omnigraph.lang.query.syntax.parser import Declined, Driver, parse
from omnigraph.lang.query.syntax.printer import render
from tests.lang.query.fuzz_helpers import PIECES
from tests.lang.query.query_trees import queries
from tests.lang.query.sources import SOURCES
from tests.sampling import examples


def test_the_tables_are_those_of_the_grammar():
    kept = json.loads(Path(parser.__file__).with_name(TABLES).read_text("utf-8"))
    assert kept == tables(), "run `python -m omnigraph.lang.query.syntax.grammar`"


def test_every_scanner_tries_its_terminals_in_the_order_of_all():
    made = tables()
    order = [name for name, _ in made["terminals"]]
    for takes, _ in made["scanners"]:
        assert takes == [name for name in order if name in takes]


@contextmanager
def answers():
    """Counts the texts that the driver answers."""
    seen = []
    run = Driver.run

    def noting(self, text):
        seen.append(False)
        made = run(self, text)
        seen[-1] = True
        return made

    with mock.patch.object(Driver, "run", noting):
        yield seen


def outcome(text):
    try:
        tree = parse(text)
    except ParseError as error:
        return error.render()
    # The spans too, which equality and repr leave out.
    return f"{tree!r} {asdict(tree)}"


def by_lark(text):
    with mock.patch.object(Driver, "run", side_effect=Declined):
        return outcome(text)


@pytest.mark.parametrize("source", SOURCES)
def test_sources_without_faults_are_answered(source):
    with answers() as answered:
        made = outcome(source)
    assert answered == [True]
    assert made == by_lark(source)


@settings(deadline=None, max_examples=examples(100))
@given(queries)
def test_any_query_is_answered(query):
    text = render(query)
    with answers() as answered:
        made = outcome(text)
    assert answered == [True]
    assert made == by_lark(text)


@settings(deadline=None, max_examples=examples(300))
@given(
    st.sampled_from(SOURCES),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 6), st.sampled_from(["", *PIECES])),
        min_size=1,
        max_size=2,
    ),
)
def test_damaged_sources_come_out_as_from_lark(source, cuts):
    for start, length, piece in cuts:
        at = start % (len(source) + 1)
        source = source[:at] + piece + source[at + length :]
    with answers() as answered:
        made = outcome(source)
    assert made == by_lark(source)
    # What lark reads, the driver reads as well: nothing falls back without a reason.
    deep = any(source.count(opening) > NESTING_LIMIT for opening in "[({")
    assert answered == [made.startswith("QueryFile(")] or deep


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n// nothing\n/* at all */",
        "query q() { insert T { a: 1 } } // the end",
        "query q() { insert T { a: 1 } }\n\t",
    ],
)
def test_trivia_at_the_end(text):
    with answers() as answered:
        made = outcome(text)
    assert answered == [True]
    assert made == by_lark(text)


def test_a_deep_text_is_left_to_lark_and_read_all_the_same():
    inside = "not { " * (NESTING_LIMIT - 1) + "$x: T" + " }" * (NESTING_LIMIT - 1)
    text = f"query q() {{ match {{ {inside} }} return {{ $x }} }}"
    with answers() as answered:
        made = outcome(text)
    assert answered == [False]
    assert made.startswith("QueryFile(")


def test_a_lone_surrogate_in_a_text_is_not_let_through():
    with pytest.raises(ParseError, match="surrogate"):
        parser.parse('query q() { insert T { a: "\ud800" } }')
