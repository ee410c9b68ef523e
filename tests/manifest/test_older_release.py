"""A graph as the release before wrote it, of format 2: it opens, answers, compares and merges.

``tests/fixtures/graphs/format-2.tar.xz.txt``, an archive in base64, was made by that release itself. `Ship.weight` became `tonnage`, `log` and
the type Berth were dropped and `flag` was added between the tag ``first`` and now; ``side`` and ``lazy`` live.
"""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import NewerFormat
from omnigraph.manifest import migrations
from tests.opened import workspace_of

FIXTURE = Path(__file__).parents[1] / "fixtures" / "graphs" / "format-2.tar.xz.txt"
SHIPS = (
    "query q() { match { $s: Ship } return { $s.imo as imo, $s.tonnage as t, $s.flag as f } "
    "order { $s.imo } }"
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    content = base64.b64decode(FIXTURE.read_text("ascii"))
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        packed.extractall(tmp_path, filter="data")
    return str(tmp_path / "harbor")


def ships(graph: og.Graph, **target: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in graph.query(SHIPS, **target).rows]


def format_of(graph: og.Graph, branch: str = "main") -> int:
    return migrations.read_internal_version(workspace_of(graph).manifest.state(branch).table)


def test_a_read_only_handle_reads_it_and_changes_nothing(uri):
    """Except branches with tables of their own: those of a copy are settled by the first read-write open."""
    with og.open(uri, mode="r") as graph:
        assert ships(graph) == [("S1", 1, "SE"), ("S2", 2, None)]
        assert ships(graph, tag="first") == [("S1", 1, None), ("S2", 2, None)]
        assert graph.schema.show(tag="first").source.count("node Berth") == 1
        assert format_of(graph) == 2


def test_its_states_are_compared_across_what_was_dropped_and_renamed(uri):
    with og.open(uri) as graph:
        assert ships(graph, branch="side") == [("S1", 1, "NO"), ("S2", 20, None)]
        found = graph.diff("tag:first", "main")
        assert [(one.op, one.type, one.id) for one in found] == [
            ("delete", "Berth", "b"),
            ("update", "Ship", "S1"),
        ]
        update = list(found)[1]
        assert update.before["properties"]["tonnage"] == update.after["properties"]["tonnage"] == 1
        assert update.before["properties"]["log"] == "first"
        assert "log" not in update.after["properties"]
        assert "flag" not in update.before["properties"]
        steps = graph.schema.diff("tag:first", "main").steps
        assert {step.kind for step in steps} == {
            "add_property",
            "rename_property",
            "drop_property",
            "drop_type",
        }
        blocks = graph.changes.poll(start="beginning").blocks
        assert [one.op for block in blocks for one in block.changes].count("delete") == 1


def test_its_branches_get_schemas_of_their_own_and_merge(uri):
    with og.open(uri) as graph:
        wider = graph.schema.source.replace("flag:", "built: I32?  log: String?  flag:")
        graph.schema.apply(wider, branch="side")
        graph.mutate(
            'query q() { update Ship set { built: 1990, log: "new" } where imo = "S2" }',
            branch="side",
        )
        merged = graph.branches.merge("side")
        assert [step.kind for step in merged.schema.steps] == ["add_property"] * 2
        assert ships(graph) == [("S1", 1, "SE"), ("S2", 20, None)]
        assert graph.entity("node", "Ship", "S2")["properties"]["built"] == 1990
        # The `log` of now is another property than the one that was dropped.
        assert graph.entity("node", "Ship", "S1", tag="first")["properties"]["log"] is None
        assert graph.branches.merge("main", "lazy").outcome == "fast_forward"
        assert ships(graph, branch="lazy") == ships(graph)
        again = graph.branches.create("again", "tag:first")
        assert again.name == "again"
        # It has the schema of the commit it starts at.
        assert "weight" in graph.schema.show(branch="again").source
        assert format_of(graph) == migrations.INTERNAL_SCHEMA_VERSION
        graph.cleanup(keep_versions=1)
        assert ships(graph, tag="side-tag") == [("S1", 1, "NO"), ("S2", 20, None)]


def test_a_release_that_knows_format_2_alone_refuses_the_next_in_one_sentence(uri, monkeypatch):
    og.open(uri).close()
    monkeypatch.setattr(migrations, "INTERNAL_SCHEMA_VERSION", 2)
    with pytest.raises(NewerFormat) as refused:
        og.open(uri)
    message = str(refused.value)
    assert "internal schema version 4" in message
    assert message.endswith("upgrade omnigraph first")
    assert message.count(". ") == 0
