"""A small graph with some history, and what must be true of every graph after a cleanup."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.maintenance.reports import CleanupReport
from omnigraph.storage import layout
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import list_branches
from tests.opened import workspace_of
from tests.stored import read_back

SCHEMA = """
node Person { name: String @key  age: I32? }
node Team { code: String @key }
edge MemberOf: Person -> Team { role: String? }
"""
PERSON = "node:Person"
PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"


def fill(graph: Graph) -> None:
    """Rows in every table, so that each has a version 2."""
    graph.load(
        [
            *({"type": "Person", "data": {"name": name, "age": 1}} for name in ("ada", "bob")),
            {"type": "Team", "data": {"code": "t"}},
            {"edge": "MemberOf", "from": "ada", "to": "t", "data": {"id": "m"}},
        ]
    )


def age(graph: Graph, value: int, branch: str = "main", name: str = "ada") -> str:
    """Make Person one version newer; the id of that commit."""
    done = graph.mutate(
        f'query q() {{ update Person set {{ age: {value} }} where name = "{name}" }}', branch=branch
    )
    assert done.commit is not None
    return done.commit.graph_commit_id


def ages(graph: Graph, **target: Any) -> dict[str, int]:
    return {row["name"]: row["age"] for row in graph.query(PEOPLE, **target).rows}


def all_content(graph: Graph) -> dict[str, Any]:
    """What every branch shows."""
    return {branch: read_back(graph, branch) for branch in graph.branches.list()}


def on_disk(graph: Graph) -> dict[tuple[str, str | None], list[int]]:
    """Every version that lies in the graph, by the place of its table and its branch."""
    workspace = workspace_of(graph)
    root = Path(workspace.root.path)
    places = [
        f"{kind}/{path.name}" for kind in ("nodes", "edges") for path in (root / kind).iterdir()
    ]
    if (root / layout.RECOVERY_AUDIT).exists():
        places.append(layout.RECOVERY_AUDIT)
    found = {}
    for place in [*places, layout.MANIFEST]:
        ref = workspace.ref(place)
        found[place, None] = open_table(ref).versions()
        for name, fork in list_branches(ref).items():
            found[place, name] = open_table(ref.on(name, None, fork.identifier)).versions()
    return found


def reasons(
    report: CleanupReport, key: str = PERSON, branch: str | None = None
) -> dict[int, tuple]:
    (row,) = (one for one in report if (one.table_key, one.table_branch) == (key, branch))
    return dict(row.why_kept)


def check_report(graph: Graph, report: CleanupReport) -> None:
    """Every version that is there has a reason, and no other is spoken of; history has no gaps."""
    assert [row.error for row in report] == [None] * len(report)
    # A dropped table of which nothing is left has a row without versions.
    told = sorted(sorted(row.why_kept) for row in report if row.why_kept)
    there = on_disk(graph)
    assert told == sorted(there.values())
    for row in report:
        assert all(row.why_kept.values()), row
        assert not any({"lance", "not_removed"} & set(why) for why in row.why_kept.values()), row
    for (place, _), versions in there.items():
        if place == layout.MANIFEST:
            assert versions == list(range(versions[0], versions[-1] + 1))


def readable(graph: Graph, ids: Iterable[str]) -> dict[str, bool]:
    """Which commits can be read in full; one that cannot says so in the one right way."""
    answer = {}
    for commit in ids:
        try:
            for table in graph.snapshot(snapshot=commit).tables.values():
                open_table(workspace_of(graph).pinned(table)).read()
            graph.query(PEOPLE, snapshot=commit)
        except OmniGraphError as error:
            refused = graph_error(graph, commit)
            assert refused == "history_reclaimed", (error, refused)
            answer[commit] = False
        else:
            answer[commit] = True
    return answer


def graph_error(graph: Graph, commit: str) -> str | None:
    try:
        graph.query(PEOPLE, snapshot=commit)
    except OmniGraphError as error:
        return error.code
    return None


def files_of(graph: Graph) -> dict[str, int]:
    """Every file below the root with its size, except the locks that come and go."""
    root = workspace_of(graph).root.path
    return {
        os.path.relpath(os.path.join(folder, name), root): os.path.getsize(
            os.path.join(folder, name)
        )
        for folder, _, names in os.walk(root)
        if not folder.endswith(layout.LOCKS_DIR)
        for name in names
    }
