"""What an actor may never use is not there: tools and stored queries that are denied are as unknown ones."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from omnigraph.mcp.tools import built_in
from omnigraph.policy import Action, Decision, Question
from omnigraph.policy.bundle import SCOPE_KEYS, Bundle, PolicyRule
from omnigraph.policy.cedar import CedarChecker
from tests import sampling
from tests.faults.calls.counting import counting
from tests.policy.calls import ADD, ALL
from tests.policy.operation_rows import ROWS, STORED, Row
from tests.policy.served import ServedWorld, served_world
from tests.policy.untouched import NOTHING

EVERYTHING = tuple(action for action in Action if action is not Action.GRAPH_LIST)
TEAM = {"team": frozenset({"ada"}), "keepers": frozenset({"bob"})}


class Changing:
    """A bundle that a test replaces by another."""

    def __init__(self) -> None:
        self.bundle = CedarChecker(Bundle("graph", TEAM, frozenset(), ()))

    def check(self, question: Question) -> Decision:
        """Decide by the present one."""
        return self.bundle.check(question)

    def could(self, actor: str, action: Action) -> bool:
        """Say by the present one whether there is a case."""
        return self.bundle.could(actor, action)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedWorld]:
    with served_world(tmp_path_factory.mktemp("unseen"), Changing()) as world:
        yield world


def decide(world: ServedWorld, *rules: PolicyRule, protected: frozenset[str] = frozenset()) -> None:
    world.policy.bundle = CedarChecker(Bundle("graph", TEAM, protected, rules))


def listed(world: ServedWorld) -> set[str]:
    answer = world.message("tools/list").json()
    return {tool["name"] for tool in answer["result"]["tools"]}


def rule(*actions: Action, scope: str = "any", group: str = "team") -> PolicyRule:
    return PolicyRule("-".join(actions), group, actions, scope)  # type: ignore[arg-type]


READING = {name for name, tool in built_in().items() if tool.reads_only}
OF_THE_GRAPH = {"schema", "status", "lint", "branches_list"}


@pytest.mark.parametrize(
    ("rules", "there"),
    [
        ([], set()),
        ([rule(Action.READ)], READING),
        ([rule(Action.READ, scope="unprotected")], READING - OF_THE_GRAPH),
        ([rule(Action.READ, scope="protected")], set()),
        ([rule(Action.READ, group="keepers")], set()),
        ([rule(Action.EXPORT)], set()),
        ([rule(Action.INVOKE_QUERY)], set()),
        ([rule(Action.INVOKE_QUERY), rule(Action.CHANGE, scope="unprotected")], {"newcomer", "mutate", "load"}),
        ([rule(Action.INVOKE_QUERY), rule(Action.READ, scope="unprotected")], READING - OF_THE_GRAPH | {"everybody"}),
        ([rule(Action.BRANCH_CREATE, Action.BRANCH_MERGE)], set()),
        ([rule(Action.BRANCH_DELETE)], {"branches_delete"}),
        ([rule(*EVERYTHING)], built_in().keys() | STORED.keys()),
    ],
)  # fmt: skip
def test_the_list_has_the_tools_that_an_actor_may_ever_call(world, rules, there):
    decide(world, *rules)
    assert listed(world) == there


def can_be_called(checker: CedarChecker, protected: frozenset[str], row: Row) -> bool:
    """Whether there are branches for which all questions of a row are allowed."""
    asked = [question.split() for question in row.questions]
    names = sorted({name for _, *places in asked for name in places} - {"-"})
    for chosen in itertools.product([*protected, "open"], repeat=len(names)):
        stands = {"-": None, **dict(zip(names, chosen, strict=True))}
        if all(
            checker.check(Question("ada", Action(action), stands[branch], stands[target])).allowed
            for action, branch, target in asked
        ):
            return True
    return False


def test_the_list_is_right_for_any_bundle(world):
    chance = random.Random(f"{sampling.seed()} tools")
    seen: Counter[bool] = Counter()
    tools = {name: ROWS[tool.operation.name][0] for name, tool in built_in().items()}
    tools |= dict(zip(STORED, ROWS["invoke"], strict=True))
    for _ in range(60):
        rules = []
        for number in range(chance.randint(0, 6)):
            key = chance.choice(["branch_scope", "target_branch_scope", None])
            fitting = [action for action in EVERYTHING if SCOPE_KEYS[action] == key]
            some = tuple(chance.sample(fitting, chance.randint(1, len(fitting))))
            scope = "any" if key is None else chance.choice(["any", "protected", "unprotected"])
            rules.append(PolicyRule(f"r{number}", chance.choice([*TEAM]), some, scope))
        protected = frozenset(chance.choice([[], ["side"], ["main", "side"]]))
        decide(world, *rules, protected=protected)
        expected = {
            name
            for name, row in tools.items()
            if can_be_called(world.policy.bundle, protected, row)
        }
        assert listed(world) == expected, (sampling.seed(), rules, protected)
        seen.update(name in expected for name in tools)
    assert all(seen[there] > 100 for there in (True, False)), seen


WITHOUT = {
    "nothing at all": [],
    "no queries": [rule(*(one for one in EVERYTHING if one is not Action.INVOKE_QUERY))],
    "neither read nor change": [
        rule(*(one for one in EVERYTHING if one not in {Action.READ, Action.CHANGE}))
    ],
}


@pytest.mark.parametrize("rules", WITHOUT.values(), ids=WITHOUT)
def test_a_denied_tool_is_as_unknown_as_any(world, rules):
    decide(world, *rules)
    known = {"everybody": {}, "newcomer": {"name": "x"}}
    denied = {
        "query": {"query": ALL},
        "mutate": {"query": ADD, "params": {"name": "x"}},
        "branches_merge": {"source": "side"},
        "schema": {},
        **known,
    }
    there = listed(world)
    told = set()
    for name, arguments in (*denied.items(), ("no_such_tool", {})):
        if name in there:
            continue
        for given in (arguments, {}, {"wrong": 1}, 5):
            with counting(str(world.place)) as counted:
                answer = world.message("tools/call", name=name, arguments=given)
            assert counted() == NOTHING
            if given == 5:  # refused as no call at all, whatever it is of
                assert answer.json()["error"]["code"] == -32602
            else:
                told.add((answer.status, answer.text.replace(name, "NAME")))
    assert len(told) == 1
    assert known.keys() - there == known.keys()


@pytest.mark.parametrize(
    "rules", [WITHOUT["nothing at all"], WITHOUT["no queries"]], ids=["nothing", "no queries"]
)
@pytest.mark.parametrize(
    "body",
    [{}, {"params": {"name": "x"}}, {"branch": "side"}, {"branch": "nope"}, {"expect_mutation": True}, {"max_rows": 1}],
    ids=str,
)  # fmt: skip
def test_a_denied_stored_query_is_as_unknown_as_any(world, rules, body, monkeypatch):
    decide(world, *rules)
    told = set()
    for name in (*STORED, "no_such_query"):
        with counting(str(world.place)) as counted:
            answer = world.ask(f"queries/{name}", body)
        assert counted() == NOTHING
        told.add((answer.status, answer.text.replace(name, "NAME")))
    assert [status for status, _ in told] == [404]


def test_writes_without_a_turn_do_not_tell_a_stored_mutation_from_none(world, monkeypatch):
    decide(world, *WITHOUT["no queries"])
    monkeypatch.setattr(world.app.engine.writers, "_most", 0)
    assert world.ask("mutate", {"query": ADD, "params": {"name": "x"}}).status == 429
    answers = {world.ask(f"queries/{name}", {}).status for name in (*STORED, "no_such_query")}
    assert answers == {404}
