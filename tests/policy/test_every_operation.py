"""Every operation of the table, on every surface, with every action denied once.

The rows stand in ``operation_rows``: an operation without one fails here. Each is asked for over HTTP, as a tool
of an agent, and in Python on a graph that was opened with the policy. What is denied is refused, and nothing is read
or written; what is not asked for may be denied without any effect.
"""

from __future__ import annotations

import pytest

from omnigraph.mcp.tools import built_in
from omnigraph.policy import Action, Decision
from omnigraph.service.operations import OPERATIONS
from tests.policy.operation_rows import ROWS
from tests.policy.served import ServedWorld, served_world, text_of, ways
from tests.policy.untouched import untouched

OF_THE_SERVER = {Action.GRAPH_LIST}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with served_world(tmp_path_factory.mktemp("operations")) as world:
        # The SDK is loaded by the first message.
        world.message("tools/list")
        yield world


def denying(world: ServedWorld, question: str) -> None:
    world.policy.forget()
    world.policy.answer = lambda asked: Decision(text_of(asked) != question, "rule-1")


def allowing(world: ServedWorld, actions: set[str]) -> None:
    world.policy.forget()
    world.policy.answer = lambda asked: Decision(asked.action in actions, "rule-1")


def test_every_operation_has_its_rows():
    assert ROWS.keys() == OPERATIONS.keys()
    asked = {
        question.split()[0]
        for rows in ROWS.values()
        for row in rows
        for question in (*row.questions, *row.leaves_out)
    }
    assert asked == set(Action) - OF_THE_SERVER
    for name, rows in ROWS.items():
        told = {question.split()[0] for row in rows for question in row.questions}
        assert OPERATIONS[name].action in told or name == "permissions"


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_does_nothing_that_is_denied(world, operation):
    for number, row in enumerate(ROWS[operation.name]):
        name = f"{operation.name}-{number}"
        for surface, ask in ways(world, operation, row, name).items():
            wanted = [question.format(n=f"{name}-{surface}") for question in row.questions]
            place = (operation.name, number, surface)
            for at, question in enumerate(wanted):
                denying(world, question)
                world.is_shut = surface == "python"
                with untouched(world, looks_up=row.looks_up):
                    refusal = ask()
                world.is_shut = False
                assert refusal == row.unseen.get(row.questions[at], "policy_denied"), place
                assert [*dict.fromkeys(world.policy.texts)] == wanted[: at + 1], place
                assert {one.actor for one in world.policy.asked} == {"ada"}
            allowing(world, {text.split()[0] for text in (*wanted, *row.leaves_out)})
            assert ask() is None, place
            # Raw bodies and schemas are asked about before they are read, and again in the deed.
            asked = [*dict.fromkeys(world.policy.texts)]
            assert asked[: len(wanted)] == wanted, place
            assert set(row.leaves_out) <= set(asked[len(wanted) :]), place
            assert row.leaves_out or len(asked) == len(wanted), place


@pytest.mark.parametrize(
    "uri", ["omnigraph://schema", "omnigraph://branches", "omnigraph://queries"]
)
def test_a_resource_is_refused_as_its_operation_is(world, uri):
    denying(world, "read - -")
    with untouched(world):
        refused = world.message("resources/read", uri=uri).json()["error"]
    assert refused["data"]["kind"] == "policy_denied"
    allowing(world, {"read"})
    assert world.message("resources/read", uri=uri).json()["result"]["contents"]


def test_the_list_of_graphs_is_refused_before_anything_is_looked_at(world):
    with untouched(world):
        answer = world.send("GET", "/graphs")
    assert answer.error == (403, "policy_denied", "forbidden")


def test_every_tool_is_one_of_the_operations(world):
    world.policy.forget()
    listed = {tool["name"] for tool in world.message("tools/list").json()["result"]["tools"]}
    assert listed == built_in().keys() | world.stored.queries.keys()
