"""What is found in a manifest without a search, and what its versions take, however long the history is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnigraph.graph import open as open_graph
from omnigraph.manifest import row_reads, tidying
from omnigraph.manifest.history.stream_records import StreamBatch, StreamRecord
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.storage.lance_format import row_versions
from omnigraph.storage.lance_format.row_versions import decoded
from tests.graphs import graph_of
from tests.manifest.publishing import PERSON, SCHEMA, intent
from tests.opened import workspace_of

WITH_EMAIL = SCHEMA.replace("age: I32?", "age: I32?  email: String?")


graph = graph_of(SCHEMA)


def source_of(read) -> str:
    """The source in a schema row, which must be found without a search for rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_reads, "read_metadata", None)
        return read().source


def test_the_schema_row_is_found_without_a_search(graph):
    manifest = workspace_of(graph).manifest
    before = manifest.state("main").table.version
    for _ in range(3 * tidying.COMPACT_AT_FRAGMENTS):
        graph.load([])
    graph.branches.create("b")
    assert source_of(lambda: manifest.schema(manifest.state("b"))) == SCHEMA
    graph.branches.delete("b")
    graph.schema.apply(WITH_EMAIL)
    for _ in range(3 * tidying.COMPACT_AT_FRAGMENTS):
        graph.load([])
    graph.branches.create("c")
    graph.load([], branch="c")
    for branch in ("main", "c"):
        state = manifest.state(branch)
        assert source_of(lambda state=state: manifest.schema(state)) == WITH_EMAIL
    assert source_of(lambda: manifest.schema_at("main", before)) == SCHEMA
    with open_graph(graph.uri, mode="r") as again:
        assert source_of(lambda: again.schema) == WITH_EMAIL


@pytest.mark.parametrize("first", [1, 1_000_000])
def test_a_schema_row_in_another_place_is_searched_for(graph, monkeypatch, first):
    monkeypatch.setattr(row_reads, "FIRST_ROW_ID", first)
    manifest = workspace_of(graph).manifest
    assert manifest.schema(manifest.state("main")).source == SCHEMA


def test_the_versions_of_rows_stay_in_few_runs(graph, monkeypatch):
    """A stream writes its row and the head row again and again, which leaves gaps in what a publish wrote."""
    monkeypatch.setattr(row_versions, "EXACT_VERSIONS", 4)
    monkeypatch.setattr(row_versions, "MOST_GROUPS", 4)
    manifest = workspace_of(graph).manifest
    publishes = tidying.COMPACT_AT_FRAGMENTS**2 + 1
    for number in range(publishes):
        send(manifest, number)
    largest = max(manifest.state("main").table.fragments(), key=lambda one: one.num_rows)
    assert largest.num_rows > publishes
    for stored in (largest.created_at_version_meta, largest.last_updated_at_version_meta):
        assert len(decoded(stored.json()).counts) <= 2 * tidying.COMPACT_AT_FRAGMENTS


def send(manifest: Manifest, number: int) -> None:
    """Publish a micro-batch of a stream."""
    table = manifest.state("main").head.tables[PERSON]
    record = StreamRecord(StreamBatch("s", number), f"01{number:024}")
    moved = replace(table, table_version=table.table_version + 1)
    publish(
        manifest, "main", ManifestChanges(tables=(moved,), streams=(record,)), [table], intent()
    )
