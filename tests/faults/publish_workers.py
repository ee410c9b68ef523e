"""What the racing processes run. Each reports what it was told, so that the test can check it."""

from __future__ import annotations

import random
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.errors import Contention, ExpectedVersionMismatch
from omnigraph.manifest import tidying
from omnigraph.manifest.history.stream_records import StreamBatch, StreamRecord
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import ManifestChanges, publish, publish_without_commit
from omnigraph.manifest.rows import Row
from omnigraph.storage.uris import Root
from omnigraph.storage.versions import open_newest, remove_versions
from tests.manifest.publishing import intent

Told = list[tuple[str, str]]


def publish_many(uri: str, branch: str, table_keys: list[str], times: int, actor: str) -> Told:
    """Publish `times` times, each time from a fresh look; what became of each attempt."""
    manifest = Manifest(Root.parse(uri))
    told: Told = []
    for _ in range(times):
        state = manifest.state(branch)
        tables = state.head.tables
        moved = tuple(
            replace(tables[key], table_version=tables[key].table_version + 1) for key in table_keys
        )
        expected = [tables[key] for key in table_keys]
        wanted = intent(actor)
        try:
            commit = publish(
                manifest,
                branch,
                ManifestChanges(tables=moved),
                expected,
                wanted,
                identifier=state.identifier,
            )
        except ExpectedVersionMismatch as lost:
            assert lost.details["table_key"] in table_keys
            assert lost.details["actual"] > lost.details["expected"]
            told.append(("mismatch", wanted.graph_commit_id))
        except Contention as lost:
            assert lost.details["attempts"] == 5
            told.append(("contention", wanted.graph_commit_id))
        else:
            assert commit.graph_commit_id == wanted.graph_commit_id
            told.append(("published", wanted.graph_commit_id))
    return told


LEFT_ALONE = 20
"""This many of the newest versions of the manifest are not removed."""


def publish_kinds(uri: str, seed: int, times: int, removes: bool = False) -> Told:
    """Publish in every way and tidy often: ordinary commits, such with a row that others write too, and a row alone.

    With ``removes`` old versions of the manifest are removed in between.
    """
    tidying.COMPACT_AT_FRAGMENTS = 2 + seed % 3
    rng, manifest = random.Random(seed), Manifest(Root.parse(uri))
    told: Told = []
    for _ in range(times):
        if removes:
            table = open_newest(manifest.ref)
            remove_versions(table, table.versions()[:-LEFT_ALONE])
        key = rng.choice(["node:Person", "node:Team", "edge:MemberOf"])
        shared, wanted = f"s{rng.randrange(20)}", intent()
        kind = rng.choice(["ordinary", "ordinary", "with a row", "row"])
        pin = manifest.state("main").head.tables[key]
        record = StreamRecord(StreamBatch(shared, 1), wanted.graph_commit_id)
        changes = ManifestChanges(
            tables=(replace(pin, table_version=pin.table_version + 1),),
            streams=(record,) if kind == "with a row" else (),
        )
        try:
            if kind == "row":
                told.append(("row", write_alone(manifest, record.row())))
                continue
            publish(manifest, "main", changes, [pin], wanted)
        except (ExpectedVersionMismatch, Contention):
            told.append(("lost", wanted.graph_commit_id))
        else:
            told.append(("published", wanted.graph_commit_id))
    return told


def write_alone(manifest: Manifest, row: Row) -> str:
    """Write a row without a commit; its key."""
    publish_without_commit(manifest, lambda _state: row)
    return row.object_id


def publish_and_die(uri: str, point: str) -> None:
    """Publish once and leave the process at the named point."""
    manifest = Manifest(Root.parse(uri))
    failpoints.arm(point, "exit:0")
    publish_many(uri, "main", ["node:Person"], 1, "victim")
    raise AssertionError(f"{point} was not reached by {manifest!r}")


def create_branches(uri: str, names: list[str]) -> list[str]:
    """Create each branch; the names this process made."""
    from omnigraph.errors import BranchExists
    from omnigraph.graph import open as open_graph

    made = []
    with open_graph(uri) as graph:
        for name in names:
            try:
                graph.branches.create(name)
            except BranchExists:
                continue
            made.append(name)
    return made
