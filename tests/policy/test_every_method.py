"""Every public method of a handle asks the policy, and asks it first.

The methods are found by looking at the handles: a new one fails here until it has a row in
``calls.py``, and passes only if it asks what the row says before it does or reads anything.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import CommitNotFound, NotFound, PolicyDenied
from tests.policy.calls import FAR, FREE, OTHERS, READS, UNKNOWN, WRITES
from tests.policy.untouched import untouched
from tests.policy.world import World, opened, surface


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("gate") / "g") as world:
        for branch in ("gone", "merged"):
            world.owner.branches.create(branch)
        world.owner.tags.create("old", at="side")
        yield world


@pytest.fixture(autouse=True)
def forget(world):
    world.policy.forget()


def targets(world: World) -> list[tuple[dict[str, Any], list[str]]]:
    """Targets as callers name them, and the branches on which they are decided."""
    version = world.owner.snapshot(branch="fresh").manifest_version
    return [
        ({}, ["main"]),
        ({"branch": " side "}, ["side"]),
        ({"branch": "fresh", "version": version}, ["fresh"]),
        ({"branch": "fresh", "time": FAR}, ["fresh"]),
        ({"snapshot": world.side_commit}, ["side"]),
        ({"snapshot": world.main_commit}, ["main"]),
        ({"tag": " of-side "}, ["side"]),
        ({"at": " side "}, ["side"]),
        ({"at": world.owner.commits.show(world.side_commit)}, ["side"]),
        ({"at": world.owner.snapshot(branch="fresh")}, ["main", "fresh"]),
        # What is not there was made on no branch.
        ({"snapshot": UNKNOWN}, ["-"]),
        ({"tag": "no-such-tag"}, ["-"]),
        ({"branch": "no-such-branch"}, ["no-such-branch"]),
    ]


def refuse(
    world: World, call: Callable[[], object], number: int | None, *, looks_up: bool = False
) -> list[str]:
    """Deny the question of that number, assert that nothing happened, and return what was asked."""
    policy = world.policy
    policy.forget()
    policy.denied, world.is_shut = number, True
    try:
        with (
            untouched(world, looks_up=looks_up),
            pytest.raises((PolicyDenied, CommitNotFound)),
        ):
            call()
    finally:
        world.is_shut = False
    return policy.texts


def test_every_method_has_a_row(world):
    shown = surface(world.graph)
    assert shown.keys() == FREE.keys() | READS.keys() | WRITES.keys() | OTHERS.keys()
    # No policy is asked about keeping a graph in shape, so that sessions cannot do it.
    maintenance = {name for name, why in FREE.items() if why == "maintenance"}
    owned = {"close", "session", "upkeep"}
    assert surface(world.session).keys() == shown.keys() - maintenance - owned


def test_what_takes_an_actor_is_among_the_writes(world):
    def takes_an_actor(member: Any) -> bool:
        if isinstance(member, property):
            return False
        named = inspect.signature(member).parameters
        options = str(named.get("options"))
        return "actor" in named or "LoadKeywords" in options or "FrameKeywords" in options

    shown = surface(world.session)
    assert {path for path, member in shown.items() if takes_an_actor(member)} == WRITES.keys()


@pytest.mark.parametrize("path", READS)
def test_a_read_is_decided_on_the_branches_of_its_target(world, path):
    action, call = READS[path]
    for target, branches in targets(world):
        wanted = [f"{action} {branch} -" for branch in branches]
        looks_up = not target.keys() <= {"branch", "version", "time"} and target != {"at": " side "}
        for number in range(len(wanted)):
            asked = refuse(world, lambda: call(world.session, **target), number, looks_up=looks_up)  # noqa: B023
            assert asked == wanted[: number + 1], target
        world.policy.forget()
        if {"-", "no-such-branch"} & set(branches):
            with pytest.raises(NotFound):
                call(world.session, **target)
        else:
            call(world.session, **target)
        assert world.policy.texts == wanted, target
        assert {one.actor for one in world.policy.asked} == {"ada"}


@pytest.mark.parametrize("path", [*WRITES, *OTHERS])
def test_a_call_is_decided_before_it_does_anything(world, path):
    for number, (call, questions, looks_up, leaves_out) in enumerate((WRITES | OTHERS)[path]):
        name = f"{path.replace('.', '-')}-{number}"
        wanted = [question.format(n=name) for question in questions]

        def run(call=call, name=name):
            call(world.session, world, name)

        for denied in range(len(wanted)):
            assert refuse(world, run, denied, looks_up=looks_up) == wanted[: denied + 1]
        world.policy.forget()
        run()
        # Other cases may have made branches, which are asked for, too.
        later = world.policy.texts[len(wanted) :]
        assert world.policy.texts[: len(wanted)] == wanted
        assert [text for text in later if text in leaves_out] == list(leaves_out)
        assert leaves_out or not later
        assert {one.actor for one in world.policy.asked} == {"ada"}


def test_nobody_may_do_anything(world):
    nobody = world.graph.session(None)
    named = [{}, {"snapshot": world.side_commit}, {"tag": "no-such-tag"}]
    for _, call in READS.values():
        for target in named:
            assert refuse(world, lambda: call(nobody, **target), None) == []  # noqa: B023
    for cases in (WRITES | OTHERS).values():
        for call, *_ in cases:
            # Whether a load forks must be known to name what is denied.
            looks_up = "from_" in inspect.getsource(call)
            assert refuse(world, lambda: call(nobody, world, "x"), None, looks_up=looks_up) == []  # noqa: B023


@pytest.mark.parametrize("path", WRITES)
def test_the_handle_asks_for_the_actor_that_a_call_names(world, path):
    for call, _, looks_up, _ in WRITES[path]:
        ways = (
            lambda: call(world.graph, world, "x", actor=" bo "),  # noqa: B023
            lambda: call(world.graph.session("bo"), world, "x"),  # noqa: B023
            lambda: call(world.graph.session("bo"), world, "x", actor="bo"),  # noqa: B023
        )
        asked = []
        for way in ways:
            refuse(world, way, 0, looks_up=looks_up)
            asked.append(list(world.policy.asked))
        assert asked[0] == asked[1] == asked[2]
        assert [question.actor for question in asked[0]] == ["bo"]


def test_every_question_is_in_the_manual():
    page = (Path(__file__).parents[2] / "docs" / "user" / "policies.md").read_text("utf-8")
    table = page[page.index("| Call |") : page.index("\n\n", page.index("| Call |"))]
    rows = [re.findall(r"`\.?([\w.]+)[`(]", line.split("|")[1]) for line in table.splitlines()]
    told = set()
    for row in rows:
        room = ""
        for name in row:
            # `.open` after `blobs.read` is `blobs.open`.
            room = f"{name.split('.')[0]}." if "." in name else room
            told.add(name if name in READS | WRITES | OTHERS else room + name)
    # `load` and its kin
    assert told | {"load_nodes", "load_edges"} >= READS.keys() | WRITES.keys() | OTHERS.keys()
