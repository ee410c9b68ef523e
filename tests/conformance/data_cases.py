"""Data cases of the schema file: a graph of the schema, loads, and what is stored afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.storage.handles import open_table
from omnigraph.storage.indexes import Coverage, IndexKind, coverage
from omnigraph.types import to_json
from tests.conformance.executors import environment, not_built
from tests.conformance.expectations import check_error, only_known, same_value
from tests.stored import read_back

THEN_KEYS = {"load", "mode", "ok", "error_kind", "error_contains", "apply", "edit_schema_file"}
KINDS = {"btree": IndexKind.BTREE, "fts": IndexKind.INVERTED, "vector": IndexKind.VECTOR}


def run_data_case(body: Mapping[str, Any]) -> None:
    """Init, load, follow-up loads, then compare what is stored. Schema changes come later."""
    if "new_schema" in body or body.get("branches"):
        not_built("apply")
    expect = body["expect"]
    with (
        tempfile.TemporaryDirectory() as directory,
        environment({"OMNIGRAPH_EMBEDDINGS_MOCK": "1"}),
        omnigraph.init(Path(directory) / "graph", body["schema"]) as graph,
    ):
        _load(graph, body.get("data"), body.get("load_mode", "overwrite"), _first(expect))
        for step in expect.get("then") or []:
            only_known("then", step, THEN_KEYS)
            if "load" not in step:
                not_built("apply")
            _load(graph, step["load"], step["mode"], None if step.get("ok") else step)
        _check(graph, expect)


def _first(expect: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted = {
        key.removeprefix("load_"): value
        for key, value in expect.items()
        if key in ("load_error_kind", "load_error_contains")
    }
    return wanted or None


def _load(graph: Graph, data: str | None, mode: Any, error: Mapping[str, Any] | None) -> None:
    if data is None:
        return
    before = graph.snapshot()
    try:
        graph.load(data.encode(), mode=mode)
    except OmniGraphError as raised:
        if error is None:
            raise
        check_error(raised, error)
        assert graph.snapshot() == before, "a refused load changed the graph"
    else:
        assert error is None, f"the load was accepted; expected {error}"


def _check(graph: Graph, expect: Mapping[str, Any]) -> None:
    plain = read_back(graph)
    nodes = {f"node:{name}": rows for name, rows in plain.nodes.items()}
    edges = {f"edge:{name}": rows for name, rows in plain.edges.items()}
    edge_rows = {key: {edge[0]: edge[3] for edge in rows} for key, rows in edges.items()}
    for key, count in (expect.get("rows") or {}).items():
        assert len((nodes | edges)[key]) == count, key
    for key, ids in (expect.get("row_ids") or {}).items():
        assert set(nodes[key]) == set(ids), key
    for key, pairs in (expect.get("edges_endpoints") or {}).items():
        assert {(edge[1], edge[2]) for edge in edges[key]} == {tuple(p) for p in pairs}, key
    for key, wanted in (expect.get("values") or {}).items():
        properties = graph.schema.catalog.entity(key).properties
        for row_id, values in wanted.items():
            for name, value in values.items():
                stored = (nodes | edge_rows)[key][row_id][name]
                shown = None if stored is None else to_json(properties[name].type, stored)
                assert same_value(shown, value), f"{key} {row_id} {name}: {shown}"
    if "index_kinds" in expect or "pending_indexes" in expect:
        _check_indexes(graph, expect)


def _check_indexes(graph: Graph, expect: Mapping[str, Any]) -> None:
    report = graph.ensure_indices()
    for key, wanted in (expect.get("index_kinds") or {}).items():
        table = open_table(graph.space.pinned(graph.snapshot().tables[key]))
        for name, kind in wanted.items():
            built = {k for k, v in KINDS.items() if coverage(table, name, v) is not Coverage.NONE}
            assert built == (set() if kind == "none" else {kind}), f"{key}.{name}: {built}"
    if "pending_indexes" in expect:
        assert [list(item) for item in report.pending] == expect["pending_indexes"]
