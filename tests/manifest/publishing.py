"""What the manifest tests share: a small graph, and publishes that only move pins.

The publisher knows nothing of table contents, so a test of it may pin versions no table has.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.graph import Graph, init
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import Intent, ManifestChanges, publish
from omnigraph.manifest.rows import GraphCommit

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { code: String @key }
edge MemberOf: Person -> Team { role: String? }
"""

PERSON, TEAM, MEMBER_OF = "node:Person", "node:Team", "edge:MemberOf"


def new_graph(tmp_path: Path, schema: str = SCHEMA) -> Graph:
    return init(tmp_path / "graph", schema)


def intent(actor: str | None = None, operation: str = "load") -> Intent:
    return Intent(new_ulid(), operation, stamp_us(), actor)


def advance(
    manifest: Manifest,
    *table_keys: str,
    branch: str = "main",
    actor: str | None = None,
    relying_on: tuple[str, ...] = (),
) -> GraphCommit:
    """Publish one more version of each table, as a writer that read the current pins."""
    state = manifest.state(branch)
    tables = state.head.tables
    moved = tuple(
        replace(tables[key], table_version=tables[key].table_version + 1) for key in table_keys
    )
    expected = [tables[key] for key in (*table_keys, *relying_on)]
    return publish(
        manifest,
        branch,
        ManifestChanges(tables=moved),
        expected,
        intent(actor),
        identifier=state.identifier,
    )
