"""Who runs now, and who waits to run together with others.

On each branch one mutation or one group of them runs at a time, in the thread of one of its callers:

    Ann    runs alone, at once ......... done
    Bob         waits .................. leads: runs Bob, Cy and Dee as one commit ... all three done
    Cy             waits ......................................................
    Dee                waits ..................................................
    Eve                                          waits ............................... leads, alone

Nobody waits for company. A mutation that finds nobody at work begins at once. Whoever ends hands over to the first who
waits. Who begins looks for what dead writers left, as every writer does; then it takes along all others who have come
by then, and runs alone if nobody has. But where another process commits to the branch, it has to wait for that anyway,
and takes along who comes meanwhile.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from omnigraph.cancel import Cancel, Cancelled, current, shielded, wait_for
from omnigraph.errors import OmniGraphError, RecoveryRequired, ResourceLimit

Request = TypeVar("Request")
Result = TypeVar("Result")

MOST_MEMBERS = 256
"""The greatest number of mutations that share a commit."""


@dataclass(eq=False, slots=True)
class Member(Generic[Request, Result]):
    """A mutation that waits, or is run by another thread, and in the end its result or its error."""

    request: Request
    token: Cancel | None = field(default_factory=current)
    """Says whether the caller gave up."""
    thread: int = field(default_factory=threading.get_ident)
    leads: bool = False
    at_stake: str | None = None
    """The operation that is committing it at the moment, if one is."""
    result: Result | None = None
    error: BaseException | None = None
    called: threading.Event = field(default_factory=threading.Event)
    """Set once there is an answer, or once it is this member's turn to lead."""

    @property
    def is_answered(self) -> bool:
        """Whether there is a result or an error."""
        return self.result is not None or self.error is not None

    def answer(self, result: Result | None, error: BaseException | None = None) -> None:
        """Give the caller its result or its error; the first one counts."""
        if not self.is_answered:
            self.result, self.error = result, error
            self.called.set()

    def outcome(self) -> Result:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


More = Callable[[], Sequence[Member[Request, Result]]]
"""Takes those who came since; none if nobody did, or if there are enough."""


@dataclass(slots=True)
class _Line(Generic[Request, Result]):
    """Those who wait on one branch, and the thread that runs for them."""

    leader: int
    waiting: list[Member[Request, Result]] = field(default_factory=list)


class GroupQueue(Generic[Request, Result]):
    """The mutations of one handle, branch by branch.

    ``begin`` is what every writer does first. ``alone`` runs one request. ``together`` runs several as one commit and
    answers them, in their order; it may take those along who came since, and leave out the last ones, which then wait
    for the next commit. It must not leave out the first. ``others_commit`` says of a branch whether somebody else seems
    to write to it.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        alone: Callable[[Request], Result],
        together: Callable[[Sequence[Member[Request, Result]], More[Request, Result]], None],
        others_commit: Callable[[str], bool],
    ) -> None:
        self._begin = begin
        self._alone = alone
        self._together = together
        self._others_commit = others_commit
        self._lock = threading.Lock()
        self._lines: dict[str, _Line[Request, Result]] = {}

    def run(self, branch: str, request: Request) -> Result:
        """Run a request alone or with others, and return its result."""
        me = threading.get_ident()
        member = Member[Request, Result](request)
        with self._lock:
            line = self._lines.get(branch)
            if line is None:
                self._lines[branch] = _Line(me)
            elif line.leader != me:
                line.waiting.append(member)
        if line is not None and line.leader == me:
            # Something that its own mutation calls, such as an embedder: waiting for itself would never end.
            self._begin()
            return self._alone(request)
        if line is not None:
            self._wait(branch, line, member)
            if not member.leads:
                return member.outcome()
        return self._lead(branch, member)

    def _wait(
        self, branch: str, line: _Line[Request, Result], member: Member[Request, Result]
    ) -> None:
        """Wait for an answer or for the lead; whoever gives up before leaves the line."""
        try:
            wait_for(member.called)
        except BaseException as given_up:
            with self._lock:
                is_free = member in line.waiting
                if is_free:
                    line.waiting.remove(member)
            if member.leads:
                self._hand_over(branch)
            elif not is_free and isinstance(given_up, (Cancelled, ResourceLimit)):
                # Others run it already, and it may be committed: only the answer tells.
                member.called.wait()
                return
            raise

    def _lead(self, branch: str, me: Member[Request, Result]) -> Result:
        """Run those who wait, this one first, and hand over to the next."""
        line = self._lines[branch]
        members = [me]

        def take_more() -> Sequence[Member[Request, Result]]:
            with self._lock:
                taken = line.waiting[: MOST_MEMBERS - len(members)]
                del line.waiting[: len(taken)]
            members.extend(taken)
            return taken

        try:
            self._begin()
            if not take_more() and not self._others_commit(branch):
                return self._alone(me.request)
            self._run_together(members, take_more)
            return me.outcome()
        finally:
            with self._lock:
                line.waiting[:0] = [one for one in members[1:] if not one.is_answered]
            self._hand_over(branch)

    def _run_together(
        self, members: list[Member[Request, Result]], take_more: More[Request, Result]
    ) -> None:
        """Run a group; whatever ends it early is an answer to each of its members."""
        try:
            # The deadline of one is none of the others'; ``together`` looks at that of each.
            with shielded():
                self._together(tuple(members), take_more)
        except OmniGraphError as error:
            for one in members:
                shared = copy.copy(error)
                shared.__cause__ = error
                one.answer(None, shared)
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread of each member
            # A signal, or a mistake of the program. In the midst of a commit nobody knows what became of it, and
            # to run it again could apply it twice; those who are not answered here wait for the next one.
            members[0].answer(None, error)
            for one in members[1:]:
                if one.at_stake is not None:
                    one.answer(None, _unknown(one.at_stake))

    def _hand_over(self, branch: str) -> None:
        with self._lock:
            line = self._lines[branch]
            if not line.waiting:
                del self._lines[branch]
                return
            first = line.waiting.pop(0)
            first.leads = True
            line.leader = first.thread
            first.called.set()


def _unknown(operation_id: str) -> RecoveryRequired:
    return RecoveryRequired(
        "the thread that committed this mutation together with others was stopped, so it may have happened or not; "
        "look it up by its operation id, or read before you run it again",
        operation_id=operation_id,
    )
