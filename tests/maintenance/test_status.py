"""What `status` says about a graph is true, costs little, and its advice fits."""

from __future__ import annotations

import re
import shlex
import threading
from pathlib import Path

import pytest
from typer.main import get_command

from omnigraph import failpoints
from omnigraph.cli.app import build
from omnigraph.errors import Drift
from omnigraph.graph import open as open_graph
from omnigraph.maintenance import status as status_module
from omnigraph.maintenance.status_advice import (
    GraphFigures,
    IndexFigures,
    TableFigures,
    advise_graph,
    advise_table,
)
from omnigraph.manifest.manifest import Manifest
from omnigraph.service import states
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables.table import manifest_path, open_table
from omnigraph.storage.tables.table_branches import create_branch
from tests.commit.synthetic import dying_at, foreign_append
from tests.graphs import graph_of
from tests.maintenance.cleaning import PERSON, SCHEMA, age, files_of, fill, on_disk
from tests.opened import workspace_of

TEAM = "node:Team"
SMALL, MANY = 10, 100_000


graph = graph_of(SCHEMA, fill)


def codes(graph) -> list[str]:
    return [one.code for one in graph.status().all_advice]


def table(status, key=PERSON):
    (found,) = (one for one in status.tables if one.table_key == key)
    return found


class TestAdvice:
    @pytest.mark.parametrize(
        ("figures", "expected"),
        [
            ({}, []),
            ({"small_fragments": 64}, []),
            ({"small_fragments": 65}, ["compact"]),
            ({"manifest_bytes": 4 << 20}, []),
            ({"manifest_bytes": (4 << 20) + 1}, ["compact"]),
            ({"small_fragments": 65, "manifest_bytes": 5 << 20}, ["compact"]),
            ({"missing": ["age"]}, ["index_missing"]),
            ({"missing": ["age"], "rows": SMALL}, []),
            ({"indexes": [IndexFigures("id", "btree", "degraded", 64, 9_999)]}, []),
            ({"indexes": [IndexFigures("id", "btree", "degraded", 65, 65)]}, ["index_degraded"]),
            ({"indexes": [IndexFigures("id", None, "degraded", 1, 10_000)]}, ["index_degraded"]),
            ({"drift": "is odd"}, ["drift"]),
        ],
    )
    def test_of_a_table(self, figures, expected):
        found = TableFigures(**{"table_key": "node:T", "rows": MANY, **figures})
        assert [one.code for one in advise_table("g", found, 10_000, 64)] == expected

    @pytest.mark.parametrize(
        ("figures", "expected"),
        [
            ({"most_versions": 1_000}, []),
            ({"most_versions": 1_001}, [("cleanup", "omnigraph cleanup 'my graph'")]),
            ({"owed": ["node:T"]}, [("cleanup", "omnigraph cleanup --confirm 'my graph'")]),
            ({"orphans": ["x"]}, [("cleanup", "omnigraph cleanup --confirm 'my graph'")]),
            ({"stuck": "why"}, [("recovery_pending", "omnigraph repair --confirm 'my graph'")]),
            ({"stuck": "why", "can_recover": False}, [("recovery_pending", None)]),
            ({"drifts": ["a", "b"]}, [("drift", "omnigraph repair 'my graph'")] * 2),
        ],
    )
    def test_of_a_graph(self, figures, expected):
        found = advise_graph("my graph", GraphFigures(**figures))
        assert [(one.code, one.command) for one in found] == expected

    def test_every_command_exists(self):
        worst = TableFigures(
            "node:T", MANY, 99, 0, [IndexFigures("id", "btree", "degraded", 99, 99)], ["a"], "odd"
        )
        all_of_it = [
            *advise_table("g", worst, 1, 64),
            *advise_graph(
                "g", GraphFigures(9_999, "stuck", owed=["node:T"], orphans=["x"], drifts=["y"])
            ),
        ]
        assert {one.code for one in all_of_it} == {
            "compact", "index_missing", "index_degraded", "drift", "recovery_pending", "cleanup",
        }  # fmt: skip
        tree = get_command(build())
        for one in all_of_it:
            _, name, *rest = shlex.split(one.command or "")
            options = {option for part in tree.commands[name].params for option in part.opts}
            assert set(rest[:-1]) <= options, one


class TestFigures:
    def test_they_are_those_of_the_files(self, graph):
        graph.branches.create("a/b")
        age(graph, 2, "a/b")
        for n in (3, 4):
            age(graph, n)
        status = graph.status()
        files, root = files_of(graph), Path(graph.uri)
        of_branch = sum(size for name, size in files.items() if "/tree/a/b/" in name)
        tables = ("nodes/", "edges/", "__manifest/")
        of_all = sum(size for name, size in files.items() if name.startswith(tables))
        assert status.bytes_by_branch == {"main": of_all - of_branch, "a/b": of_branch}
        pin = graph.snapshot().tables[PERSON]
        found = table(status)
        assert found.pin == pin
        assert found.versions == len(on_disk(graph)[pin.location, None]) == 4
        assert found.head_version == pin.table_version
        manifest = root / pin.location / manifest_path(pin.table_version)
        assert found.manifest_bytes == manifest.stat().st_size
        assert status.last_optimize is None
        assert found.fragments == len(open_table(workspace_of(graph).pinned(pin)).fragments())

    def test_the_document(self, graph):
        status = graph.status()
        document = status.to_json()
        assert set(document) == {
            "uri", "graph_id", "omnigraph", "internal_schema_version", "branches", "head", "manifest",
            "pending_recoveries", "stray_files", "bytes_by_branch", "purges_owed", "last_optimize",
            "advice", "tables",
        }  # fmt: skip
        assert set(document["tables"][0]) == {
            "table_key", "table_path", "table_version", "table_branch", "row_count", "head_version",
            "versions", "fragments", "manifest_bytes", "indexes", "advice",
        }  # fmt: skip
        assert status["branches"] == ["main"]
        assert re.search(r"^node:Person +\| +2 \| +2 \|", str(status), re.MULTILINE)

    def test_coverage_and_missing_indexes(self, graph, monkeypatch):
        assert codes(graph) == []  # two rows need no index
        monkeypatch.setenv("OMNIGRAPH_INDEX_MIN_ROWS", "2")
        missing = table(graph.status())
        assert [one.code for one in missing.advice] == ["index_missing"]
        assert "no index on id" in missing.advice[0].message
        graph.ensure_indices()
        assert codes(graph) == []
        for name in ("eve", "kim"):
            graph.load([{"type": "Person", "data": {"name": name}}], mode="append")
        found = table(graph.status())
        assert [(one.column, one.coverage, one.uncovered_fragments) for one in found.indexes] == (
            [("id", "degraded", 2)]
        )
        assert [one.code for one in found.advice] == ["index_degraded"]

    def test_it_reads_little_and_writes_nothing(self, graph, monkeypatch):
        """The same calls, however long the history is and however many branches there are."""
        calls: list[str] = []

        def count(owner, name):
            real = getattr(owner, name)

            def counted(*args, **options):
                calls.append(name)
                return real(*args, **options)

            monkeypatch.setattr(owner, name, counted)

        for name in ("sizes", "list", "read_versioned", "exists", "write_text"):
            count(ObjectStore, name)
        count(status_module, "open_table")
        with open_graph(graph.uri, mode="r") as reader:

            def made() -> list[str]:
                reader.status()
                calls.clear()
                reader.status()
                return sorted(calls)

            short = made()
            for n in range(20):
                age(graph, n)
                graph.branches.create(f"b{n}")
            files = files_of(graph)
            assert made() == short
            assert files_of(graph) == files
        assert (short.count("open_table"), short.count("sizes")) == (3, 3)


class TestTrouble:
    def test_what_another_program_did_is_drift(self, graph):
        foreign_append(graph, PERSON, ["alien"])
        found = table(graph.status())
        assert [one.code for one in found.advice] == ["drift"]
        assert found.head_version == found.pin.table_version + 1
        shown = states.status(graph, "https://example.org/graphs/g")["tables"]
        advised = [one["command"] for table in shown for one in table["advice"]]
        assert advised == ["omnigraph repair https://example.org/graphs/g"]
        graph.repair(confirm=True, force=True)
        assert codes(graph) == []

    def test_drift_on_a_branch_is_told_and_costs_only_branches_with_tables(
        self, graph, monkeypatch
    ):
        for name in ("own/1", "same"):
            graph.branches.create(name)
        age(graph, 2, "own/1")
        foreign_append(graph, PERSON, ["alien"], "own/1")
        newest = graph.snapshot(branch="own/1").tables[PERSON].table_version + 1
        looked_at = []
        state = Manifest.state
        monkeypatch.setattr(
            Manifest, "state", lambda self, name: looked_at.append(name) or state(self, name)
        )
        with open_graph(graph.uri, mode="r") as reader:
            status = reader.status()
        assert set(looked_at) == {"main", "own/1"}
        (advice,) = status.all_advice
        assert advice.code == "drift"
        assert advice.message.startswith(f"{PERSON} on branch own/1 is at version {newest}, which")
        assert advice.command == f"omnigraph repair {shlex.quote(graph.uri)}"
        with pytest.raises(Drift):
            age(graph, 3, "own/1")
        graph.repair(confirm=True, force=True)
        assert codes(graph) == []

    @pytest.mark.parametrize("branch", ["main", "work"])
    def test_a_live_writer_is_no_drift_and_needs_no_recovery(self, graph, branch):
        if branch != "main":
            graph.branches.create(branch)
            age(graph, 8, branch)
        pause = failpoints.Pause()
        with (
            failpoints.arm("mutation.after_phase_b_before_phase_c", pause),
            open_graph(graph.uri, mode="r") as reader,
        ):
            writer = threading.Thread(target=age, args=(graph, 9, branch))
            writer.start()
            try:
                pause.wait_until_reached()
                status = reader.status()
            finally:
                pause.resume()
                writer.join()
        ahead = int(branch == "main")
        assert table(status).head_version == table(status).pin.table_version + ahead
        assert (status.pending_recoveries, status.all_advice) == (1, ())

    def test_a_dead_writer_needs_recovery(self, graph):
        with dying_at("mutation.after_phase_b_before_phase_c"):
            age(graph, 9)
        with open_graph(graph.uri, mode="r") as reader:
            status = reader.status()
            assert [one.code for one in status.all_advice] == ["recovery_pending"]
            open_graph(graph.uri).close()  # as every command does that writes
            assert codes(reader) == []

    def test_a_torn_sidecar_is_told_and_stops_nothing(self, graph):
        foreign_append(graph, PERSON, ["alien"])
        name = "__recovery/01HZZZZZZZZZZZZZZZZZZZZZZZ.json"
        workspace_of(graph).store.write_text(name, "{")
        (one,) = graph.status().all_advice
        assert (one.code, one.command) == ("recovery_pending", None)
        assert name in one.message

    def test_what_a_deleted_branch_left_is_for_cleanup(self, graph):
        pin = graph.snapshot().tables[PERSON]
        create_branch(open_table(workspace_of(graph).pinned(pin)), "gone")
        (one,) = graph.status().all_advice
        assert one.code == "cleanup"
        assert "gone" in one.message
        graph.cleanup(keep_versions=10)
        assert codes(graph) == []

    def test_a_table_that_cannot_be_opened_does_not_hide_the_others(self, graph):
        pin = graph.snapshot().tables[PERSON]
        (Path(graph.uri) / pin.location / manifest_path(pin.table_version)).unlink()
        with open_graph(graph.uri, mode="r") as reader:
            status = reader.status()
        assert table(status).fragments is None
        assert [one.code for one in table(status).advice] == ["drift"]
        assert table(status, TEAM).fragments == 1
