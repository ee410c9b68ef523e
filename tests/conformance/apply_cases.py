"""The part of a data case that changes the schema: apply, and what it did to graph and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.lang.schema.catalog import Catalog
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables.table import open_table
from omnigraph.write.schema_apply import SchemaApplied
from tests.conformance.expectations import check_error, matches
from tests.opened import workspace_of

ERROR_KEYS = {"error_kind", "error_contains"}


@dataclass(frozen=True)
class Moment:
    """A graph as it was at one moment."""

    snapshot: Snapshot
    catalog: Catalog

    @classmethod
    def of(cls, graph: Graph) -> Moment:
        """The graph as it is now."""
        return cls(graph.snapshot(), graph.schema.catalog)


def apply_case(graph: Graph, body: Mapping[str, Any]) -> None:
    """Make the branches, apply the new schema, and judge what the case says about that."""
    expect = body["expect"]
    for name in body.get("branches") or []:
        graph.branches.create(name)
    before = Moment.of(graph)
    refused = {key: value for key, value in expect.items() if key in ERROR_KEYS}
    done = apply(graph, body["new_schema"], refused or None, **(body.get("options") or {}))
    if done is not None:
        _check_result(done, before, expect)
    _check_graph(graph, before, expect)


def apply(
    graph: Graph, source: str, error: Mapping[str, Any] | None, **options: Any
) -> SchemaApplied | None:
    """Apply a schema; where an error is expected, nothing may change."""
    before = Moment.of(graph)
    try:
        done = graph.schema.apply(source, **options)
    except OmniGraphError as raised:
        if error is None:
            raise
        check_error(raised, error)
        assert Moment.of(graph) == before, "a refused schema changed the graph"
        return None
    assert error is None, f"the schema was applied; expected {error}"
    return done


def edit_schema_file(graph: Graph, step: Mapping[str, Any]) -> None:
    """Put another text into the mirror of the source, and open the graph again."""
    (Path(workspace_of(graph).root.path) / "_schema.pg").write_text(step["edit_schema_file"])
    try:
        omnigraph.open(graph.uri).close()
    except OmniGraphError as raised:
        if step["then_open"] == "ok":
            raise
        check_error(raised, {"error_kind": step["then_open"]})
    else:
        assert step["then_open"] == "ok", "the edited file was accepted"


def _check_result(done: SchemaApplied, before: Moment, expect: Mapping[str, Any]) -> None:
    document = done.to_json()
    for key in ("supported", "applied"):
        if key in expect:
            assert document[key] is expect[key], document
    if done.applied:
        assert done.commit is not None
        assert done.manifest_version == done.commit.manifest_version
    else:
        assert done.commit is None
        assert done.manifest_version == before.snapshot.manifest_version
    rest = iter(document["steps"])
    for step in expect.get("steps") or []:
        if not any(matches(other, step) for other in rest):
            pytest.fail(f"no step {step} in {document['steps']}", pytrace=False)


def _check_graph(graph: Graph, before: Moment, expect: Mapping[str, Any]) -> None:
    after, was = Moment.of(graph), expect.get("was") or {}
    pins, old_pins = after.snapshot.tables, before.snapshot.tables
    if "graph_version" in expect:
        moved = after.snapshot.graph_commit_id != before.snapshot.graph_commit_id
        assert moved == (expect["graph_version"] == "advanced")
    for key, word in (expect.get("table_version") or {}).items():
        versions = old_pins[was.get(key, key)].table_version, pins[key].table_version
        assert (versions[0] < versions[1]) == (word == "advanced"), f"{key}: {versions}"
    for key, word in (expect.get("location") or {}).items():
        same = pins[key].location == old_pins[was.get(key, key)].location
        assert same == (word == "same"), key
    for entity, word in (expect.get("identity") or {}).items():
        old = _identity(before.catalog, _former(entity, was))
        assert (_identity(after.catalog, entity) == old) == (word == "same"), entity
    for key, wanted in (expect.get("prior_snapshot") or {}).items():
        _check_prior(graph, before.snapshot, key, wanted)


def _former(entity: str, was: Mapping[str, str]) -> str:
    """What a type or property was called before; a property moves with its type."""
    owner, dot, prop = entity.partition(".")
    return was.get(entity, f"{was.get(owner, owner)}{dot}{prop}")


def check_tables(graph: Graph, expect: Mapping[str, Any]) -> None:
    """`tables` and `columns`, at the end."""
    pins = graph.snapshot().tables
    wanted = expect.get("tables") or {}
    assert pins.keys() >= set(wanted.get("present") or [])
    assert not pins.keys() & set(wanted.get("absent") or [])
    for key, columns in (expect.get("columns") or {}).items():
        _check_columns(set(open_table(workspace_of(graph).pinned(pins[key])).schema.names), columns)


def _check_prior(graph: Graph, past: Snapshot, key: str, wanted: Mapping[str, Any]) -> None:
    try:
        table = open_table(workspace_of(graph).pinned(past.tables[key]))
    except OmniGraphError as gone:
        assert not wanted["openable"], gone
    else:
        assert wanted["openable"], f"{key} can still be read in the past"
        _check_columns(set(table.schema.names), wanted)


def _check_columns(names: set[str], wanted: Mapping[str, Any]) -> None:
    assert names >= set(wanted.get("has") or [])
    assert not names & set(wanted.get("lacks") or [])


def _identity(catalog: Catalog, entity: str) -> int | None:
    """The number behind `node:Buoy` or `node:Buoy.lamp`; None if there is no such thing."""
    owner, _, prop = entity.partition(".")
    kind, _, name = owner.partition(":")
    types: Mapping[str, Any] = catalog.nodes if kind == "node" else catalog.edges
    found = types.get(name)
    if found is None or not prop:
        return None if found is None else int(found.type_id)
    known = found.properties.get(prop)
    return None if known is None else int(known.property_id)
