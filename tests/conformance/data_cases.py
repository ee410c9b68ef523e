"""Data cases of the schema file: a graph of the schema, loads, and what is stored afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import omnigraph
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.lang.schema.indexes import IndexKind
from omnigraph.storage.tables.indexing.table_indexes import Coverage, coverage
from omnigraph.storage.tables.table import open_table
from omnigraph.types import to_json
from tests.conformance.apply_cases import apply, apply_case, check_tables, edit_schema_file
from tests.conformance.executors import environment
from tests.conformance.expectations import check_error, only_known, same_value
from tests.opened import workspace_of
from tests.oracle.analysis import mock_embedding
from tests.stored import read_back

JUDGED_KEYS = {"ok", "error_kind", "error_contains"}
THEN_KEYS = {
    "load": {"load", "mode", "on_bad", "skipped", *JUDGED_KEYS},
    "mutate": {"mutate", "params", *JUDGED_KEYS},
    "blob_write": {"blob_write", *JUDGED_KEYS},
    "embed": {"embed"},
    "provider": {"provider"},
    "apply": {"apply", *JUDGED_KEYS},
    "edit_schema_file": {"edit_schema_file", "then_open"},
}
MOCK = "OMNIGRAPH_EMBEDDINGS_MOCK"


def run_data_case(body: Mapping[str, Any]) -> None:
    """Init, load, apply, what follows, then compare what is stored."""
    steps = body["expect"].get("then") or []
    _refuse_unknown_keys(steps)
    _run(body, steps)


def _refuse_unknown_keys(steps: Sequence[Mapping[str, Any]]) -> None:
    for step in steps:
        known = [keys for action, keys in THEN_KEYS.items() if action in step]
        only_known("then", step, set().union(*known))


def _run(body: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> None:
    expect = body["expect"]
    with (
        tempfile.TemporaryDirectory() as directory,
        environment({MOCK: _mock(body.get("provider", "mock"))}),
        omnigraph.init(Path(directory) / "graph", body["schema"], local_files=directory) as graph,
    ):
        named = _write_files(Path(directory), body.get("files") or {})
        first = {"mode": body.get("load_mode", "overwrite")}
        _load(graph, named(body.get("data")), first, _first(expect))
        if "new_schema" in body:
            apply_case(graph, body)
        early, late = _around_then(expect)
        _check(graph, early)
        for step in steps:
            wanted = None if step.get("ok") else step
            if "apply" in step:
                apply(graph, step["apply"], wanted)
            elif "edit_schema_file" in step:
                edit_schema_file(graph, step)
            elif "load" in step:
                _load(graph, named(step["load"]), step, wanted)
            elif "mutate" in step:
                _attempt(graph, partial(_mutate, graph, step), wanted)
            elif "blob_write" in step:
                _attempt(graph, partial(_write_blob, graph, step["blob_write"]), wanted)
            elif "embed" in step:
                done = graph.embed().to_json()
                assert {name: done[name] for name in step["embed"]} == step["embed"]
            else:
                os.environ[MOCK] = _mock(step["provider"])
        _check(graph, late)


def _around_then(expect: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a case expects before its follow-up actions and after them, as it is written."""
    names = list(expect)
    at = names.index("then") if "then" in names else 0
    return {key: expect[key] for key in names[:at]}, {key: expect[key] for key in names[at:]}


def _mock(provider: str) -> str:
    return "1" if provider == "mock" else ""


def _mutate(graph: Graph, step: Mapping[str, Any]) -> None:
    graph.mutate(step["mutate"], params=step.get("params"))


def _write_blob(graph: Graph, blob: Mapping[str, Any]) -> None:
    where = [blob[name] for name in ("kind", "type", "id", "property")]
    text = blob["text"]
    graph.blobs.write(*where, None if text is None else text.encode())


def _write_files(directory: Path, files: Mapping[str, str]) -> Callable[[str | None], Any]:
    """Write the files of a case; the function puts their paths into its data."""
    paths = {}
    for name, text in files.items():
        path = paths[f"${{files.{name}}}"] = directory / f"{name}.txt"
        path.write_text(text, encoding="utf-8")

    def named(data: str | None) -> str | None:
        for place, path in paths.items():
            data = None if data is None else data.replace(place, str(path))
        return data

    return named


def _first(expect: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted = {
        key.removeprefix("load_"): value
        for key, value in expect.items()
        if key in ("load_error_kind", "load_error_contains")
    }
    return wanted or None


def _load(
    graph: Graph,
    data: str | None,
    step: Mapping[str, Any],
    error: Mapping[str, Any] | None,
) -> None:
    if data is None:
        return

    def write() -> None:
        result = graph.load(data.encode(), mode=step["mode"], on_bad=step.get("on_bad", "fail"))
        assert result.skipped == step.get("skipped", 0), result.bad_records

    _attempt(graph, write, error)


def _attempt(graph: Graph, write: Callable[[], object], error: Mapping[str, Any] | None) -> None:
    """Do a write; where an error is expected, nothing may change."""
    before = graph.snapshot()
    try:
        write()
    except OmniGraphError as raised:
        if error is None:
            raise
        check_error(raised, error)
        assert graph.snapshot() == before, "a refused write changed the graph"
    else:
        assert error is None, f"the write was accepted; expected {error}"


def _check(graph: Graph, expect: Mapping[str, Any]) -> None:
    plain = read_back(graph)
    nodes = {f"node:{name}": rows for name, rows in plain.nodes.items()}
    edges = {f"edge:{name}": rows for name, rows in plain.edges.items()}
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
                stored = _row(nodes, edges, key, row_id)[name]
                shown = None if stored is None else to_json(properties[name].type, stored)
                assert same_value(shown, value), f"{key} {row_id} {name}: {shown}"
    check_tables(graph, expect)
    _check_embeddings(graph, nodes, expect)
    if "index_kinds" in expect or "pending_indexes" in expect:
        _check_indexes(graph, expect)


def _row(nodes: Any, edges: Any, key: str, row_id: str) -> Any:
    if key in nodes:
        return nodes[key][row_id]
    return next(values for edge_id, _, _, values in edges[key] if edge_id == row_id)


def _check_embeddings(graph: Graph, nodes: Any, expect: Mapping[str, Any]) -> None:
    for key, wanted in (expect.get("embedded") or {}).items():
        properties = graph.schema.catalog.entity(key).properties
        for row_id, texts in wanted.items():
            for name, text in texts.items():
                vector = mock_embedding(text, properties[name].type.dim or 0)
                assert same_value(nodes[key][row_id][name], vector), f"{key} {row_id} {name}"
    if "embeddings_pending" in expect:
        pending = sum(
            values[name] is None and values[embed.source] is not None
            for node in graph.schema.catalog.nodes.values()
            for name, embed in node.embeds.items()
            for values in nodes[node.table_key].values()
        )
        assert pending == expect["embeddings_pending"]


def _check_indexes(graph: Graph, expect: Mapping[str, Any]) -> None:
    report = graph.ensure_indices()
    for key, wanted in (expect.get("index_kinds") or {}).items():
        table = open_table(workspace_of(graph).pinned(graph.snapshot().tables[key]))
        for name, kind in wanted.items():
            built = {k for k in IndexKind if coverage(table, name, k) is not Coverage.NONE}
            assert built == (set() if kind == "none" else {kind}), f"{key}.{name}: {built}"
    if "pending_indexes" in expect:
        assert [list(item) for item in report.pending] == expect["pending_indexes"]
