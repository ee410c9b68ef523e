"""The same history with and without upkeep: everything that can be asked of it has the same answer."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.errors import MergeConflicts, PreconditionFailed
from omnigraph.graph import Graph, init
from omnigraph.write.merge.request import MergeStats
from tests.maintenance.upkeep.keeping import SCHEMA, UPDATE, check_settled, insert, upkeeps
from tests.stored import read_back

ROUNDS = 9


class Told:
    """A history as it is made: every commit is known by a name, since ids differ from run to run."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[str, str] = {}

    def made(self, commit: Any, name: str) -> None:
        self.names[commit.graph_commit_id] = name

    def name(self, commit_id: str) -> str:
        """The name of a commit; a maintenance commit counts as its first parent."""
        commit = self.graph.commits.show(commit_id)
        while commit.operation == "optimize":
            assert commit.parent_commit_id is not None
            commit = self.graph.commits.show(commit.parent_commit_id)
        return self.names[commit.graph_commit_id]

    def write(self, who: str, branch: str = "main") -> None:
        """Inserts, updates and deletes, so that tables get fragments and deletion files."""
        for n in range(ROUNDS):
            self.made(insert(self.graph, f"{who}{n}", branch), f"{who} inserts {n}")
            done = self.graph.mutate(UPDATE, {"n": "base0", "a": n + len(who)}, branch=branch)
            self.made(done.commit, f"{who} updates {n}")
            if n % 3 == 2:
                text = f'query q() {{ delete Person where name = "{who}{n - 1}" }}'
                self.made(self.graph.mutate(text, branch=branch).commit, f"{who} deletes {n}")

    def merge(self, **options: Any) -> dict[str, Any]:
        """What a merge of the branch into `main` says."""
        try:
            result = self.graph.branches.merge("side", **options)
        except MergeConflicts as conflicts:
            return {"conflicts": str(conflicts)}
        if result.commit is not None:
            self.made(result.commit, "merge")
        return {
            "outcome": result.outcome,
            "base": self.name(result.base_commit_id),
            "stats": counts(result.stats),
            "conflicts": [one.to_json() for one in result.conflicts],
        }

    def feed(self, branch: str) -> list[Any]:
        """The blocks of the change feed, without the empty ones of maintenance."""
        page = self.graph.changes.poll(branch, start="beginning", limit=1_000)
        assert page.caught_up
        listed = []
        for block in page.blocks:
            commit = block.cause["graph_commit_id"]
            if commit in self.names:
                listed.append((self.names[commit], [one.to_json() for one in block.changes]))
            else:
                assert block.changes == ()
        return listed

    def diff(self, from_: str, to: str) -> list[Any]:
        return [change.to_json() for change in self.graph.diff(from_, to).changes]

    def states(self) -> dict[str, Any]:
        """What every commit reads, by its name."""
        return {
            name: sorted(
                (row["name"], row["age"]) for row in self.graph.query(PEOPLE, snapshot=commit).rows
            )
            for commit, name in self.names.items()
        }


def counts(stats: MergeStats) -> tuple[int, ...]:
    """What was done, without what it cost."""
    return stats.inserts, stats.updates, stats.deletes, stats.candidates, stats.resolved


PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"


def tell(graph: Graph) -> dict[str, Any]:
    """Make the history, and ask everything."""
    story, answers = Told(graph), {}
    people = [{"type": "Person", "data": {"name": f"base{n}", "age": n}} for n in range(5)]
    story.made(graph.load(people, mode="append").commit, "base")
    story.write("first")
    graph.branches.create("side")
    answers["fork"] = story.diff("main", "side")
    story.write("side", "side")
    story.write("second")
    answers["diff"] = story.diff("main", "side")
    answers["back"] = story.diff("side", "main")
    answers["dry run"] = story.merge(dry_run=True)
    answers["conflict"] = story.merge()
    answers["merge"] = story.merge(resolve="theirs")
    answers["again"] = story.merge()
    undone = next(commit for commit, name in story.names.items() if name == "second inserts 0")
    reverted = graph.commits.revert(undone)
    story.made(reverted.commit, "revert")
    answers["revert"] = reverted.outcome, counts(reverted.stats)
    answers["feeds"] = story.feed("main"), story.feed("side")
    answers["states"] = story.states()
    answers["content"] = read_back(graph), read_back(graph, "side")
    return answers


def test_nothing_that_can_be_asked_depends_on_upkeep(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", "3")
    with (
        init(tmp_path / "kept", SCHEMA) as kept,
        init(tmp_path / "left", SCHEMA, upkeep="off") as left,
    ):
        with_upkeep, without = tell(kept), tell(left)
        # Enough of it on both branches for the comparison to mean something.
        assert len(upkeeps(kept)) >= 8
        assert len([one for one in upkeeps(kept, "side") if one.branch == "side"]) >= 3
        assert upkeeps(left) == upkeeps(left, "side") == []
        for question, answer in without.items():
            assert with_upkeep[question] == answer, question
        check_settled(kept)


def test_upkeep_is_no_change_for_if_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_UPKEEP_FRAGMENTS", "3")
    with init(tmp_path / "graph", SCHEMA) as graph:
        for n in range(4):
            known = insert(graph, f"p{n}")
        assert graph.snapshot().graph_commit_id != known.graph_commit_id
        insert(graph, "next", if_commit=known.graph_commit_id)
        with pytest.raises(PreconditionFailed):
            insert(graph, "late", if_commit=known.graph_commit_id)
