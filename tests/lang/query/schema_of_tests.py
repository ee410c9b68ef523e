"""The schema the query-language tests are written against."""

from __future__ import annotations

from functools import lru_cache

import pytest

from omnigraph.errors import TypeCheckError
from omnigraph.lang.query import compile_query
from omnigraph.lang.query.ir import Plan
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.schema.catalog import Catalog

SCHEMA = """
node Person {
  handle: String @key
  name: String
  rank: enum(junior, senior)
  age: I32?
  height: F32?
  wealth: U64?
  born: Date?
  seen: DateTime?
  active: Bool?
  tags: [String]?
  codes: [I32]?
  photo: Blob?
}
node Team { code: String @key  title: String?  budget: I64? }
node Slot { bay: I32  lane: String  note: String?  @key(bay, lane) }
node Doc {
  slug: String @key
  body: String @index
  score: F64?
  vec: Vector(3) @embed("body", model="acme/a") @index
  raw: Vector(2)?
}
node Twin { label: String @key }
edge Knows: Person -> Person { since: Date?  note: String?  scan: Blob? }
edge MemberOf: Person -> Team { role: enum(lead, member)  hours: I32? }
edge Cites: Doc -> Doc
edge Wrote: Person -> Doc
edge Twin: Twin -> Twin { label: String? }
"""


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    """The compiled schema."""
    return compile_schema(SCHEMA).catalog


def compiled(text: str, types: Catalog | None = None, name: str | None = None) -> Plan:
    """The plan of a query of a text, by default the only one."""
    return compile_query(types or catalog(), text, name)


def read(match: str, returns: str = "$p.name", tail: str = "", params: str = "") -> str:
    """A read query around a match body."""
    return f"query q({params}) {{ match {{ {match} }} return {{ {returns} }} {tail} }}"


def write(body: str, params: str = "") -> str:
    """A mutation around its statements."""
    return f"query q({params}) {{ {body} }}"


def assert_refused(
    text: str, rule: str, words: list[str], types: Catalog | None = None, name: str | None = None
) -> None:
    """The check of a text fails by that rule, names these words, and underlines a place in the text."""
    with pytest.raises(TypeCheckError) as caught:
        compiled(text, types, name)
    message = str(caught.value)
    assert message.startswith(f"type error: {rule}: ")
    assert caught.value.details["rule"] == rule
    for word in words:
        assert word in message
    span = caught.value.span
    assert span is not None
    assert 0 <= span.start < span.end <= len(text)
