"""A graph as one actor may use it: what the methods of a session and its facets work with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

from omnigraph.errors import BadRequest, Gone, NotFound, PolicyDenied
from omnigraph.graph.state import GraphState
from omnigraph.manifest.actors import check_actor
from omnigraph.manifest.branch_names import MAIN
from omnigraph.manifest.history.records import commit_not_found, find_by_prefix, find_commit
from omnigraph.manifest.history.resolve import resolve
from omnigraph.manifest.history.tags import Tag, find_tag
from omnigraph.manifest.rows import GraphCommit
from omnigraph.manifest.snapshot import Target, TargetKeywords
from omnigraph.policy.checker import Action


@dataclass(frozen=True, slots=True)
class Access:
    """The internals of an open graph, and who asks.

    ``is_bound``: a session was made for this actor, so a call that names another one is refused.
    ``guard_schema`` is told of a branch and the source of its new schema before a merge or a revert brings it,
    or in their dry run, and raises if it must not.
    """

    state: GraphState
    actor: str | None = None
    is_bound: bool = False
    guard_schema: Callable[[str, str], object] = lambda _branch, _source: None

    def acting(self, actor: object) -> Access:
        """Return the access of the actor that a call names; that of the handle if it names none."""
        named = check_actor(actor)
        if named is None or named == self.actor:
            return self
        if self.is_bound:
            raise BadRequest(
                f"this session acts for {self.actor or 'nobody'}, and the call names the actor "
                f"{named}; leave the actor out, or make a session for it"
            )
        return replace(self, actor=named)

    def ask(self, action: Action, branch: str | None = None, target: str | None = None) -> None:
        """Ask the gate, first thing in every operation; raise ``PolicyDenied`` if it says no.

        Names of branches are trimmed by the caller, which goes on with the same text.
        """
        self.state.gate.ask(self.actor, action, branch, target)

    def reading(self, **target: Unpack[TargetKeywords]) -> Target:
        """Return the target that a read names, if the handle is open and the actor may read it."""
        self.state.ensure_open()
        return self.ask_read(target_of(**target))

    def ask_read(self, target: Target, action: Action = Action.READ) -> Target:
        """Ask for the branch of a target, and return the target to go on with.

        A state of a branch is decided on that branch; a commit on the branch where it was made, and
        on the branch of the snapshot that was given for it.
        """
        if target.branch is None:
            return self.ask_commit(target, action)
        self.ask(action, target.branch)
        return target

    def ask_commit(self, target: Target, action: Action) -> Target:
        """Ask for the branch where the commit of a target was made, and for the branch it names.

        What the target returned names is that commit, whatever happens to the branch or tag.
        """
        target = self._whole(target, action)
        commit = self._commit_of(target, lambda: self.ask(action, target.branch))
        if commit is None:
            return target
        for branch in dict.fromkeys((commit.branch or MAIN, target.branch, target.held_by)):
            if branch is not None:
                self.ask(action, branch)
        return _pinned(target, commit)

    def ask_about_commit(self, graph_commit_id: str) -> None:
        """Ask whether the actor may read a commit; one that may not be read is as unknown."""
        try:
            self.ask_read(Target(snapshot=graph_commit_id))
        except PolicyDenied:
            if self.actor is None:
                raise
            raise commit_not_found(graph_commit_id) from None

    def asking(self, *known: str) -> Callable[[str], None]:
        """Return the question whether the actor may read a branch, which no branch is asked for twice.

        ``known`` are those it was asked for already.
        """

        @functools.cache
        def ask(branch: str) -> None:
            if branch not in known:
                self.ask(Action.READ, branch)

        return ask

    def readable(self, *known: str) -> Callable[[str], bool]:
        """Return the same question as a test."""
        ask = self.asking(*known)

        @functools.cache
        def may_read(branch: str) -> bool:
            try:
                ask(branch)
            except PolicyDenied:
                return False
            return True

        return may_read

    def ask_fork(self, start: str | None, name: str, read: str | None = None) -> None:
        """Ask for a new branch that begins at a branch; what it will hold must be readable, too.

        ``read`` is the branch that the caller named, if that is another than the one asked about. Rules look at
        the new branch alone: without the second question whoever may make branches could read them all.
        """
        self.ask(Action.BRANCH_CREATE, start, name)
        if start is not None:
            self.ask(Action.READ, read or start)

    def ask_branch_create(self, start: Target, name: str) -> Target:
        """Ask for a new branch at a state of the graph, and return the target to go on with."""
        if start.names_a_head:
            self.ask_fork(start.branch, name)
            return start
        start = self._whole(start, Action.READ)
        commit = self._commit_of(start, lambda: self.ask_fork(start.branch, name))
        if commit is None:
            return start
        self.ask_fork(commit.branch or MAIN, name, start.branch)
        return _pinned(start, commit)

    def _whole(self, target: Target, action: Action) -> Target:
        """Return a target with the whole id of its commit, if only its beginning was given.

        Commits that the actor may not read are as unknown.
        """
        if not target.is_prefix or target.snapshot is None:
            return target
        if self.state.gate.is_open:
            commit = find_by_prefix(self.state.workspace.manifest, target.snapshot)
            return Target(snapshot=commit.graph_commit_id)
        if self.actor is None:
            self.ask(action)

        may_read, manifest = self.readable(), self.state.workspace.manifest
        try:
            commit = find_by_prefix(
                manifest, target.snapshot, lambda commit: may_read(commit.branch or MAIN)
            )
        except (NotFound, BadRequest):
            self.ask(action)
            raise
        return Target(snapshot=commit.graph_commit_id)

    def _commit_of(self, target: Target, ask: Callable[[], None]) -> GraphCommit | Tag | None:
        """Return the commit that a question is about; None if there is no policy to be asked.

        That something does not exist is told only to callers whom ``ask`` lets pass; it names no commit.
        """
        if self.state.gate.is_open:
            return None
        if self.actor is None:
            ask()
        manifest = self.state.workspace.manifest
        try:
            if target.snapshot is not None:
                return find_commit(manifest, target.snapshot)
            if target.tag is not None:
                return find_tag(manifest, target.tag)
            return resolve(manifest, target).commit
        except (NotFound, Gone):
            ask()
            raise


def _pinned(target: Target, commit: GraphCommit | Tag) -> Target:
    """Return a target that names this commit only; a tag stays the tag that the caller named."""
    if target.tag is not None:
        return replace(target, tagged=commit.graph_commit_id)
    return Target(snapshot=commit.graph_commit_id)


def target_of(**target: Unpack[TargetKeywords]) -> Target:
    """Return the target that the keyword arguments of a read name; any other one is refused."""
    known = TargetKeywords.__annotations__
    unknown = sorted(target.keys() - known.keys())
    if unknown:
        raise TypeError(
            f"this call takes no {', '.join(unknown)}; what is read is named by {', '.join(known)}"
        )
    return Target.of(**target)
