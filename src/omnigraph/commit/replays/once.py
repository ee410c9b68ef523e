"""Run a write once, however often it is sent under one id.

1. Look the id up in the newest commits of the branch, before anything else is checked: the first
   write may have moved the head that `if_commit` names.
2. Run the write. Under its locks the protocol looks the id up again (``refuse_repeated``): of two
   writes in flight at most one commits.
3. A write that fails, or finds nothing to do, may have met the effect of the same write sent before: a key
   that is there already, a branch that is merged already. So the id is looked up once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from omnigraph.commit.replays.request import WriteRequest, unanswerable
from omnigraph.errors import BranchNotFound, OmniGraphError
from omnigraph.manifest.manifest import BranchState
from omnigraph.manifest.publisher import Intent
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.workspace import Workspace


class Answer(Protocol):
    """The result of a write."""

    @property
    def commit(self) -> GraphCommit | None:
        """The commit it made, if any."""


Result = TypeVar("Result", bound=Answer)


class Replayed(Exception):
    """The write was committed before, under the id of its caller."""

    def __init__(self, commit: GraphCommit) -> None:
        super().__init__(commit.graph_commit_id)
        self.commit = commit


def refuse_repeated(workspace: Workspace, state: BranchState, intent: Intent) -> None:
    """Raise ``Replayed`` if the branch holds a commit of this id; called under the locks of the write."""
    if intent.operation_id is not None:
        made = _find(workspace, state, WriteRequest.of(intent))
        if made is not None:
            raise Replayed(made)


def run_once(
    workspace: Workspace,
    branches: Sequence[str],
    request: WriteRequest,
    run: Callable[[], Result],
    replay: Callable[[GraphCommit], Result],
) -> Result:
    """Run a write, or answer with what it did when it was sent before.

    ``branches`` is the branch to be written, and after it those it will be made from if it is missing.
    ``replay`` makes the answer from the first commit.
    """
    if request.operation_id is None:
        return run()
    made = _look_up(workspace, branches, request)
    if made is None:
        try:
            result = run()
        except Replayed as replayed:
            made = replayed.commit
        except OmniGraphError:
            with suppress(OmniGraphError):
                made = _look_up(workspace, branches, request)
            if made is None:
                raise
        else:
            if result.commit is None:
                made = _look_up(workspace, branches, request)
            if made is None:
                return result
    try:
        return replay(made)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unanswerable(made) from error


def _look_up(
    workspace: Workspace, branches: Sequence[str], request: WriteRequest
) -> GraphCommit | None:
    for branch in branches:
        # A branch that is not there holds no commit; what to do about that is the writer's affair.
        with suppress(BranchNotFound):
            return _find(workspace, workspace.manifest.state(branch), request)
    return None


def _find(workspace: Workspace, state: BranchState, request: WriteRequest) -> GraphCommit | None:
    assert request.operation_id is not None
    made = workspace.operations.find(workspace.manifest, state, request.operation_id)
    return made if made is not None and request.answered_by(made) else None
