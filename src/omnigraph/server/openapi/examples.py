"""An example of every request, on a small graph of people who know each other.

They stand in the OpenAPI document, and the tests send each of them to a graph with ``SCHEMA`` and ``RECORDS``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

SCHEMA: Final = """\
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
RECORDS: Final = """\
{"type": "Person", "data": {"name": "Ada", "age": 36}}
{"type": "Person", "data": {"name": "Bob"}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "k1", "since": 2020}}
"""
GRAPH_ID: Final = "default"
COMMIT_ID: Final = "01JZ8X9K7QW0V5T3N2M1P4R6S8"
"""Stands for the id of a commit of that graph."""
OPERATION_ID: Final = "01JZ8XA2B3C4D5E6F7G8H9J0KM"
PEOPLE: Final = (
    "query people() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }"
)
BIRTHDAY: Final = "query birthday($name: String, $age: I32) { update Person set { age: $age } where name = $name }"


@dataclass(frozen=True, slots=True)
class Example:
    """One request: the values in its path, its parameters, and its body, JSON or a text."""

    path: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


_NOTHING: Final = Example()
_ADA: Final = {"kind": "node", "type": "Person", "id": "Ada"}
_PHOTO: Final = {**_ADA, "property": "photo"}
_COMMIT: Final = {"graph_commit_id": COMMIT_ID}
_MORE: Final = json.dumps({"type": "Person", "data": {"name": "Cy", "age": 41}}) + "\n"

EXAMPLES: Final[Mapping[str, Example]] = {
    "snapshot": Example(parameters={"branch": "main"}),
    "query": Example(body={"query": PEOPLE, "max_rows": 100}),
    "queries": _NOTHING,
    "invoke": Example(path={"name": "people"}, body={"max_rows": 100}),
    "explain": Example(body={"query": PEOPLE, "profile": True}),
    "lint": Example(body={"source": PEOPLE, "query_path": "people.gq"}),
    "catalog": _NOTHING,
    "status": _NOTHING,
    "entity": Example(parameters=_ADA),
    "entity_history": Example(parameters={**_ADA, "limit": 20}),
    "entity_blame": Example(parameters=_ADA),
    "neighbors": Example(body={"type": "Person", "id": "Ada", "direction": "out", "limit": 10}),
    "subgraph": Example(
        body={"nodes": [{"type": "Person", "id": "Ada"}, {"type": "Person", "id": "Bob"}]}
    ),
    "history": Example(parameters={"limit": 20}),
    "diff": Example(body={"from": f"commit:{COMMIT_ID}", "to": "main", "limit": 100}),
    "permissions": Example(body={"checks": [{"action": "change", "branch": "main"}]}),
    "mutate": Example(body={"query": BIRTHDAY, "params": {"name": "Ada", "age": 37}}),
    "load": Example(body={"data": _MORE, "mode": "merge"}),
    "load_ndjson": Example(parameters={"mode": "merge"}, body=_MORE),
    "load_table": Example(
        parameters={"kind": "node", "type": "Person", "format": "csv"}, body="name,age\nDee,29\n"
    ),
    "ingest": Example(body={"data": _MORE}),
    "embed": Example(body={"limit": 1000}),
    "export": Example(body={"type_names": ["Person"]}),
    "put_blob": Example(parameters=_PHOTO, body="the bytes of a photo"),
    "blob": Example(parameters=_PHOTO),
    "clear_blob": Example(parameters=_PHOTO),
    "create_branch": Example(body={"name": "review", "from": "main"}),
    "branches": _NOTHING,
    "merge_plan": Example(body={"source": "review", "target": "main"}),
    "merge": Example(body={"source": "review", "target": "main"}),
    "delete_branch": Example(path={"branch": "review"}),
    "create_tag": Example(body={"name": "v1", "branch": "main"}),
    "tags": _NOTHING,
    "delete_tag": Example(path={"tag": "v1"}),
    "commits": Example(parameters={"branch": "main", "limit": 10}),
    "commit": Example(path=_COMMIT),
    "revert": Example(path=_COMMIT, body={"branch": "main", "dry_run": True}),
    "commit_changes": Example(path=_COMMIT, parameters={"limit": 100}),
    "changes": Example(parameters={"start": "beginning", "kinds": ["node"], "limit": 100}),
    "baseline": Example(body={"branch": "main"}),
    "schema": _NOTHING,
    "schema_diff": Example(body={"from": f"commit:{COMMIT_ID}", "to": "main"}),
    "purge": Example(body={"entities": {"Person": ["Ada"]}, "dry_run": True}),
    "schema_plan": Example(body={"schema_source": SCHEMA.replace("age:", "city: String?  age:")}),
    "apply_schema": Example(body={"schema_source": SCHEMA.replace("age:", "city: String?  age:")}),
}
"""By the name of the operation, in an order in which all of them work."""
