"""The judge outside: what the journals of all workers say a graph must hold, and whether it does.

The history of the graph tells in which order things happened, the journals tell what each of them was. Every
commit must be one operation of the journals, whose effect on plain dicts gives its content. So every state
that can be read is either one after whole operations, or wrong.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from math import inf
from random import Random
from typing import Any

from omnigraph.commit.audit import read_audit
from omnigraph.graph import Graph
from omnigraph.manifest.rows import GraphCommit
from tests.commit.synthetic import drifted
from tests.faults.kills.journal import Entry
from tests.faults.kills.work import WORK, State
from tests.histories.model import Commit, Content, Home, first_parents
from tests.histories.plain import read_content
from tests.opened import workspace_of

PRODUCT = {"omnigraph:recovery", "omnigraph:maintenance"}
MAKERS = {"branch": True, "delete_branch": False, "tag": True, "untag": False}
"""Operations that make or remove a name: whether it is there afterwards."""


class Ledger:
    """All that is known of one graph."""

    def __init__(self, graph: Graph, chance: Random) -> None:
        self.chance = chance
        self.known: dict[str, State] = {}
        self.entries: dict[str, Entry] = {}
        self.commits: dict[str, str] = {}
        """The commit of each operation, by the actor that the operation acts under."""
        self.heads: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.round: list[Entry] = []
        self.maintained = 0
        """Commits of maintenance, by a call or by upkeep."""
        genesis = graph.commits.list()[-1]
        self.known[genesis.graph_commit_id] = State(_plain(genesis, (), {}), ())
        self.judge_state(graph)
        self.end_round(graph)

    def add(self, entries: Iterable[Entry]) -> None:
        """Take what a dead worker had written down."""
        for entry in entries:
            assert entry.outcome != "broken", entry.error
            self.entries[entry.actor] = entry
            self.round.append(entry)

    # -------------------------------------------------------------- what must be there

    def judge_state(self, graph: Graph) -> None:
        """Every branch and tag must be there and hold what whole operations lead to."""
        branches = graph.branches.list()
        names = {entry.intent["name"] for entry in self._makers("branch", "delete_branch")}
        for name in names | self.heads.keys():
            self._judge_name("branch", name, name in branches, name in self.heads)
        for branch in branches:
            self._judge_branch(graph, branch)
        self._judge_tags(graph)
        self._judge_acknowledged(graph, branches)

    def judge_settled(self, graph: Graph) -> None:
        """After a recovery nothing is left to do, and it was written down once."""
        left = workspace_of(graph).store.list("__recovery")
        assert left == [], left
        for branch in graph.branches.list():
            ahead = drifted(graph, branch)
            assert ahead == [], f"{branch}: {ahead}"
        operations = [audit.operation_id for audit in read_audit(workspace_of(graph))]
        assert len(operations) == len(set(operations))

    def end_round(self, graph: Graph) -> None:
        """From here on, what became of every operation so far is decided."""
        self.heads = {
            name: graph.snapshot(branch=name).graph_commit_id for name in graph.branches.list()
        }
        self.tags = {tag.name: tag.graph_commit_id for tag in graph.tags.list()}
        for entry in self.round:
            if entry.outcome == "unknown" and "branch" in entry.intent and entry.kind != "tag":
                entry.outcome = "completed" if entry.actor in self.commits else "undone"
        self.round = []

    # -------------------------------------------------------------- branches

    def _judge_branch(self, graph: Graph, branch: str) -> None:
        head = graph.snapshot(branch=branch).graph_commit_id
        state = self._state_of(graph, head)
        content, extras = state.commit.content, state.extras
        assert _content(graph, branch=branch) == content, f"{branch} at {head}"
        before = self.heads.get(branch)
        if before is not None and not self._may_be_remade(branch):
            chain = {one.id for one in first_parents(state.commit)}
            assert before in chain, f"{branch} lost commits"
        for key in self.chance.sample(sorted(content), min(3, len(content))):
            kind, _, name = key[0].partition(":")
            found = graph.entity(kind, name, key[1], branch=branch)  # type: ignore[arg-type]
            assert found is not None, f"{key} is not found by its id"
            image = {**(found.get("endpoints") or {}), **found["properties"]}
            assert image == content[key], key
        if branch == "main":
            places = set(graph.schema.catalog.nodes["Place"].properties)
            assert places == {"code", "size", *extras}

    def _may_be_remade(self, branch: str) -> bool:
        return any(
            entry.may_have_happened and entry.intent["name"] == branch
            for entry in self._makers("delete_branch")
        )

    def _state_of(self, graph: Graph, commit_id: str) -> State:
        """The plain state at a commit; commits that are met for the first time are judged."""
        left = [commit_id]
        while left:
            record = graph.commits.show(left[-1])
            missing = [one for one in record.parent_ids if one not in self.known]
            if not missing or left[-1] in self.known:
                self._add_commit(record)
                left.pop()
            left += missing
        return self.known[commit_id]

    def _add_commit(self, record: GraphCommit) -> None:
        if record.graph_commit_id in self.known:
            return
        parents = [self.known[one] for one in record.parent_ids]
        merged = parents[1].commit if len(parents) > 1 else None
        before = parents[0]
        entry = self._operation_of(record)
        if entry is None:
            content: Content = before.commit.content
            extras = before.extras
        else:
            after = WORK[entry.kind].effect(entry.intent, before, merged, self.known.__getitem__)
            content = after.commit.content if isinstance(after, State) else after
            extras = after.extras if isinstance(after, State) else before.extras
            assert entry.intent["branch"] == (record.branch or "main"), entry
        commit = _plain(record, tuple(one.commit for one in parents), content)
        self.known[commit.id] = State(commit, extras)

    def _operation_of(self, record: GraphCommit) -> Entry | None:
        """The operation that a commit is of; None for one that changes no content."""
        recovery = record.facts.get("recovery")
        if record.operation == "recovery":
            return None
        actor = record.actor_id if recovery is None else recovery["recovery_for_actor"]
        if actor in PRODUCT or record.operation in {"optimize", "ensure_indices"}:
            self.maintained += 1
            return None
        entry = self.entries.get(actor)
        assert entry is not None, f"nobody began {record}"
        assert entry.may_have_happened, f"{entry} did not happen, and is there as {record}"
        assert actor not in self.commits, f"{entry} is there twice"
        self.commits[actor] = record.graph_commit_id
        return entry

    # -------------------------------------------------------------- acknowledgements

    def _judge_acknowledged(self, graph: Graph, branches: list[str]) -> None:
        """What a worker was told is there is in the history of its branch, unless that was deleted later."""
        chains = {
            branch: {one.graph_commit_id for one in graph.commits.list(branch)}
            for branch in branches
        }
        for entry in self.round:
            if entry.outcome != "done" or entry.commit is None or entry.kind in MAKERS:
                continue
            branch = entry.intent["branch"]
            deleted = any(
                other.may_have_happened
                and other.intent["name"] == branch
                and other.end > entry.begin
                for other in self._makers("delete_branch")
            )
            if not deleted:
                assert entry.commit in chains[branch], f"lost: {entry}"
                assert self.commits[entry.actor] == entry.commit

    # -------------------------------------------------------------- names

    def _makers(self, *kinds: str) -> list[Entry]:
        return [entry for entry in self.round if entry.kind in kinds]

    def _judge_name(self, what: str, name: str, is_there: bool, was_there: bool) -> None:
        """A name must be there if every operation that may have been the last one left it so."""
        kinds = ("branch", "delete_branch") if what == "branch" else ("tag", "untag")
        done = [
            entry
            for entry in self._makers(*kinds)
            if entry.intent["name"] == name and entry.may_have_happened
        ]
        newest = max((one.begin for one in done if one.outcome == "done"), default=-inf)
        last = {MAKERS[one.kind] for one in done if one.end >= newest}
        if not any(one.outcome == "done" for one in done):
            last.add(was_there)
        assert is_there in last, f"{what} {name} is {'' if is_there else 'not '}there: {done}"

    def _judge_tags(self, graph: Graph) -> None:
        tags = {tag.name: tag.graph_commit_id for tag in graph.tags.list()}
        makers = self._makers("tag")
        for name in {entry.intent["name"] for entry in self._makers("tag", "untag")} | {*self.tags}:
            self._judge_name("tag", name, name in tags, name in self.tags)
        for name, commit_id in tags.items():
            told = [one for one in makers if one.intent["name"] == name]
            named = {one.commit for one in told if one.outcome == "done"} | {self.tags.get(name)}
            is_open = any(one.outcome == "unknown" for one in told)
            assert commit_id in named or is_open, f"tag {name} is at {commit_id}: {told}"
            assert _content(graph, tag=name) == self._state_of(graph, commit_id).commit.content


def _plain(record: GraphCommit, parents: tuple[Commit, ...], content: Content) -> Commit:
    return Commit(
        record.graph_commit_id,
        parents,
        content,
        record.operation,
        record.created_us,
        Home(record.branch or "main"),
    )


def _content(graph: Graph, **where: Any) -> Content:
    out = io.BytesIO()
    graph.export(out, **where)
    content = read_content(out.getvalue())
    assert len(out.getvalue().splitlines()) == len(content), "an id is there twice"
    return content
