"""Several mutations as one commit, each as if it were the next one after those before it.

1. The members are prepared in their order, on one state of the branch. Each one runs over the pending rows of those
   before it, in pending rows of its own.
2. What a member changed is taken over into the rows of the group, once its rules hold. One that fails leaves nothing.
3. The rows of the group are staged, one transaction a table, and published as one commit, which says who did what.
4. Only then is anybody answered, the failed ones too: what those met may be the work of a member before them, and
   is nowhere until the commit is.

A lost race prepares all of them again, on the new state and under the locks.

A match reads the tables of the store. So a member that matches a type which a member before it changed ends the group,
and leads the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from time import monotonic
from typing import Any

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import LOST, Attempt, Attempts
from omnigraph.commit.heal import heal
from omnigraph.commit.replays import REQUESTS, Replayed, find_made, replayed
from omnigraph.errors import (
    Contention,
    Drift,
    HistoryReclaimed,
    OmniGraphError,
    RecoveryRequired,
    SchemaApplyInProgress,
    StorageError,
)
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GROUP, MESSAGE, GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.write.group_commit.queue import Member, More
from omnigraph.write.mutate import (
    CheckedMutation,
    MutationResult,
    Prepared,
    Request,
    lone_intent,
    matched_tables,
    mutate,
    prepare,
    write_of,
)
from omnigraph.write.statements.pending_graph import PendingGraph
from omnigraph.write.vectors import TextVectors

Mutation = Member[Request, MutationResult]

MOST_ROWS = 10_000
LONGEST = 0.25
"""Seconds for which a group is prepared; who is not prepared by then waits for the next one."""
NAMED_IDS = 64
"""The number of ids that a commit names of each table for each member."""

_OF_ALL = (Contention, SchemaApplyInProgress, RecoveryRequired, Drift)
"""What a commit fails with whoever takes part."""


def mutate_together(
    workspace: Workspace,
    members: Sequence[Mutation],
    take_more: More[Request, MutationResult] = tuple,
) -> None:
    """Run mutations of one branch as one commit, and answer them; the last ones may be left out.

    ``take_more`` gives those who came while the work of dead writers was looked for.
    """
    heal(workspace)
    group = _Group(workspace, (*members, *take_more()))
    attempts = Attempts(workspace, members[0].request.branch)
    while True:
        try:
            return attempts.run(group.run)
        except Replayed:
            # One of the ids was committed by somebody else since: prepared again, its member finds that.
            continue
        except _OF_ALL:
            raise
        except OmniGraphError:
            # What one of them brought cannot be written, and by itself each of them fails or succeeds.
            return _one_by_one(workspace, group.members)


def _one_by_one(workspace: Workspace, members: Sequence[Mutation]) -> None:
    for one in members:
        if one.is_answered:
            continue
        try:
            one.answer(mutate(workspace, one.request))
        except OmniGraphError as error:
            one.answer(None, error)


class _Group:
    """Mutations that are prepared and committed together, as often as it takes."""

    def __init__(self, workspace: Workspace, members: Sequence[Mutation]) -> None:
        self.workspace = workspace
        self.members = members
        # All have arrived by now: `now()` is never a moment before a caller asked.
        self.started = stamp_us()
        self.vectors = [TextVectors(one.request.embedder) for one in members]

    def run(self, attempt: Attempt) -> None:
        """Prepare and commit the members on one state of the branch, and answer them."""
        with closing(LocalRunner()) as runner:
            prepared = _Preparing(self, attempt, runner)
            prepared.run()
        changed = prepared.changed
        commit = None
        if changed:
            write = write_of(prepared.graph, self._intent(list(changed.values())))
            for one in changed:
                one.at_stake = write.operation_id
            try:
                commit = attempt.commit(write)
            except OmniGraphError:
                for one in changed:
                    one.at_stake = None
                raise
        prepared.answer(commit)

    def _intent(self, changed: Sequence[Prepared]) -> Intent:
        """Say who committed what."""
        if len(changed) == 1:
            return lone_intent(changed[0], self.started)
        actors = {one.request.actor_id for one in changed}
        messages = {one.request.asked.message for one in changed}
        message = messages.pop() if len(messages) == 1 else None
        return Intent(
            new_ulid(),
            "mutation",
            self.started,
            actors.pop() if len(actors) == 1 else None,
            facts={**({} if message is None else {MESSAGE: message}), GROUP: _group_facts(changed)},
        )


def _group_facts(changed: Sequence[Prepared]) -> dict[str, Any]:
    facts: dict[str, Any] = {"members": [_member_facts(one) for one in changed]}
    kept = {
        one.request.asked.operation_id: one.request.asked.kept(one.result.answer())
        for one in changed
        if one.request.asked.operation_id is not None
    }
    return {**facts, REQUESTS: kept} if kept else facts


def _member_facts(one: Prepared) -> dict[str, Any]:
    """Return what a commit says about one of the mutations that share it."""
    asked = one.request.asked
    facts: dict[str, Any] = {}
    if asked.operation_id is not None:
        facts["operation_id"] = asked.operation_id
    facts["actor_id"] = one.request.actor_id
    if asked.message is not None:
        facts["message"] = asked.message
    facts["statements"] = len(one.checked.plan.statements)
    facts["ids"] = {key: table.changed_ids(NAMED_IDS) for key, table in one.graph.changed.items()}
    return facts


class _Preparing:
    """The members on one state of the branch: what they change together, and what each will be answered."""

    def __init__(self, group: _Group, attempt: Attempt, runner: LocalRunner) -> None:
        self.group = group
        self.state = attempt.state
        self.runner = runner
        self.changed: dict[Mutation, Prepared] = {}
        self._unchanged: dict[Mutation, Prepared] = {}
        self._replayed: dict[Mutation, GraphCommit | None] = {}
        """Those whose operation id is known, and the commit that has it; None: the one to come."""
        self._failed: dict[Mutation, OmniGraphError] = {}
        self._taken_ids: set[str] = set()
        self._changed_tables: set[str] = set()
        self._rows = 0
        self._graph: PendingGraph | None = None

    @property
    def graph(self) -> PendingGraph:
        """The changes of all members so far."""
        assert self._graph is not None
        return self._graph

    def run(self) -> None:
        """Prepare the members in their order, until there are enough."""
        until = monotonic() + LONGEST
        for at, member in enumerate(self.group.members):
            if not self._add(at, member) or monotonic() >= until:
                return

    def _add(self, at: int, member: Mutation) -> bool:
        """Prepare one member; False if it has to wait for the next group."""
        request = member.request
        try:
            if member.token is not None:
                member.token.check()
            if self._is_repeated(member):
                return True
            checked = request.check(self.state)
            graph = PendingGraph(
                self.group.workspace, self.state, checked.catalog, self._beneath(checked)
            )
            if not self._changed_tables.isdisjoint(matched_tables(checked)):
                return False
            try:
                prepared = prepare(
                    request, checked, graph, self.group.started, self.group.vectors[at], self.runner
                )
            finally:
                # An answer depends on what was read for it, and so does that of a member that fails.
                self.graph.read |= graph.read
        except (*LOST, StorageError, HistoryReclaimed):
            raise
        except OmniGraphError as error:
            self._failed[member] = error
            return True
        rows = graph.row_count
        if self.changed and self._rows + rows > MOST_ROWS:
            return False
        self._rows += rows
        self._take_over(member, prepared)
        return True

    def _beneath(self, checked: CheckedMutation) -> PendingGraph:
        if self._graph is None:
            self._graph = PendingGraph(self.group.workspace, self.state, checked.catalog)
        return self._graph

    def _take_over(self, member: Mutation, prepared: Prepared) -> None:
        if not prepared.is_changed:
            self._unchanged[member] = prepared
            return
        self.graph.take_over(prepared.graph)
        self._changed_tables.update(prepared.graph.changed)
        self.changed[member] = prepared
        if member.request.asked.operation_id is not None:
            self._taken_ids.add(member.request.asked.operation_id)

    def _is_repeated(self, member: Mutation) -> bool:
        """Look for the operation id of a member in the branch, and among the members before it."""
        asked = member.request.asked
        if asked.operation_id is None:
            return False
        made = find_made(self.group.workspace, self.state, asked)
        if made is None and asked.operation_id not in self._taken_ids:
            return False
        self._replayed[member] = made
        return True

    # -- the answers

    def answer(self, commit: GraphCommit | None) -> None:
        """Answer all who were prepared; ``commit`` is that of those who changed anything."""
        for member, prepared in self.changed.items():
            member.answer(prepared.answer(commit))
        for member, prepared in self._unchanged.items():
            member.answer(prepared.answer(None))
        for member, error in self._failed.items():
            member.answer(None, error)
        for member, made in self._replayed.items():
            answering = commit if made is None else made
            assert answering is not None
            try:
                member.answer(replayed(answering, member.request.replay))
            except OmniGraphError as error:
                member.answer(None, error)
