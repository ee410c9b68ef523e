"""`verify`: damage to any file is reported, or is of a kind that is documented as not to be found."""

import os
import re
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from omnigraph.errors import OmniGraphError
from omnigraph.maintenance.verify.apart import CheckProcess
from omnigraph.maintenance.verify.lineage_check import LineageTask, paths_below
from omnigraph.storage.tables.lance_import import lance
from tests.maintenance.damage.damaging import (
    SCHEMA,
    Restorable,
    break_footer,
    build,
    flip,
    garble,
    remove,
    truncate,
)
from tests.measured import MEASURED
from tests.opened import workspace_of
from tests.sampling import seed

HINTS = re.compile(r".*/latest_version_hint\.json|__locks/.*")
"""What is no part of any state: it may be lost at any time."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    root = tmp_path_factory.mktemp("verified") / "graph"
    build(root)
    return Restorable(root)


@pytest.fixture(autouse=True)
def whole(graph):
    yield
    graph.restore()


def report(graph, *, deep=True):
    """The files that are reported, and the report; the graph itself if it cannot be opened."""
    try:
        with graph.open("r") as opened:
            found = opened.verify(deep)
    except OmniGraphError:
        return {"graph"}, None
    return {problem.file or "graph" for problem in found.problems}, found


def is_reported(name, files):
    """Whether a file is, or the index that it is of."""
    return name in files or any(name.startswith(f"{one}/") for one in files)


def stored(graph, pattern=".*"):
    """The files of all states whose names match."""
    names = [str(path.relative_to(graph.root)) for path in graph.files()]
    return [name for name in names if not HINTS.fullmatch(name) and re.fullmatch(pattern, name)]


def needed_versions(graph):
    """The manifests of versions that heads and tags need."""
    names = set()
    with graph.open("r") as opened:
        snapshots = [opened.snapshot(branch=branch) for branch in ("main", "side")]
        snapshots.append(opened.snapshot(snapshot=opened.tags.list()[0].graph_commit_id))
        for table in (table for one in snapshots for table in one.tables.values()):
            where = table.location
            if table.table_branch is not None:
                where += f"/tree/{table.table_branch}"
            names.add(f"{where}/_versions/{2**64 - 1 - table.table_version}.manifest")
    return names


# What versions name: rows, deletions, transactions, indexes. Blobs are named by rows.
NAMED = r"(nodes|edges)/.*/(data/[^/]+\.lance|_deletions/.*|_transactions/.*|_indices/.*)"


class TestWhole:
    @pytest.mark.parametrize("deep", [False, True])
    def test_every_file_is_read_once_and_none_has_a_problem(self, graph, deep):
        files, found = report(graph, deep=deep)
        assert files == set()
        assert (found.ok, found.deep) == (True, deep)
        rows = {(row.table_key, row.branch): row for row in found}
        both = {(key, branch) for key in ("graph", "node:Person") for branch in ("main", "side")}
        assert rows.keys() == both | {("edge:Knows", "main")}
        if deep:
            assert rows["edge:Knows", "main"].rows == 600
        named = [
            name for name in stored(graph, "(nodes|edges|__manifest)/.*") if "_refs" not in name
        ]
        assert sum(row.files for row in found) == len(named)
        assert sum(row.bytes for row in found) == sum(
            (graph.root / name).stat().st_size for name in named
        )

    def test_after_all_kinds_of_work(self, graph):
        with graph.open() as opened:
            opened.optimize()
            opened.branches.merge("side", "main")
            opened.optimize("side")
            opened.branches.delete("side")
            opened.schema.apply(SCHEMA.replace("photo: Blob?", "photo: Blob?\n  email: String?"))
            opened.ensure_indices(rebuild="Person.bio")
            opened.cleanup(keep_versions=2)
            assert opened.verify(deep=True).problems == ()


class TestFiles:
    @pytest.mark.parametrize("damage", [remove, truncate])
    @pytest.mark.parametrize("deep", [False, True])
    def test_all_that_versions_name(self, graph, damage, deep):
        """All of it at once: each file is reported by its own name, or its index."""
        names = stored(graph, NAMED)
        assert len(names) > 40
        for name in names:
            damage(graph.root / name)
        files, found = report(graph, deep=deep)
        assert [name for name in names if not is_reported(name, files)] == []
        for problem in found.problems:
            assert problem.detail
            assert problem.states or problem.kind == "rule"
            is_index = problem.file is not None and "_indices" in problem.file
            assert ("ensure-indices --rebuild" in problem.mend) == is_index

    @pytest.mark.parametrize("damage", [remove, truncate])
    def test_blobs_and_versions(self, graph, damage):
        for name in (blobs := stored(graph, r".*\.blob")):
            damage(graph.root / name)
        assert blobs
        assert set(blobs) <= report(graph, deep=False)[0]
        graph.restore()
        needed = needed_versions(graph)
        names = stored(graph, r"(nodes|edges)/.*\.manifest")
        for name in names:
            damage(graph.root / name)
        files, found = report(graph, deep=False)
        # Of the others a loss is what a cleanup does.
        assert files >= (needed if damage is remove else set(names))
        states = {state for one in found.problems for state in one.states}
        assert {"head:main", "head:side", "tag:first"} <= states

    def test_single_files_of_the_graph_itself(self, graph):
        """Each alone, by a sample: the graph cannot be opened, or verify names what is wrong."""
        chance = Random(f"{seed()} graph")
        names = stored(graph, r"__manifest/.*|_schema.*|__schema.*|nodes/.*_refs/.*")
        kinds = {
            re.sub(r"[0-9a-f-]{12,}|\d+", "#", name): name
            for name in chance.sample(names, len(names))
        }
        needed = sorted(name for name in kinds.values() if not name.endswith(".manifest"))
        for name in chance.sample(needed, 6):
            (remove if chance.random() < 0.5 else truncate)(graph.root / name)
            files, _ = report(graph, deep=False)
            assert is_reported(name, files) or files & {"graph", "__manifest"}, name
            graph.restore()

    def test_footers(self, graph):
        """What would end a process that reads them."""
        names = stored(graph, r"(nodes|edges)/.*\.(lance|idx)")
        for name in names:
            break_footer(graph.root / name)
        files, _ = report(graph, deep=False)
        assert [name for name in names if not is_reported(name, files)] == []

    def test_indexes_that_decode_and_say_something_else(self, graph):
        """The sizes and footers are right: only a comparison with the columns tells."""
        for name in (names := stored(graph, r".*/page_data\.lance|.*/part_0_docs\.lance")):
            garble(graph.root / name)
        files, _ = report(graph, deep=False)
        assert files == set()
        graph_files, _ = report(graph)
        assert [name for name in names if not is_reported(name, graph_files)] == []

    def test_flipped_bytes_raise_nothing(self, graph, record_property):
        """What is not found is counted by the kind of its file."""
        place = Random(f"{seed()} flip").random()
        names = stored(graph, "(nodes|edges)/.*")
        for name in names:
            flip(place)(graph.root / name)
        files, found = report(graph)
        assert found is not None
        left = Counter(Path(name).suffix for name in names if not is_reported(name, files))
        text = ", ".join(f"{count} {kind}" for kind, count in sorted(left.items()))
        record_property(MEASURED, f"flipped bytes not found: {text}, of {len(names)} files")
        assert sum(left.values()) < len(names)


class TestRules:
    def test_rows_that_break_rules_are_reported(self, graph):
        """Rows that another program wrote are not validated when they are taken over by force."""
        with graph.open() as opened:
            tables = opened.snapshot().tables
            person = lance().dataset(str(graph.root / tables["node:Person"].location))
            row = person.to_table(
                columns=["id", "name", "mood"], filter="name = 'p0003'"
            ).to_pylist()[0]
            wrong = [row, {**row, "id": "other", "mood": "angry"}]
            columns = {name: [one[name] for one in wrong] for name in row}
            lance().write_dataset(pa.table(columns), person, mode="append")
            knows = lance().dataset(str(graph.root / tables["edge:Knows"].location))
            lance().write_dataset(
                pa.table({"id": ["x"], "src": ["p0003"], "dst": ["nobody"]}), knows, mode="append"
            )
            opened.repair(confirm=True, force=True)
            found = opened.verify()
        told = " | ".join(one.detail for one in found.problems if one.kind == "rule")
        assert "p0003 (2 rows)" in told
        assert "the id other of Person is not that of its key" in told
        assert "'angry'" in told
        assert "nobody" in told


class TestDeath:
    def test_a_file_that_ends_the_reader_is_reported_and_the_rest_is_read(self, graph):
        with graph.open("r") as opened:
            workspace = workspace_of(opened)
            location = opened.snapshot().tables["edge:Knows"].location
            sizes = workspace.store.sizes("edges")
            versions = range(1, opened.snapshot().tables["edge:Knows"].table_version + 1)
            task = LineageTask(
                "edge:Knows",
                workspace.ref(location),
                location,
                tuple(versions),
                paths_below(sizes, location),
                deep=True,
            )
            deadly = []

            def kill(path):
                if path.endswith(".lance") and "/data/" in path and not deadly:
                    deadly.append(path)
                    os.kill(reader._process.pid, signal.SIGKILL)

            with CheckProcess(kill) as reader:
                checked, problems = reader.check(task)
        # It may have come a little further before the signal arrived.
        (problem,) = problems
        assert problem.file in sizes
        assert "ends the process" in problem.detail
        assert checked.files >= set(sizes) - set(stored(graph, ".*json")) - {
            f"{location}/_versions/latest_version_hint.json"
        }
