"""The texts of the cases, read by the grammars that the pages of the language come with.

`query-ext.lark` is the language before valid time, `memory.lark` the one with it. The parser refuses more than they do,
for they know neither types nor functions; what it takes, they take.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lark import Lark

from omnigraph.errors import SourceError
from omnigraph.lang.query.syntax.parser import parse
from tests.conformance.case_files import read_yaml

HERE = Path(__file__).parent
STATEMENTS = ("query ", "insert ", "update ", "delete ", "upsert ", "assert ", "end ")


@cache
def grammar(name: str) -> Lark:
    """One of the grammars."""
    return Lark((HERE / "grammars" / f"{name}.lark").read_text(encoding="utf-8"), parser="lalr")


def queries(node: Any) -> Iterator[str]:
    """All texts below a node of a file that look like queries."""
    if isinstance(node, str):
        if "match {" in node or node.lstrip().startswith(STATEMENTS):
            yield node
    elif isinstance(node, (dict, list)):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from queries(inner)


def taken(file: str) -> list[str]:
    """The texts of a file that the parser takes."""
    content = read_yaml(HERE / "cases" / f"{file}.yaml")
    return [text for text in sorted(set(queries(content))) if _is_taken(text)]


def _is_taken(text: str) -> bool:
    try:
        parse(text)
    except SourceError:
        return False
    return True


@pytest.mark.parametrize(
    ("file", "least", "grammars"),
    [
        ("query", 240, ["query-ext", "memory"]),
        ("query-ext", 350, ["query-ext", "memory"]),
        ("algorithms", 4, ["query-ext", "memory"]),
        ("memory", 80, ["memory"]),
    ],
)
def test_the_grammars_of_the_pages_read_what_the_parser_takes(file, least, grammars):
    texts = taken(file)
    assert len(texts) >= least
    for name in grammars:
        for text in texts:
            grammar(name).parse(text)  # raises


def test_valid_time_is_new():
    text = "match { $p: Person } ever return { $p.slug }"
    parse(text)
    grammar("memory").parse(text)
    with pytest.raises(Exception, match="Unexpected token"):
        grammar("query-ext").parse(text)
