"""Whatever the text, compilation ends in a schema or in a SourceError that points into it."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import SourceError
from omnigraph.lang.schema import compile_schema, create, parse, plan, render
from omnigraph.lang.schema.read_ir import read_ir
from tests.lang.schema.fixtures import ROOT, cases

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
SEEDS = [case.values[0].given for case in cases("printed")] + [
    (ROOT / "whole.pg").read_text("utf-8")
]
TOKENS = re.compile(r'"[^"]*"|\w+|->|\.\.|\s+|.')
WORDS = [
    *"{}()[]:,?@=-*.\"\\/#'é\u00a0\n",
    *("->", "..", "/*", "*/", "//", "node", "edge", "interface", "implements", "enum", "Vector"),
    *("@key", "@unique(a)", "@index", "@range(a, 0..9)", '@check(a, "(")', "@card(0..1)"),
    *("@embed(a)", '@rename_from("A")', "@description", "String", "Blob", "id", "src", "A", "a"),
    *("0", "007", "0.5", "9" * 30, "true", '"', '"\\d"', "_rowid"),
]


def check_fault(text, error):
    span = error.span
    assert span is not None
    assert 0 <= span.start < span.end <= len(text)
    assert text.count("\n", 0, span.start) == span.line - 1
    assert span.start - (text.rfind("\n", 0, span.start) + 1) == span.column - 1
    assert error.message
    assert error.render().startswith(str(error))


def check(text):
    try:
        compiled = compile_schema(text)
    except SourceError as error:
        check_fault(text, error)
        return
    tree = compiled.ast
    assert parse(render(tree)) == tree
    printed = compile_schema(render(tree))
    assert printed.shape.shape_hash == compiled.shape.shape_hash
    ir = create(compiled.shape, DOMAIN)
    assert read_ir(ir.to_json()) == ir
    assert plan(ir, printed.shape).steps == ()


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text):
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_any_words(words):
    check(" ".join(words))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_source_with_characters_changed(data):
    text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 5))
        insert = data.draw(st.sampled_from(["", *WORDS]) | st.text(max_size=2))
        text = text[:at] + insert + text[at + length :]
    check(text)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_source_with_tokens_changed(data):
    tokens = TOKENS.findall(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(0, len(tokens) - 1))
        second = data.draw(st.integers(0, len(tokens) - 1))
        match data.draw(st.sampled_from(["swap", "drop", "repeat", "put"])):
            case "swap":
                tokens[first], tokens[second] = tokens[second], tokens[first]
            case "drop":
                tokens[first] = " "
            case "repeat":
                tokens.insert(first, tokens[second])
            case "put":
                tokens[first] = data.draw(st.sampled_from(WORDS))
    check("".join(tokens))
