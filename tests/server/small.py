"""A small graph that servers of tests serve, and requests that its operations understand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.service.operations import Operation

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node Tag { name: String @key  size: I64 }
edge Knows: Person -> Person
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "ada", "age": 36, "photo": "base64:QUJDREVGR0hJSg=="}},
    {"type": "Person", "data": {"name": "bob", "age": 41}},
    {"edge": "Knows", "from": "ada", "to": "bob"},
]
ONE = "query one($name: String) { match { $p: Person { name: $name } } return { $p.age as age } }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
TAGS = [{"type": "Tag", "data": {"name": f"t{at:04}", "size": at}} for at in range(5_000)]
CROSS = """
query cross() {
  match { $a: Tag $b: Tag $c: Tag $a.size < $b.size $b.size != $c.size $c.size > $a.size }
  return { count($a) as n }
}
"""
"""What no machine finishes while a test waits."""
LONG = (
    "query long() { match { $t: Tag } return { $t.name as name, $t.size as size } order { name } }"
)
"""An answer that is too long to be sent at once."""
TOKENS = {"ada": "token-of-ada", "bob": "token-of-bob"}
PHOTO = {"kind": "node", "type": "Person", "id": "ada", "property": "photo"}
NO_COMMIT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

BODIES: dict[str, dict[str, Any]] = {
    "query": {"query": ONE, "params": {"name": "ada"}},
    "explain": {"query": ALL},
    "invoke": {},
    "lint": {"source": ALL},
    "neighbors": {"type": "Person", "id": "ada"},
    "subgraph": {"nodes": [{"type": "Person", "id": "ada"}]},
    "diff": {"from": "main", "to": "main"},
    "permissions": {"checks": [{"action": "read"}]},
    "mutate": {"query": ADD, "params": {"name": "cyd"}},
    "load": {"data": '{"type": "Person", "data": {"name": "dan"}}'},
    "ingest": {"data": '{"type": "Person", "data": {"name": "dan"}}'},
    "embed": {},
    "export": {},
    "create_branch": {"name": "new"},
    "merge": {"source": "side"},
    "merge_plan": {"source": "side"},
    "create_tag": {"name": "v1"},
    "revert": {},
    "purge": {"entities": {"Person": ["ada"]}, "dry_run": True},
    "baseline": {},
    "schema_diff": {"from": "main", "to": "main"},
    "schema_plan": {"schema_source": SCHEMA},
    "apply_schema": {"schema_source": SCHEMA},
}
"""A body for each operation that takes one."""
PARAMETERS: dict[str, dict[str, str]] = {
    "entity": {"kind": "node", "type": "Person", "id": "ada"},
    "entity_history": {"kind": "node", "type": "Person", "id": "ada"},
    "entity_blame": {"kind": "node", "type": "Person", "id": "ada"},
    "blob": PHOTO,
    "put_blob": PHOTO,
    "clear_blob": PHOTO,
    "load_table": {"kind": "node", "type": "Person", "format": "csv"},
}
RAW = {
    "load_ndjson": ("application/x-ndjson", b'{"type": "Person", "data": {"name": "eve"}}'),
    "load_table": ("text/csv", b"name,age\nfay,3\n"),
    "put_blob": ("image/png", b"0123456789"),
}
"""The media type and the bytes of raw bodies."""


def make_graph(path: Path, **more: Any) -> og.Graph:
    """A graph with two people and a branch `side`, opened as a server opens graphs."""
    with og.init(path, schema=SCHEMA) as graph:
        graph.load([*PEOPLE, *TAGS], mode="append")
        graph.branches.create("side")
    return og.open(path, local_files=False, upkeep="background", **more)


def path_of(operation: Operation, graph_id: str = "default") -> str:
    """The path of an operation, with values for what stands in it."""
    path = operation.path.replace("{branch}", "side").replace("{tag}", "v1")
    path = path.replace("{graph_commit_id}", NO_COMMIT).replace("{name}", "all")
    return f"/graphs/{graph_id}/{path}"
