"""The gate: every operation on a graph passes here, and nowhere else, before it does anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from omnigraph.errors import PolicyDenied, PolicyFailure
from omnigraph.policy.checker import Action, Checker, Decision, Question


@dataclass(frozen=True, slots=True)
class Gate:
    """Asks the policy of a graph; without a policy everything passes."""

    checker: Checker | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is no policy, so that nothing needs to be found out for a question."""
        return self.checker is None

    @property
    def mode(self) -> Literal["open", "default_deny", "policy"]:
        """Who decides: nobody, the rule for graphs without a policy, or a policy."""
        if self.checker is None:
            return "open"
        # Not by its class: whoever logs decisions wraps the rule.
        return "default_deny" if getattr(self.checker, "is_default_deny", False) else "policy"

    def decide(
        self, actor: str | None, action: Action, branch: str | None, target: str | None
    ) -> Decision:
        """Return the answer to a question without acting on it; nobody may do nothing behind a policy."""
        if self.checker is None:
            return Decision(allowed=True, message="there is no policy; everybody may do everything")
        if actor is None:
            return Decision(
                allowed=False, message="there is a policy, and no actor to decide about"
            )
        return _decide(self.checker, Question(actor, action, branch, target))

    def ask(
        self,
        actor: str | None,
        action: Action,
        branch: str | None = None,
        target: str | None = None,
    ) -> None:
        """Return if the actor may do this; raise ``PolicyDenied`` if not, or if there is no actor."""
        if self.checker is None:
            return
        if actor is None:
            raise PolicyDenied(
                f"{_what(action, branch, target)} needs an actor, because the graph was opened with a "
                "policy; name one",
                action=action.value,
                actor=None,
            )
        decision = _decide(self.checker, Question(actor, action, branch, target))
        if not decision.allowed:
            reason = f" ({decision.message})" if decision.message else ""
            raise PolicyDenied(
                f"the policy does not allow {actor} {_what(action, branch, target)}{reason}; ask "
                "whoever keeps it",
                action=action.value,
                actor=actor,
                branch=branch,
                target=target,
                rule=decision.matched_rule_id,
            )


def _decide(checker: Checker, question: Question) -> Decision:
    """Return the answer of a policy; raise ``PolicyFailure`` if it gives none."""
    try:
        decision: object = checker.check(question)
    except Exception as error:
        raise PolicyFailure(
            f"{str(error) or type(error).__name__}; nothing was done, mend the policy"
        ) from error
    # Anything that merely looks true must not open the gate.
    if not isinstance(decision, Decision) or not isinstance(decision.allowed, bool):
        raise PolicyFailure(
            f"the policy answered {type(decision).__name__} instead of a decision; nothing was done, "
            "mend the policy"
        )
    return decision


def _what(action: Action, branch: str | None, target: str | None) -> str:
    """Name an action and the branches it is about."""
    start = "" if branch is None else f" on branch `{branch}`"
    end = "" if target is None else f" to branch `{target}`"
    return f"`{action}`{start}{end}"
