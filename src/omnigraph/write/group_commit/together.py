"""Several mutations as one commit, each as if it were the next one after those before it.

1. The members are prepared in their order, on one state of the branch (``preparing.py``). Those who come meanwhile are
   taken along.
2. The rows of the group are staged, one transaction a table, and published as one commit, which says who did what.
3. Only then is anybody answered, the failed ones too: what those met may be the work of a member before them, and
   is nowhere until the commit is.

A lost race prepares all of them again, on the new state and under the locks. Where somebody else is seen to commit to the
same tables, the race is lost already: then the locks come first, and whoever has come by the time they are free is
prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from omnigraph.clock import new_ulid, stamp_us
from omnigraph.commit.attempts import Attempt, Attempts, LockRequest
from omnigraph.commit.changes import Write
from omnigraph.commit.replays import REQUESTS, Replayed
from omnigraph.errors import (
    Contention,
    Drift,
    OmniGraphError,
    RecoveryRequired,
    SchemaApplyInProgress,
)
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GROUP, MESSAGE
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.storage.locks.waiting import Purpose
from omnigraph.write.group_commit.preparing import Mutation, Preparing, TimedMember
from omnigraph.write.group_commit.queue import More
from omnigraph.write.mutate import (
    MutationResult,
    PreparedMutation,
    Request,
    lone_intent,
    mutate,
    write_of,
)
from omnigraph.write.vectors import TextVectors

NAMED_IDS = 64
"""The number of ids that a commit names of each table for each member."""

MOST_BRANCHES = 100
"""The number of branches of which the tables of the last group are known."""

_OF_ALL = (Contention, SchemaApplyInProgress, RecoveryRequired, Drift)
"""What a commit fails with whoever takes part."""


class Groups:
    """Runs groups of mutations of one graph. It knows which tables the last group of each branch took."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._locks: dict[str, frozenset[str]] = {}

    def others_commit(self, branch: str) -> bool:
        """Return whether somebody else seems to write to the tables that the last group wrote to."""
        return any(map(self._workspace.locks.seems_held, self._locks.get(branch, ())))

    def run(
        self, members: Sequence[Mutation], take_more: More[Request, MutationResult] = tuple
    ) -> None:
        """Run mutations of one branch as one commit, and answer them; the last ones may be left out.

        The caller has finished what dead writers left. ``take_more`` gives those who came since, and is asked until
        the members are prepared.
        """
        branch = members[0].request.branch
        group = _Group(self._workspace, take_more)
        group.add(members)
        first = None
        if self.others_commit(branch):
            first = LockRequest(self._locks[branch], Purpose("mutation"))
        attempts = Attempts(self._workspace, branch, first=first)
        while True:
            try:
                attempts.run(group.run)
            except Replayed:
                # One of the ids was committed by somebody else since: prepared again, its member finds that.
                continue
            except _OF_ALL:
                raise
            except OmniGraphError:
                # What one of them brought cannot be written, and by itself each of them fails or succeeds.
                _one_by_one(self._workspace, [one.member for one in group.joined])
            else:
                self._note(branch, group)
            return

    def _note(self, branch: str, group: _Group) -> None:
        if group.written is None:
            return
        if len(self._locks) >= MOST_BRANCHES:
            self._locks.clear()
        # A provider of vectors may take long: nobody else should wait for it.
        written = () if group.may_embed else group.written.expected
        lock_name = self._workspace.lock_name
        self._locks[branch] = frozenset(lock_name(table.location, branch) for table in written)


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

    def __init__(self, workspace: Workspace, take_more: More[Request, MutationResult]) -> None:
        self.workspace = workspace
        self.joined: list[TimedMember] = []
        self.written: Write | None = None
        """What the last attempt wanted to commit."""
        self.may_embed = False
        """Whether preparing a member could ask a provider of vectors."""
        self._take_more = take_more
        self._has_run = False

    def add(self, members: Sequence[Mutation]) -> None:
        """Add members behind the others."""
        started = stamp_us()
        self.joined += [
            TimedMember(one, started, TextVectors(one.request.embedder)) for one in members
        ]

    def add_more(self) -> bool:
        """Add those who came since; False if nobody did, or if there are enough."""
        more = self._take_more()
        self.add(more)
        return bool(more)

    def run(self, attempt: Attempt) -> None:
        """Prepare and commit the members on one state of the branch, and answer them."""
        may_grow, self._has_run = not self._has_run, True
        if may_grow and attempt.held is not None:
            self.add_more()  # who came while the locks were waited for
        with closing(LocalRunner()) as runner:
            prepared = Preparing(self.workspace, attempt.state, runner)
            prepared.run(self.joined, self.add_more if may_grow else _nobody)
        changed = prepared.changed
        commit = None
        if changed:
            self.written = write = write_of(
                prepared.graph, _intent(list(changed.values()), self.joined[-1].started)
            )
            catalog = next(iter(changed.values())).checked.catalog
            self.may_embed = any(one.embeds for one in catalog.entities())
            for one in changed:
                one.at_stake = write.operation_id
            try:
                commit = attempt.commit(write)
            except OmniGraphError:
                for one in changed:
                    one.at_stake = None
                raise
            prepared.graph.note_committed(commit)
        prepared.answer(commit)


def _nobody() -> bool:
    """Say that nobody came: whoever joins a group that is prepared again might need locks that it does not hold."""
    return False


def _intent(changed: Sequence[PreparedMutation], started: int) -> Intent:
    """Say who committed what."""
    if len(changed) == 1:
        return lone_intent(changed[0], started)
    actors = {one.request.actor_id for one in changed}
    messages = {one.request.asked.message for one in changed}
    message = messages.pop() if len(messages) == 1 else None
    return Intent(
        new_ulid(),
        "mutation",
        started,
        actors.pop() if len(actors) == 1 else None,
        facts={**({} if message is None else {MESSAGE: message}), GROUP: _group_facts(changed)},
    )


def _group_facts(changed: Sequence[PreparedMutation]) -> dict[str, Any]:
    facts: dict[str, Any] = {"members": [_member_facts(one) for one in changed]}
    kept = {
        one.request.asked.operation_id: one.request.asked.kept(one.result.answer())
        for one in changed
        if one.request.asked.operation_id is not None
    }
    return {**facts, REQUESTS: kept} if kept else facts


def _member_facts(one: PreparedMutation) -> dict[str, Any]:
    """Return what a commit says about one of the mutations that share it."""
    asked = one.request.asked
    facts: dict[str, Any] = {}
    if asked.operation_id is not None:
        facts["operation_id"] = asked.operation_id
    facts["actor_id"] = one.request.actor_id
    if asked.message is not None:
        facts["message"] = asked.message
    facts["statements"] = len(one.checked.plan.statements)
    facts["ids"] = {key: rows.changed_ids(NAMED_IDS) for key, rows in one.changed.items()}
    return facts
