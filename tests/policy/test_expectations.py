"""The tests of a bundle: read with all faults at once, and held against its decisions."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest
from omnigraph.policy.bundle import Bundle, PolicyRule
from omnigraph.policy.cedar import CedarChecker
from omnigraph.policy.checker import Action, Question
from omnigraph.policy.expectations import question_of, read_expectations, unmet

TEAM = Bundle(
    "graph",
    {"writers": frozenset({"wim"})},
    frozenset({"main"}),
    (PolicyRule("w", "writers", (Action.CHANGE,), "unprotected"),),
)
CASES = """\
version: 1
cases:
  - { id: main, actor: wim, action: change, branch: main, expect: deny }
  - { id: side, actor: wim, action: change, branch: " side ", expect: allow }
  - { id: wrong, actor: rita, action: change, branch: side, expect: allow }
  - { id: merge, actor: wim, action: branch_merge, branch: side, target_branch: main, expect: allow }
"""


@pytest.fixture
def read(tmp_path):
    def reading(text):
        path = tmp_path / "cases.yaml"
        path.write_text(text, "utf-8")
        return read_expectations(path)

    return reading


def test_what_does_not_hold_is_listed(read):
    cases = read(CASES)
    assert cases[1].question == Question("wim", Action.CHANGE, "side")
    assert [str(one) for one in unmet(CedarChecker(TEAM), cases)] == [
        "wrong: expected allow, got deny (rita is in no group)",
        "merge: expected allow, got deny (no rule allows it)",
    ]


def test_all_faults_are_said_with_their_lines(read):
    text = """\
version: 2
cases:
  - { id: a, actor: wim, action: fly, expect: deny }
  - { id: b, actor: wim, action: read, expect: perhaps }
  - { id: c, actor: wim, action: read, expect: deny, brnach: main }
  - { id: c, actor: wim, action: read, expect: deny }
  - { actor: wim, action: read, expect: deny }
"""
    with pytest.raises(BadRequest) as raised:
        read(text)
    found = [(one["line"], one["path"]) for one in raised.value.details["faults"]]
    assert found == [
        (1, "version"),
        (3, "cases[0].action"),
        (4, "cases[1].expect"),
        (5, "cases[2].brnach"),
        (6, "cases[3]"),
        (7, "cases[4]"),
    ]


def test_a_question_is_asked_about_trimmed_branches():
    assert question_of("wim", "change", " main ", None) == Question("wim", Action.CHANGE, "main")
    with pytest.raises(BadRequest, match="no action `fly`"):
        question_of("wim", "fly", None, None)
