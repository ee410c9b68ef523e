"""Decisions by Cedar: equal to those of an evaluator that can be read in a minute, over random bundles."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from omnigraph.errors import PolicyFailure
from omnigraph.policy import cedar
from omnigraph.policy.bundle import SCOPE_KEYS, SERVER_ACTIONS, Bundle, PolicyRule
from omnigraph.policy.checker import Action, Question
from omnigraph.policy.gate import Gate
from tests import sampling

BRANCHES = (None, "main", "release", "side", "Main", 'qu"ote', "zeile\nzwei", "\u202elinks")
ACTORS = ("ann", "bob", "Ann", 'o"hara', "zeile\nzwei", "\u202elinks", "nobody")
SCOPES = ("any", "protected", "unprotected")


def expected(bundle: Bundle, question: Question) -> str | None:
    """The id of the smallest rule that allows it; None if none does."""
    allowed = []
    for rule in bundle.rules:
        if question.actor not in bundle.groups[rule.group] or question.action not in rule.actions:
            continue
        key = SCOPE_KEYS[question.action]
        branch = question.branch if key == "branch_scope" else question.target
        if rule.scope == "any" or (
            branch is not None and (branch in bundle.protected) == (rule.scope == "protected")
        ):
            allowed.append(rule.id)
    return min(allowed, default=None)


def random_bundle(chance: random.Random) -> Bundle:
    names = chance.sample(["g", "h", "k", 'g"', "g\n"], chance.randint(1, 4))
    groups = {name: frozenset(chance.sample(ACTORS[:-1], chance.randint(1, 4))) for name in names}
    server = chance.random() < 0.15
    actions = [action for action in Action if (action in SERVER_ACTIONS) == server]
    rules = []
    for number in range(chance.randint(0, 8)):
        key = chance.choice([*set(map(SCOPE_KEYS.get, actions))])
        fitting = [action for action in actions if SCOPE_KEYS[action] == key]
        some = tuple(chance.sample(fitting, chance.randint(1, len(fitting))))
        scope = "any" if key is None else chance.choice(SCOPES)
        rules.append(
            PolicyRule(f"r{number}/{chance.randint(0, 2)}", chance.choice(names), some, scope)
        )
    protected = frozenset(chance.sample(BRANCHES[1:], chance.randint(0, 3)))
    return Bundle("server" if server else "graph", groups, protected, tuple(rules))


def test_cedar_decides_as_the_rules_say():
    seed = sampling.seed()
    chance = random.Random(f"{seed} bundles")
    seen: Counter[tuple[str, bool]] = Counter()
    for _ in range(200):
        bundle = random_bundle(chance)
        checker = cedar.CedarChecker(bundle)
        for _ in range(40):
            action = chance.choice([*Action])
            question = Question(
                chance.choice(ACTORS), action, chance.choice(BRANCHES), chance.choice(BRANCHES)
            )
            wanted = expected(bundle, question)
            decision = checker.check(question)
            assert (decision.allowed, decision.matched_rule_id) == (wanted is not None, wanted), (
                seed,
                bundle,
                question,
            )
            for rule in bundle.rules:
                seen[rule.scope, wanted == rule.id] += 1
            many = len(bundle.groups_of(question.actor)) > cedar.FEW_GROUPS
            seen["in many groups" if many else "in few groups", wanted is not None] += 1
            seen[action, wanted is not None] += 1
            if wanted is not None:
                assert checker.could(question.actor, action)
    kinds = (*SCOPES, *Action, "in many groups", "in few groups")
    assert all(seen[kind, decided] for kind in kinds for decided in (True, False)), (seed, seen)


TEAM = Bundle(
    "graph",
    {"writers": frozenset({"ann"})},
    frozenset({"main"}),
    (PolicyRule("w", "writers", (Action.CHANGE,), "unprotected"),),
)


def test_policies_can_be_printed():
    text = cedar.policies_text(TEAM)
    assert text.startswith(
        'permit(principal in Omnigraph::Group::"writers", action == Omnigraph::Action::"change", resource)'
    )
    assert '["main"].contains(context.branch)' in text
    assert all(f" {action}" in cedar.schema_text() for action in Action)


def test_a_rule_about_protected_branches_of_none_allows_nothing():
    rule = PolicyRule("p", "writers", (Action.CHANGE,), "protected")
    checker = cedar.CedarChecker(replace(TEAM, protected=frozenset(), rules=(rule,)))
    assert not checker.check(Question("ann", Action.CHANGE, "main")).allowed
    assert cedar.policies_text(checker.bundle) == ""


def test_a_decision_is_remembered(monkeypatch):
    checker = cedar.CedarChecker(TEAM)
    library, asked = cedar._cedar(), []
    real = library.is_authorized
    monkeypatch.setattr(
        library, "is_authorized", lambda *given: asked.append(given) or real(*given)
    )
    question = Question("ann", Action.CHANGE, "side")
    assert checker.check(question) == checker.check(Question("ann", Action.CHANGE, "side"))
    assert len(asked) == 1


def test_an_evaluation_that_fails_is_no_denial():
    checker = cedar.CedarChecker(TEAM)
    # A context without what the policy reads: Cedar says Deny, with errors beside it.
    broken = cedar.policies_json(TEAM)
    body = broken["staticPolicies"]["w/change"]["conditions"][0]["body"]
    broken["staticPolicies"]["w/change"]["conditions"][0]["body"] = body["&&"]["right"]
    policies = cedar._cedar().PolicySet.from_json_str(json.dumps(broken))
    object.__setattr__(checker, "_policies", {"writers": {Action.CHANGE: policies}})
    with pytest.raises(PolicyFailure, match="could not evaluate"):
        Gate(checker).ask("ann", Action.CHANGE)


def test_denials_say_why():
    checker = cedar.CedarChecker(TEAM)
    assert checker.check(Question("bob", Action.READ)).message == "bob is in no group"
    assert checker.check(Question("ann", Action.READ)).message == "no rule allows it"
    assert not checker.could("bob", Action.CHANGE)
    assert not checker.could("ann", Action.READ)
