"""Preparing the members of a group in their order, on one state of the branch.

Each member runs over the pending rows of those before it, in pending rows of its own. What it changed is taken over
into the rows of the group, once its rules hold; one that fails leaves nothing. Members with plain inserts that follow
each other are gathered, and prepared as one where that comes to the same (``inserts.py``).

A match reads the tables of the store. So a member that matches a type which a member before it changed ends the group,
and leads the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from omnigraph.commit.attempts import LOST
from omnigraph.commit.replays import find_made, replayed
from omnigraph.errors import HistoryReclaimed, OmniGraphError, StorageError
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace
from omnigraph.runner.local_runner import LocalRunner
from omnigraph.write.group_commit.inserts import Insertion, is_insertion, prepare_together
from omnigraph.write.group_commit.queue import Member
from omnigraph.write.mutate import (
    CheckedMutation,
    MutationResult,
    PreparedMutation,
    Request,
    matched_tables,
    prepare,
)
from omnigraph.write.statements.pending_graph import PendingGraph
from omnigraph.write.vectors import TextVectors

Mutation = Member[Request, MutationResult]

MOST_ROWS = 10_000
LONGEST = 0.25
"""Seconds for which a group is prepared; who is not prepared by then waits for the next one."""

_OF_GROUP = (*LOST, StorageError, HistoryReclaimed)
"""What preparing one member may meet that concerns the whole group."""


@dataclass(frozen=True, slots=True, eq=False)
class TimedMember:
    """A member of a group, and the time that ``now()`` gives it: never a moment before its caller asked."""

    member: Mutation
    started: int
    vectors: TextVectors


@dataclass(slots=True)
class _Batch:
    """Members with plain inserts that follow each other."""

    joined: list[TimedMember] = field(default_factory=list)
    insertions: list[Insertion] = field(default_factory=list)
    rows: int = 0

    def has(self, operation_id: str | None) -> bool:
        """Return whether one of them has this id."""
        return operation_id is not None and any(
            operation_id == one.request.asked.operation_id for one in self.insertions
        )

    def fits(self, one: Insertion) -> bool:
        """Return whether another one may be prepared with these."""
        return not self.insertions or self.insertions[0].kind == one.kind

    def add(self, joined: TimedMember, one: Insertion) -> None:
        """Add a member."""
        self.joined.append(joined)
        self.insertions.append(one)
        self.rows += len(one.checked.plan.statements)


class Preparing:
    """The members on one state of the branch: what they change together, and what each will be answered."""

    def __init__(self, workspace: Workspace, state: BranchState, runner: LocalRunner) -> None:
        self.workspace = workspace
        self.state = state
        self.runner = runner
        self.changed: dict[Mutation, PreparedMutation] = {}
        self._unchanged: dict[Mutation, PreparedMutation] = {}
        self._replayed: dict[Mutation, GraphCommit | None] = {}
        """Those whose operation id is known, and the commit that has it; None: the one to come."""
        self._failed: dict[Mutation, OmniGraphError] = {}
        self._taken_ids: set[str] = set()
        self._changed_tables: set[str] = set()
        self._rows = 0
        self._graph: PendingGraph | None = None
        self._batch = _Batch()
        self._until = monotonic() + LONGEST

    @property
    def graph(self) -> PendingGraph:
        """The changes of all members so far."""
        assert self._graph is not None
        return self._graph

    def run(self, joined: Sequence[TimedMember], add_more: Callable[[], bool]) -> None:
        """Prepare the members in their order, until there are enough.

        ``add_more`` adds those to the sequence who came since; False if nobody did.
        """
        for at, one in enumerate(joined):
            if not self._add(one) or self._is_late():
                break
            if at == len(joined) - 1 and not add_more():
                break
        self._add_batch()

    def _is_late(self) -> bool:
        return monotonic() >= self._until

    def _add(self, joined: TimedMember) -> bool:
        """Prepare one member, or put it into the batch; False if it has to wait for the next group."""
        member, request = joined.member, joined.member.request
        # Which of two with one id is a repetition depends on what becomes of the first.
        if self._batch.has(request.asked.operation_id) and not self._add_batch():
            return False
        try:
            if member.token is not None:
                member.token.check()
            if self._is_repeated(member):
                return True
            checked = request.check(self.state)
        except _OF_GROUP:
            raise
        except OmniGraphError as error:
            self._failed[member] = error
            return True
        insertion = Insertion(request, checked, joined.started) if is_insertion(checked) else None
        if (insertion is None or not self._batch.fits(insertion)) and not self._add_batch():
            return False
        if insertion is None:
            return self._add_alone(joined, checked)
        if self._is_too_much(len(checked.plan.statements)):
            return False
        self._batch.add(joined, insertion)
        return True

    def _add_batch(self) -> bool:
        """Prepare the members of the batch, together or one by one; False if the time ends before."""
        batch, self._batch = self._batch, _Batch()
        if len(batch.joined) > 1 and self._added_together(batch):
            return True
        for at, (joined, one) in enumerate(zip(batch.joined, batch.insertions, strict=True)):
            if (at and self._is_late()) or not self._add_alone(joined, one.checked):
                return False
        return True

    def _added_together(self, batch: _Batch) -> bool:
        """Prepare the members of a batch as one; False, with nothing changed, if one of them may fail."""
        checked = batch.insertions[0].checked
        graph = PendingGraph(self.workspace, self.state, checked.catalog, self._beneath(checked))
        try:
            prepared = prepare_together(batch.insertions, graph, self.runner)
        except _OF_GROUP:
            raise
        except OmniGraphError:
            return False
        finally:
            self.graph.read |= graph.read
        if prepared is None:
            return False
        self._take_over([one.member for one in batch.joined], prepared, graph)
        return True

    def _add_alone(self, joined: TimedMember, checked: CheckedMutation) -> bool:
        """Prepare one member by itself; False if it has to wait for the next group."""
        member = joined.member
        try:
            graph = PendingGraph(
                self.workspace, self.state, checked.catalog, self._beneath(checked)
            )
            if not self._changed_tables.isdisjoint(matched_tables(checked)):
                return False
            try:
                prepared = prepare(
                    member.request, checked, graph, joined.started, joined.vectors, self.runner
                )
            finally:
                # An answer depends on what was read for it, and so does that of a member that fails.
                self.graph.read |= graph.read
        except _OF_GROUP:
            raise
        except OmniGraphError as error:
            self._failed[member] = error
            return True
        if self._is_too_much(graph.row_count):
            return False
        if prepared.is_changed:
            self._take_over([member], [prepared], graph)
        else:
            self._unchanged[member] = prepared
        return True

    def _is_too_much(self, rows: int) -> bool:
        """Whether the group would be too large with these rows added; a first member always fits."""
        before = self._rows + self._batch.rows
        return bool(before) and before + rows > MOST_ROWS

    def _beneath(self, checked: CheckedMutation) -> PendingGraph:
        if self._graph is None:
            self._graph = PendingGraph(self.workspace, self.state, checked.catalog)
        return self._graph

    def _take_over(
        self, members: Sequence[Mutation], prepared: Sequence[PreparedMutation], graph: PendingGraph
    ) -> None:
        """Add what members changed, who were prepared in one graph."""
        self.graph.take_over(graph)
        self._rows += graph.row_count
        self._changed_tables.update(graph.changed)
        for member, one in zip(members, prepared, strict=True):
            self.changed[member] = one
            if member.request.asked.operation_id is not None:
                self._taken_ids.add(member.request.asked.operation_id)

    def _is_repeated(self, member: Mutation) -> bool:
        """Look for the operation id of a member in the branch, and among the members before it."""
        asked = member.request.asked
        if asked.operation_id is None:
            return False
        made = find_made(self.workspace, self.state, asked)
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
