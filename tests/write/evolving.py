"""A small graph with rows and indexes, and the schema it gets next."""

from __future__ import annotations

import omnigraph as og
from tests.opened import table_of

SECRET = "kJ8vQ2xZ7mR4tY9wB3nL6pD1sF5hG0cA"
SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  mail: String
  level: enum(guest, admin)
  note: String?
}
node Team { code: String @key }
node Room { code: String @key }
edge MemberOf: Person -> Team @card(0..1) { role: String? }
"""
NEXT = """
node Team { code: String @key  motto: String? }
node Human @rename_from("Person") {
  nick: String?
  years: I32? @index @rename_from("age")
  name: String @key
  mail: String? @index
  level: enum(admin, guest, owner)
}
node Place { code: String @key }
edge BelongsTo: Human -> Team @card(0..) @rename_from("MemberOf") { role: String? }
edge Visits: Human -> Place
"""


def filled(root):
    graph = og.init(root, SCHEMA)
    people = [
        {"type": "Person", "data": {"name": n, "age": a, "mail": f"{n}@x", "level": "guest", "note": SECRET}}
        for n, a in (("ada", 36), ("bob", 7), ("eve", None))
    ]  # fmt: skip
    graph.load(
        [
            *people,
            {"type": "Team", "data": {"code": "t"}},
            {"type": "Room", "data": {"code": "r"}},
            {"edge": "MemberOf", "from": "ada", "to": "t", "data": {"role": "boss"}},
        ]
    )
    graph.ensure_indices()
    return graph


def row_ids(graph, key):
    rows = table_of(graph, key).read(["id"], with_row_id=True).to_pydict()
    return dict(zip(rows["id"], rows["_rowid"], strict=True))
