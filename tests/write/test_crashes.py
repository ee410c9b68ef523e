"""A mutation or a load that stops anywhere has happened or has not, and the next one works."""

from __future__ import annotations

import pytest

from omnigraph import failpoints
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from omnigraph.manifest.publisher import COMPACT_AT_FRAGMENTS
from tests.commit.synthetic import Died, drifted
from tests.opened import workspace_of
from tests.storage.processes import context
from tests.stored import read_back
from tests.write.crash_helpers import LOAD_POINTS, SCHEMA, content, expected, whole
from tests.write.race_workers import die_at, die_loading_at
from tests.write.writing import counts, run

BUILD = (
    "query q($a: String) { insert Person { name: $a, age: 9 } insert Team { code: $a } "
    "insert In { from: $a, to: $a } }"
)
CUT = "query q($a: String) { delete Person where name = $a delete Team where code = $a }"

# Whether the mutation stands after its writer died there and the graph was opened again.
POINTS = {
    "mutation.before_locks": False,
    "mutation.before_phase_a": False,
    "mutation.before_phase_b": False,
    "mutation.before_fork": False,
    "mutation.after_fork": False,
    "mutation.before_table_commit": False,
    "mutation.after_table_commit": False,
    "mutation.after_phase_b_before_phase_c": True,
    "publish.before_write": True,
    "publish.after_write": True,
    "publish.before_compact": True,
    "mutation.after_phase_c_before_phase_d": True,
}


def test_every_point_of_a_mutation_is_among_them():
    known = {n for n in failpoints.registered() if n.split(".")[0] in {"mutation", "publish"}}
    assert known == set(POINTS)


@pytest.mark.parametrize(
    ("way", "query"),
    [("raise", BUILD), ("raise", CUT), ("exit", BUILD)],
    ids=["raise-build", "raise-cut", "exit-build"],
)
@pytest.mark.parametrize("point", POINTS)
def test_a_mutation_that_stops_has_happened_or_has_not(tmp_path, point, way, query):
    branch = "x" if point.endswith("_fork") else "main"
    uri = str(tmp_path / "g")
    with init(uri, SCHEMA) as graph:
        graph.mutate(BUILD, params={"a": "old"})
        name = "new" if query is BUILD else "old"
        if point == "publish.before_compact":
            while (
                len(workspace_of(graph).manifest.state("main").table.fragments())
                < COMPACT_AT_FRAGMENTS - 1
            ):
                run(graph, 'insert Team { code: "t" }')
        if branch != "main":
            graph.branches.create(branch)
        before = read_back(graph, branch)
    if way == "raise":
        with (
            open_graph(uri) as graph,
            failpoints.arm(point, Died(point)),
            pytest.raises(Died),
        ):
            graph.mutate(query, params={"a": name}, branch=branch)
    else:
        child = context.Process(target=die_at, args=(uri, point, query, {"a": name}, branch))
        child.start()
        child.join()
        assert child.exitcode == failpoints.EXIT_CODE
    with open_graph(uri) as graph:
        after = read_back(graph, branch)
        happened = POINTS[point]
        assert (after != before) == happened
        if happened:
            present = name in after.nodes["Person"]
            assert present == (query is BUILD)
            assert (name in after.nodes["Team"]) == present
            assert any(src == name for _, src, _, _ in after.edges["In"]) == present
        assert drifted(graph, branch) == []
        assert workspace_of(graph).store.list("__recovery") == []
        again = graph.mutate(BUILD, params={"a": "next"}, branch=branch)
        assert counts(again) == (2, 1)
        assert read_back(graph, branch).nodes["Person"]["next"]["age"] == 9
        assert drifted(graph, branch) == []


# Points at which the way the tables are written matters: all modes stop there.
EVERY_MODE = {
    "load.before_table_commit",
    "load.after_table_commit",
    "load.after_phase_b_before_phase_c",
    "publish.after_write",
}
MODES = ("merge", "append", "overwrite")
LOADS = [
    (point, mode)
    for at, point in enumerate(LOAD_POINTS)
    for mode in (MODES if point in EVERY_MODE else (MODES[at % 3],))
]


def test_every_point_of_a_load_is_among_them():
    known = {n for n in failpoints.registered() if n.split(".")[0] in {"load", "publish"}}
    assert known == set(LOAD_POINTS)


@pytest.mark.parametrize(("point", "mode"), LOADS)
def test_a_load_that_dies_has_happened_or_has_not(tmp_path, point, mode):
    branch = "x" if point.endswith("_fork") else "main"
    uri = str(tmp_path / "g")
    with init(uri, SCHEMA) as graph:
        graph.load([*whole("old", 1), *whole("kept", 2)])
        if point == "publish.before_compact":
            while (
                len(workspace_of(graph).manifest.state("main").table.fragments())
                < COMPACT_AT_FRAGMENTS - 1
            ):
                run(graph, 'insert Team { code: "kept" }')
        if branch != "main":
            graph.branches.create(branch)
    records = whole("new", 9) + (whole("old", 5) if mode != "append" else [])
    child = context.Process(target=die_loading_at, args=(uri, point, records, mode, branch))
    child.start()
    child.join()
    assert child.exitcode == failpoints.EXIT_CODE
    before = {"old": 1, "kept": 2}
    after = {
        "merge": {"old": 5, "kept": 2, "new": 9},
        "append": {"old": 1, "kept": 2, "new": 9},
        "overwrite": {"old": 5, "new": 9},
    }
    ages = after[mode] if LOAD_POINTS[point] else before
    with open_graph(uri) as graph:
        assert content(graph, branch) == expected(ages)
        if branch != "main":
            assert content(graph, "main") == expected(before)
        assert drifted(graph, branch) == []
        assert workspace_of(graph).store.list("__recovery") == []
        graph.load(whole("next", 3), mode=mode, branch=branch)
        ages = {"next": 3} if mode == "overwrite" else ages | {"next": 3}
        assert content(graph, branch) == expected(ages)
        assert drifted(graph, branch) == []
