"""A process dies while its threads share commits: what was told is there, and of a group all or nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph import failpoints
from omnigraph.commit.protocol import MOMENTS
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.commit.synthetic import drifted
from tests.faults.group_workers import ADD, add_until_dead
from tests.storage.processes import context
from tests.stored import read_back

LIMIT = 300.0
SCHEMA = """
node Person { name: String @key }
node Team { name: String @key }
node Count { name: String @key  n: I64 }
edge In: Person -> Team
"""
POINTS = [
    *(f"mutation.{moment}" for moment in MOMENTS if "fork" not in moment),
    "attempt.pinned",
    "publish.before_write",
    "publish.after_write",
    "recovery.sidecar_write",
    "recovery.sidecar_delete",
]


@pytest.mark.parametrize("skip", [1, 2, 5, 9])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.sampled(5, every=())
def test_a_group_is_there_as_a_whole_or_not_at_all(tmp_path, point, skip):
    with init(tmp_path / "g", SCHEMA) as graph:
        graph.load(
            [
                {"type": "Team", "data": {"name": "t"}},
                {"type": "Count", "data": {"name": "all", "n": 0}},
            ]
        )
        uri = graph.uri
    journal = tmp_path / "journal"
    process = context.Process(target=add_until_dead, args=(uri, str(journal), point, skip))
    process.start()
    process.join(LIMIT)
    assert process.exitcode == failpoints.EXIT_CODE
    with open_graph(uri) as graph:
        judge(graph, journal)
        assert drifted(graph) == []


def judge(graph, journal: Path) -> None:
    asked, refused, done = {}, set(), {}
    for what, name, chosen, *commit in map(str.split, journal.read_text().splitlines()):
        match what:
            case "asked":
                asked[name] = chosen
            case "refused":
                refused.add(name)
            case "done":
                done[name] = commit[0]
    found = read_back(graph)
    people = {row["name"] for row in found.nodes["Person"].values()}
    assert done.keys() <= people <= asked.keys() - refused
    (count,) = found.nodes["Count"].values()
    assert count["n"] == len(people)
    assert sorted(src for _, src, _, _ in found.edges["In"]) == sorted(people)
    # The commits name everybody who is there, in groups or alone, and nobody else.
    named = {}
    for commit in graph.commits.list():
        for chosen in commit.operation_ids:
            named[chosen] = commit.graph_commit_id
    assert named.keys() == {asked[name] for name in people}
    for name, commit_id in done.items():
        assert named[asked[name]] == commit_id
    # Sent again, each of them is what it was, or happens now.
    for name, chosen in list(asked.items())[-6:]:
        if name in refused:
            continue
        team = "nowhere" if int(name.partition("-")[2]) % 4 == 0 else "t"
        if team == "nowhere":
            continue
        again = graph.mutate(ADD, {"name": name, "team": team}, operation_id=chosen)
        assert again.replayed == (name in people)
