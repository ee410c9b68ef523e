"""Who may do what: the actions, the question a policy is asked, and the gate that asks it."""

from omnigraph.policy.checker import Action, Checker, Decision, Question

__all__ = ["Action", "Checker", "Decision", "Question"]
