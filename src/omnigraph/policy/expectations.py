"""Tests of a bundle, written beside it: questions, and the answer that each should get.

version: 1
cases:
  - { id: writer-main, actor: wim, action: change, branch: main, expect: deny }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.errors import BadRequest
from omnigraph.manifest.branch_names import trim_branch_name
from omnigraph.policy.checker import Action, Checker, Decision, Question
from omnigraph.yaml_nodes import Node, read_nodes

_KEYS: Final = ("id", "actor", "action", "branch", "target_branch", "expect")
_REQUIRED: Final = ("id", "actor", "action", "expect")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A question and whether it should be allowed."""

    id: str
    question: Question
    allowed: bool


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An expectation that does not hold, and the decision instead."""

    expectation: Expectation
    decision: Decision

    def __str__(self) -> str:
        wanted = "allow" if self.expectation.allowed else "deny"
        given = "allow" if self.decision.allowed else "deny"
        return f"{self.expectation.id}: expected {wanted}, got {given} ({self.decision.message})"


def read_expectations(path: Path) -> list[Expectation]:
    """Read the tests of a bundle; refuse the file with all its faults."""
    file = read_nodes(path)
    fields = file.fields(("version", "cases"), required=("version", "cases"))
    if "version" in fields and (
        type(fields["version"].value) is not int or fields["version"].value != 1
    ):
        fields["version"].fault(f"this is version {fields['version'].value!r}; give 1")
    read: dict[str, Expectation] = {}
    for node in fields["cases"].elements("cases") if "cases" in fields else []:
        case = _case(node)
        if case is None:
            continue
        if case.id in read:
            node.fault(f"there is another case `{case.id}`; give each an id of its own")
        read[case.id] = case
    file.faults.refuse()
    return list(read.values())


def _case(node: Node) -> Expectation | None:
    fields = node.fields(_KEYS, required=_REQUIRED)
    name = fields["id"].text() if "id" in fields else None
    actor = fields["actor"].text() if "actor" in fields else None
    action = fields["action"].word(tuple(map(str, Action))) if "action" in fields else None
    expect = fields["expect"].word(("allow", "deny")) if "expect" in fields else None
    branch, target = (
        fields[key].text() if key in fields else None for key in ("branch", "target_branch")
    )
    if name is None or actor is None or action is None or expect is None:
        return None
    return Expectation(name, Question(actor, Action(action), branch, target), expect == "allow")


def unmet(checker: Checker, expectations: Sequence[Expectation]) -> list[Mismatch]:
    """Return the expectations that do not hold."""
    decided = ((one, checker.check(one.question)) for one in expectations)
    return [Mismatch(one, decision) for one, decision in decided if decision.allowed != one.allowed]


def question_of(actor: str, action: str, branch: str | None, target: str | None) -> Question:
    """Return a question in the words of a command; names of branches without blanks around them."""
    if action not in {str(known) for known in Action}:
        raise BadRequest(f"there is no action `{action}`; give one of {', '.join(Action)}")
    named = (None if name is None else trim_branch_name(name) for name in (branch, target))
    return Question(actor, Action(action), *named)
