"""A graph as one actor may use it: what the methods of a session and its facets work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from omnigraph.errors import BadRequest
from omnigraph.graph.state import GraphState
from omnigraph.manifest.actors import check_actor
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.manifest.snapshot import Target, TargetKeywords
from omnigraph.policy.checker import Action
from omnigraph.policy.gate import Gate

_OPEN = Gate()


@dataclass(frozen=True, slots=True)
class Access:
    """The internals of an open graph, and who asks.

    ``is_bound``: a session was made for this actor, so a call that names another one is refused.
    """

    state: GraphState
    actor: str | None = None
    is_bound: bool = False

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
        return Access(self.state, named)

    def ask(self, action: Action, branch: str | None = None, target: str | None = None) -> None:
        """Ask the gate, first thing in every operation; raise ``PolicyDenied`` if it says no."""
        _OPEN.ask(self.actor, action, branch, target)

    def reading(self, **target: Unpack[TargetKeywords]) -> Target:
        """Return the target that a read names, if the handle is open and the actor may read it."""
        self.state.ensure_open()
        wanted = Target.of(**target)
        self.ask_read(wanted)
        return wanted

    def ask_read(self, target: Target, action: Action = Action.READ) -> None:
        """Ask for the branch of a target; raise ``PolicyDenied`` if it may not be read."""
        self.ask(action, target.branch)

    def ask_branch_create(self, start: Target, name: object) -> None:
        """Ask for a new branch at a state of the graph."""
        self.ask(Action.BRANCH_CREATE, start.branch, trim_branch_name(name))
