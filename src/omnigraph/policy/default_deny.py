"""The policy of a server that has tokens, for a graph that has no policy of its own."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.policy.checker import Action, Decision, Question


@dataclass(frozen=True, slots=True)
class DefaultDeny:
    """Lets whoever proved who they are read, and nothing else."""

    @property
    def is_default_deny(self) -> bool:
        """True: nobody wrote this policy, it stands in where a graph has none."""
        return True

    def check(self, question: Question) -> Decision:
        """Allow reads on every branch."""
        if question.action is Action.READ:
            return Decision(allowed=True, message="everybody with a token may read")
        return Decision(
            allowed=False, message="the graph has no policy, and without one only `read` is allowed"
        )

    def could(self, _actor: str, action: Action) -> bool:
        """Whether an actor may do this in any case at all."""
        return action is Action.READ
