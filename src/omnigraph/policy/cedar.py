"""A checker made of a bundle, decided by Cedar.

A bundle is compiled once: one ``permit`` for each action of each rule, under the id `RULE/ACTION`, and
validated against a schema of all actions. For example, a rule `r` that lets the group `writers` change
unprotected branches, of which `main` is none, becomes

    permit (principal in Omnigraph::Group::"writers",
            action == Omnigraph::Action::"change", resource)
    when { context has branch && !(["main"].contains(context.branch)) };

A question about no branch at all has no ``branch`` in its context, so that only rules without a scope
can answer it. Bundles never change while they are loaded, so decisions are kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from omnigraph.errors import BadRequest
from omnigraph.policy.bundle import (
    SCOPE_KEYS,
    SERVER_ACTIONS,
    Bundle,
    PolicyRule,
    read_bundle,
)
from omnigraph.policy.checker import Action, Decision, Question

REMEMBERED: Final = 10_000
"""How many decisions are remembered."""
FEW_GROUPS: Final = 2
"""Of so many groups the policies are evaluated group by group; of more, all at once."""
_SCHEMA: Final = """\
namespace Omnigraph {{
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
  action {graph_actions}
    appliesTo {{ principal: [Actor], resource: [Graph], context: {{ branch?: String, target_branch?: String }} }};
  action {server_actions}
    appliesTo {{ principal: [Actor], resource: [Server], context: {{ branch?: String, target_branch?: String }} }};
}}
"""


def load(path: str | Path) -> CedarChecker:
    """Read a bundle about a graph, for ``omnigraph.open(policy=…)``; refuse it with all its faults."""
    return CedarChecker(read_bundle(Path(path), "graph"))


def schema_text() -> str:
    """Return the Cedar schema that policies are validated against."""
    graph = [str(action) for action in Action if action not in SERVER_ACTIONS]
    server = [str(action) for action in SERVER_ACTIONS]
    return _SCHEMA.format(graph_actions=", ".join(graph), server_actions=", ".join(server))


def policies_json(bundle: Bundle) -> dict[str, Any]:
    """Return the policies of a bundle in Cedar's JSON form, by their ids."""
    return {
        "templates": {},
        "templateLinks": [],
        "staticPolicies": {
            f"{rule.id}/{action}": policy
            for rule in bundle.rules
            for action in rule.actions
            if (policy := _policy(rule, action, bundle.protected)) is not None
        },
    }


def policies_text(bundle: Bundle) -> str:
    """Return the policies of a bundle as Cedar text."""
    compiled = policies_json(bundle)
    if not compiled["staticPolicies"]:
        return ""
    return str(_cedar().policies_from_json_str(json.dumps(compiled)))


def _policy(rule: PolicyRule, action: Action, protected: frozenset[str]) -> dict[str, Any] | None:
    """Return one permission; None if there is no branch that it could be about."""
    condition = _condition(rule, action, protected)
    if condition is False:
        return None
    return {
        "effect": "permit",
        "principal": {"op": "in", "entity": {"type": "Omnigraph::Group", "id": rule.group}},
        "action": {"op": "==", "entity": {"type": "Omnigraph::Action", "id": str(action)}},
        "resource": {"op": "All"},
        "conditions": [] if condition is None else [{"kind": "when", "body": condition}],
    }


def _condition(
    rule: PolicyRule, action: Action, protected: frozenset[str]
) -> dict[str, Any] | bool | None:
    """Return what must hold of the branch: None if nothing, False if it cannot hold."""
    if rule.scope == "any":
        return None
    name = "branch" if SCOPE_KEYS[action] == "branch_scope" else "target_branch"
    there = {"has": {"left": {"Var": "context"}, "attr": name}}
    if not protected:
        # Cedar knows no type for an empty set, and none is needed.
        return False if rule.scope == "protected" else there
    listed = {
        "contains": {
            "left": {"Set": [{"Value": branch} for branch in sorted(protected)]},
            "right": {".": {"left": {"Var": "context"}, "attr": name}},
        }
    }
    fits = listed if rule.scope == "protected" else {"!": {"arg": listed}}
    return {"&&": {"left": there, "right": fits}}


@dataclass(frozen=True)
class CedarChecker:
    """Decides by a bundle. Several threads may ask at once."""

    bundle: Bundle
    _remembered: Any = field(init=False, repr=False, compare=False)
    _policies: dict[str, dict[Action, Any]] = field(init=False, repr=False, compare=False)
    """The permissions of each group for each action: every one that Cedar looks at takes time."""
    _whole: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        compiled = policies_json(self.bundle)
        cedar = _cedar()
        if compiled["staticPolicies"]:
            checked = cedar.validate_policies(policies_text(self.bundle), schema_text())
            if not checked.validation_passed:
                raise BadRequest(
                    f"the policies of the bundle do not pass Cedar's validation: {checked.errors}; this is "
                    "a fault of omnigraph, report it"
                )
        groups = dict.fromkeys(rule.group for rule in self.bundle.rules)
        policies = {group: _compiled(self.bundle, group) for group in groups}
        object.__setattr__(self, "_policies", policies)
        object.__setattr__(self, "_whole", cedar.PolicySet.from_json_str(json.dumps(compiled)))
        object.__setattr__(self, "_remembered", lru_cache(REMEMBERED)(self._decide))

    def check(self, question: Question) -> Decision:
        """Decide; an evaluation that fails raises, and is never a plain denial."""
        decision: Decision = self._remembered(question)
        return decision

    def could(self, actor: str, action: Action) -> bool:
        """Return whether there is a branch, or none, for which a rule allows this."""
        groups = self.bundle.groups_of(actor)
        return any(
            rule.group in groups and action in rule.actions and self._can_match(rule)
            for rule in self.bundle.rules
        )

    def _can_match(self, rule: PolicyRule) -> bool:
        """Whether there can be a branch that the scope of a rule takes in."""
        return rule.scope != "protected" or bool(self.bundle.protected)

    def _decide(self, question: Question) -> Decision:
        groups = self.bundle.groups_of(question.actor)
        if not groups:
            return Decision(allowed=False, message=f"{question.actor} is in no group")
        rules = set()
        for policies in self._relevant(groups, question.action):
            rules |= _allowing(policies, question, groups)
        if not rules:
            return Decision(allowed=False, message="no rule allows it")
        first = min(rules)
        return Decision(allowed=True, matched_rule_id=first, message=f"rule `{first}` allows it")

    def _relevant(self, groups: frozenset[str], action: Action) -> list[Any]:
        """Return sets of policies that have all permissions of these groups for an action."""
        found = [
            self._policies[group][action]
            for group in groups & self._policies.keys()
            if action in self._policies[group]
        ]
        return found if len(found) <= FEW_GROUPS else [self._whole]


def _compiled(bundle: Bundle, group: str) -> dict[Action, Any]:
    """Return the policies of one group, by action."""
    sets = {}
    for action in Action:
        rules = tuple(
            replace(rule, actions=(action,))
            for rule in bundle.rules
            if rule.group == group and action in rule.actions
        )
        if rules:
            compiled = json.dumps(policies_json(replace(bundle, rules=rules)))
            sets[action] = _cedar().PolicySet.from_json_str(compiled)
    return sets


def _allowing(policies: Any, question: Question, groups: frozenset[str]) -> set[str]:
    """Return the ids of the rules among these policies that allow what is asked."""
    result = _cedar().is_authorized(_request(question), policies, _entities(question.actor, groups))
    errors = result.diagnostics.errors
    if errors:
        raise RuntimeError(f"Cedar could not evaluate the policy: {'; '.join(map(str, errors))}")
    if not result.allowed:
        return set()
    return {policy.rpartition("/")[0] for policy in result.diagnostics.reasons}


def _request(question: Question) -> dict[str, Any]:
    kind = "Server" if question.action in SERVER_ACTIONS else "Graph"
    given = {"branch": question.branch, "target_branch": question.target}
    return {
        "principal": {"type": "Omnigraph::Actor", "id": question.actor},
        "action": {"type": "Omnigraph::Action", "id": str(question.action)},
        "resource": {"type": f"Omnigraph::{kind}", "id": "root"},
        "context": {name: value for name, value in given.items() if value is not None},
    }


def _entities(actor: str, groups: frozenset[str]) -> list[dict[str, Any]]:
    """Return the one actor who asks. A bundle of 5,000 actors would make every decision slow."""
    return [
        {
            "uid": {"type": "Omnigraph::Actor", "id": actor},
            "attrs": {},
            "parents": [{"type": "Omnigraph::Group", "id": group} for group in sorted(groups)],
        }
    ]


def _cedar() -> Any:
    """Return the library that decides; it comes with the extra `server`."""
    try:
        import cedarpy
    except ModuleNotFoundError:
        raise BadRequest(
            "policies need the package cedarpy; install it with: pip install 'omnigraph[server]'"
        ) from None
    return cedarpy
