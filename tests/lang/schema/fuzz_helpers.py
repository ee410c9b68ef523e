"""Pieces for damaged schemas, and the judge of what the compiler answers to them."""

from __future__ import annotations

from omnigraph.errors import SourceError
from omnigraph.lang.schema import compile_schema, create, parse, plan, render
from omnigraph.lang.schema.read_ir import read_ir
from tests.lang.schema.fixtures import ROOT, cases

DOMAIN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
SEEDS = [case.values[0].given for case in cases("printed")] + [
    (ROOT / "whole.pg").read_text("utf-8")
]
WORDS = [
    *"{}()[]:,?@=-*.\"\\/#'é\u00a0\n",
    *("->", "..", "/*", "*/", "//", "node", "edge", "interface", "implements", "enum", "Vector"),
    *("@key", "@unique(a)", "@index", "@range(a, 0..9)", '@check(a, "(")', "@card(0..1)"),
    *("@embed(a)", '@rename_from("A")', "@description", "String", "Blob", "id", "src", "A", "a"),
    *("0", "007", "0.5", "9" * 30, "true", '"', '"\\d"', "_rowid"),
]


def check_fault(text: str, error: SourceError) -> None:
    span = error.span
    assert span is not None
    assert 0 <= span.start < span.end <= len(text)
    assert text.count("\n", 0, span.start) == span.line - 1
    assert span.start - (text.rfind("\n", 0, span.start) + 1) == span.column - 1
    assert error.message
    assert error.render().startswith(str(error))


def check(text: str) -> None:
    """Compile a text, and judge the schema or the error."""
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
