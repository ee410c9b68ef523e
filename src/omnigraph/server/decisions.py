"""Every decision of a server is a line of its log: who asked, for what, and by which rule."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from omnigraph.policy import Action, Checker, Decision, Question

decisions_log = logging.getLogger("omnigraph.server.decisions")


@dataclass(frozen=True, slots=True)
class LoggedChecker:
    """A checker whose decisions are logged. ``graph`` is the id of the graph it decides about, if one."""

    inner: Checker
    graph: str | None

    def check(self, question: Question) -> Decision:
        """Decide as the checker does, and log it."""
        decision = self.inner.check(question)
        if decisions_log.isEnabledFor(logging.INFO):
            facts = {
                "actor": question.actor,
                "action": str(question.action),
                "branch": question.branch,
                "target_branch": question.target,
                "allowed": decision.allowed,
                "rule": decision.matched_rule_id,
                "graph": self.graph,
            }
            decisions_log.info("decision", extra=facts)
        return decision

    @property
    def is_default_deny(self) -> bool:
        """Whether what decides is the rule for graphs without a policy."""
        return bool(getattr(self.inner, "is_default_deny", False))

    def could(self, actor: str, action: Action) -> bool:
        """Return whether there is a case in which the actor may do this; yes, if nobody can say."""
        return could_ever(self.inner, actor, action)

    def unlogged(self, question: Question) -> Decision:
        """Decide without a line in the log, about something that is not going to be done now."""
        return self.inner.check(question)


def could_ever(checker: Checker | None, actor: str | None, action: Action) -> bool:
    """Return whether there is a case in which an actor may do this; yes, if nobody can say."""
    if checker is None or actor is None:
        return True
    could = getattr(checker, "could", None)
    return could is None or bool(could(actor, action))


def would_allow(checker: Checker | None, actor: str | None, action: Action) -> bool:
    """Return whether an actor may do what is about no branch; yes, if nobody can say."""
    if checker is None or actor is None:
        return True
    ask = getattr(checker, "unlogged", checker.check)
    try:
        return bool(ask(Question(actor, action)).allowed)
    except Exception:  # noqa: BLE001 - whoever tries it is told that the policy fails
        return True
