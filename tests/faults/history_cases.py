"""A graph with branches, forks and an old commit, and every operation that changes its history.

The operations are run by processes that die, pause or finish; what the graph must then hold is what it
held before, or what it holds when the operation ran undisturbed on a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import omnigraph as og
import omnigraph.maintenance.cleanup.cleanup
import omnigraph.write.merge.merge
import omnigraph.write.merge.revert
from omnigraph import failpoints
from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    OmniGraphError,
    TagExists,
    TagNotFound,
)
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.maintenance.cleaning import SCHEMA, age, ages, all_content, check_report, fill
from tests.opened import workspace_of

BOTH = "query q($k: String) { insert Person { name: $k, age: 5 } insert Team { code: $k } }"
NAMED = "old"
"""The actor of the commit that operations on the past name."""


def build(place: Path) -> str:
    """Make the graph. `side` and `gone` have forks, `lazy` has none and is behind `main`."""
    uri = str(place)
    with init(uri, SCHEMA) as graph:
        fill(graph)
        graph.tags.create("kept")
        graph.mutate(BOTH, params={"k": "past"}, actor=NAMED)
        graph.branches.create("lazy")
        graph.branches.create("side")
        graph.branches.create("gone")
        for branch in ("side", "gone"):
            graph.mutate(BOTH, params={"k": branch}, branch=branch)
            age(graph, 7, branch, "bob")
        for n in (3, 4):
            age(graph, n)
    return uri


def old_commit(graph: Graph) -> str:
    (found,) = graph.commits.list(filter=f"actor={NAMED}")
    return found.graph_commit_id


def merge(graph: Graph) -> None:
    graph.branches.merge("side")


def merge_into_lazy(graph: Graph) -> None:
    graph.branches.merge("side", "lazy")


def revert(graph: Graph) -> None:
    graph.commits.revert(old_commit(graph))


def create_branch(graph: Graph) -> None:
    graph.branches.create("new", "side")


def branch_from_the_past(graph: Graph) -> None:
    graph.branches.create("new", og.at(snapshot=old_commit(graph)))


def create_tag(graph: Graph) -> None:
    graph.tags.create("named", at=og.at(snapshot=old_commit(graph)))


def delete_tag(graph: Graph) -> None:
    graph.tags.delete("kept")


def delete_branch(graph: Graph) -> None:
    graph.branches.delete("gone")


def clean_up(graph: Graph) -> None:
    graph.cleanup(keep_versions=1)


@dataclass(frozen=True)
class Operation:
    """An operation, and every point it passes: whether it has happened when its process dies there.

    ``again``: what running it once more raises; None if that does nothing.
    """

    run: Callable[[Graph], None]
    points: dict[str, bool]
    again: type[OmniGraphError] | None = None


def _committing(writer: str, *, forks: bool = False) -> dict[str, bool]:
    """The points of a writer that commits two tables, and whether it has happened there."""
    before = [
        "before_locks",
        "before_phase_a",
        "before_phase_b",
        "before_table_commit",
        "after_table_commit",
    ]
    after = ["after_phase_b_before_phase_c", "after_phase_c_before_phase_d"]
    if forks:
        before += ["before_fork", "after_fork"]
    return {
        "recovery.sidecar_list": False,
        "recovery.sidecar_write": False,
        **{f"{writer}.{moment}": False for moment in before},
        **{f"{writer}.{moment}": True for moment in after},
        "publish.before_write": True,
        "publish.after_write": True,
        "recovery.sidecar_delete": True,
    }


OPERATIONS = {
    "merge": Operation(merge, _committing("branch_merge")),
    "merge into lazy": Operation(merge_into_lazy, _committing("branch_merge", forks=True)),
    "revert": Operation(revert, _committing("revert")),
    "create branch": Operation(
        create_branch,
        {
            "recovery.sidecar_list": False,
            "branch.before_create": False,
            "branch.after_create": True,
        },
        BranchExists,
    ),
    "branch from the past": Operation(
        branch_from_the_past,
        {
            "recovery.sidecar_list": False,
            "branch.before_create": False,
            "branch.after_create": True,
        },
        BranchExists,
    ),
    "create tag": Operation(
        create_tag,
        {
            "recovery.sidecar_list": False,
            "tag.before_publish": False,
            "tag.after_publish": True,
        },
        TagExists,
    ),
    "delete tag": Operation(
        delete_tag, {"tag.before_publish": False, "tag.after_publish": True}, TagNotFound
    ),
    "delete branch": Operation(
        delete_branch,
        {
            "branch.before_delete": False,
            "branch.after_delete": True,
        },
        BranchNotFound,
    ),
    "cleanup": Operation(
        clean_up,
        dict.fromkeys(
            [
                "recovery.sidecar_list",
                "purge.before_record",
                "cleanup.before_purges",
                "cleanup.before_orphans",
                "cleanup.before_table",
                "cleanup.before_version",
                "cleanup.before_files",
                "cleanup.after_table",
                "cleanup.before_trim",
                "cleanup.after_trim",
            ],
            False,
        ),
    ),
}


def shown(graph: Graph) -> dict[str, Any]:
    """What a user sees of a graph: its branches with all their rows, and its tags with what they name."""
    tags = {tag.name: (tag.graph_commit_id, ages(graph, tag=tag.name)) for tag in graph.tags.list()}
    return {**all_content(graph), "tags": tags}


def check_sound(graph: Graph) -> None:
    """Nothing is pending or ahead of its pin on any branch."""
    for branch in graph.branches.list():
        assert drifted(graph, branch) == []
    assert workspace_of(graph).store.list("__recovery") == []


def go_on(graph: Graph) -> None:
    """Everybody works on: write on every branch, merge, clean up; and all of it must stick."""
    for branch in graph.branches.list():
        graph.mutate(BOTH, params={"k": f"next-{branch}"}, branch=branch)
    if "side" in graph.branches.list():
        graph.branches.merge("side")
    before = shown(graph)
    report = graph.cleanup(keep_versions=1)
    check_report(graph, report)
    assert shown(graph) == before
    check_sound(graph)


# ------------------------------------------------------------------ what other processes run


def observe(uri: str, name: str) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """Run an operation undisturbed: what the graph shows before and after, and the points passed."""
    fired: set[str] = set()
    with open_graph(uri) as graph:
        before = shown(graph)
        for point in failpoints.registered():
            failpoints.arm(point, fired.add)
        OPERATIONS[name].run(graph)
        failpoints.disarm_all()
        return before, shown(graph), fired


def judge(uri: str, name: str, happened: bool, states: list[dict[str, Any]]) -> None:
    """Look at a graph whose operation died; then repeat it, and work on."""
    operation = OPERATIONS[name]
    before, after = states
    with open_graph(uri, mode="r") as reader:
        # What is only published by the recovery is not there yet.
        assert shown(reader) in states
    with open_graph(uri) as graph:
        assert shown(graph) == (after if happened else before)
        check_sound(graph)
        try:
            operation.run(graph)
        except OmniGraphError as error:
            if not happened or operation.again is None or not isinstance(error, operation.again):
                raise
        else:
            assert not (happened and operation.again)
        assert shown(graph) == after
        go_on(graph)


def run_and_die(uri: str, name: str, point: str, skip: int) -> None:
    """Run an operation, and leave the process at the point without any clean-up."""
    with open_graph(uri) as graph:
        failpoints.arm(point, "exit:0", skip=skip)
        OPERATIONS[name].run(graph)
    os._exit(3)  # the point was not reached


def run_paused(
    pipe: Connection, environment: dict[str, str], uri: str, name: str, point: str, pause: str
) -> None:
    """Run an operation that stops at a point; say how it ended."""
    os.environ.update(environment)
    with open_graph(uri) as graph:
        failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1)
        try:
            PAUSED[name](graph)
        except OmniGraphError as error:
            pipe.send((error.code, str(error)))
        else:
            pipe.send(("done", ""))


def write_if(graph: Graph) -> None:
    graph.mutate(BOTH, params={"k": "if"}, if_commit=graph.snapshot().graph_commit_id)


def write_plainly(graph: Graph) -> None:
    graph.mutate(BOTH, params={"k": "plain"})


PAUSED: dict[str, Callable[[Graph], None]] = {
    **{name: operation.run for name, operation in OPERATIONS.items()},
    "if_commit": write_if,
    "write": write_plainly,
}
