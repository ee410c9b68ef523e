"""What the racing processes run. Each reports what it was told, so that the test can check it."""

from __future__ import annotations

from dataclasses import replace

from omnigraph import failpoints
from omnigraph.errors import Contention, ExpectedVersionMismatch
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publisher import ManifestChanges, publish
from omnigraph.storage.uris import Root
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
