"""`permissions`: what the caller may do, as far as a policy can say it without the deed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.policy.checker import Action
from omnigraph.service.documents import Document
from omnigraph.service.wire import PermissionCheck
from omnigraph.spelling import nearest_name

if TYPE_CHECKING:
    from omnigraph.graph.session import Session


def permissions(session: Session, checks: Sequence[PermissionCheck]) -> Document:
    """Say for each check whether the actor of a session may do it, and why; about itself alone."""
    from omnigraph.graph.session import access_of

    # All are read before the first is decided.
    asked = [
        (_action(check.action), _branch(check.branch), _branch(check.target_branch))
        for check in checks
    ]
    gate = access_of(session).state.gate
    results = []
    for action, branch, target in asked:
        decision = gate.decide(session.actor, action, branch, target)
        results.append({"allowed": decision.allowed, "message": decision.message})
    return {"actor_id": session.actor, "mode": gate.mode, "results": results}


def _action(name: str) -> Action:
    try:
        return Action(name)
    except ValueError:
        near = nearest_name(name[:100], list(Action))
        advice = f"did you mean `{near}`?" if near else f"there are {', '.join(Action)}"
        raise BadRequest(f"there is no action `{name[:100]}`; {advice}") from None


def _branch(name: str | None) -> str | None:
    return None if name is None else trim_branch_name(name)
