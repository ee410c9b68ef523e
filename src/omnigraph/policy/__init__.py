"""Who may do what: the actions, the question a policy is asked, bundles, and the gate that asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.policy.checker import Action, Checker, Decision, Question
from omnigraph.policy.default_deny import DefaultDeny

if TYPE_CHECKING:
    from omnigraph.policy.cedar import CedarChecker

__all__ = ["Action", "Checker", "Decision", "DefaultDeny", "Question", "load"]


def load(path: str | Path) -> CedarChecker:
    """Read a bundle of rules about a graph, for ``omnigraph.open(policy=…)``.

    Everything that is wrong with the file comes in one ``BadRequest``.
    """
    from omnigraph.policy.cedar import load as load_bundle

    return load_bundle(path)
