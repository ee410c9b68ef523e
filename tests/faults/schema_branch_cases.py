"""A graph whose branches get schemas of their own, and what other processes do with it meanwhile.

``grow`` has another schema than the rest, with rows in its columns and in a type of its own. A schema apply on
``work``, and merges of ``grow``, are stopped on the way; somebody else meets them on the branch they change and on
another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError

OLD = """
node Person { name: String @key  age: I32? @index  body: Blob? }
node Note { slug: String @key }
"""
NEW = """
node Person { name: String @key  years: I64? @index @rename_from("age")  body: Blob?  face: Blob? }
node Note { slug: String @key }
node Ship { imo: String @key }
"""
QUERIES = {
    "old": 'query q() { match { $p: Person { name: "p" } } return { $p.age as v } }',
    "new": 'query q() { match { $p: Person { name: "p" } } return { $p.years as v } }',
}


def build(uri: str) -> str:
    """Make the graph, with the branches ``work``, ``other``, ``third`` and ``grow``."""
    with og.init(uri, OLD) as graph:
        graph.load(
            [
                {"type": "Person", "data": {"name": "p", "age": 1, "body": "base64:AQID"}},
                {"type": "Note", "data": {"slug": "n"}},
            ]
        )
        for branch in ("work", "other", "third", "grow"):
            graph.branches.create(branch)
        graph.load([{"type": "Note", "data": {"slug": "third"}}], branch="third")
        graph.schema.apply(NEW, branch="grow")
        person = {"type": "Person", "data": {"name": "p", "years": 2**40, "face": "base64:BAUG"}}
        ship = {"type": "Ship", "data": {"imo": "S"}}
        graph.load([person, ship], branch="grow", mode="patch")
    return uri


# The operation, the branch it changes, another branch, and the value of "p" once it has happened.
OPERATIONS: dict[str, tuple[Callable[[og.Graph], Any], str, str, int]] = {
    "apply on a branch": (lambda g: g.schema.apply(NEW, branch="work"), "work", "other", 1),
    "merge into a branch": (lambda g: g.branches.merge("grow", "work"), "work", "main", 2**40),
    "merge into main": (lambda g: g.branches.merge("grow"), "main", "other", 2**40),
}


def run_paused(pipe: Any, uri: str, name: str, point: str, skip: int, pause: str) -> None:
    """Run an operation, stopping at a point until told to go on; say what became of it."""
    with og.open(uri) as graph:
        failpoints.arm(point, failpoints.FilePause(Path(pause)), times=1, skip=skip)
        try:
            OPERATIONS[name][0](graph)
        except OmniGraphError as error:
            pipe.send(error.code)
        else:
            pipe.send("done")


ACTIONS = ("read", "write", "open r", "open rw", "branch", "apply", "merge")


def seen_on(graph: og.Graph, branch: str, value: int) -> str:
    """Which schema a branch shows: its text, its answers and its types must agree.

    ``value`` is what "p" has in the new one.
    """
    source = graph.schema.show(branch=branch).source
    answers = {}
    for name, text in QUERIES.items():
        try:
            answers[name] = graph.query(text, branch=branch).scalar()
        except OmniGraphError:
            continue
    name = "new" if "years" in source else "old"
    has_ship = "node:Ship" in graph.snapshot(branch=branch).tables
    if answers != {name: value if name == "new" else 1} or has_ship != (name == "new"):
        return f"a mixture: {name} source, answers {answers}, ships {has_ship}"
    return name


def meet(pipe: Any, uri: str, name: str, wait: str) -> None:
    """Do everything that others do on both branches, each time when told; say how it went, and what was seen."""
    os.environ["OMNIGRAPH_LOCK_WAIT_MS"] = wait
    _, branch, another, value = OPERATIONS[name]
    with og.open(uri) as warm:
        seen_on(warm, branch, value)
        pipe.send("ready")
        for turn in ("first", "second"):
            pipe.recv()
            pipe.send(
                {
                    (place, action): act(action, warm, place, value, turn)
                    for place in (branch, another)
                    for action in ACTIONS
                }
            )


def act(action: str, graph: og.Graph, branch: str, value: int, turn: str) -> tuple[str, str]:
    """Do something on a branch; return how it ended, and which schema was seen there then."""
    seen = ""
    try:
        match action:
            case "read":
                pass
            case "write":
                key = f"{branch} {turn}"
                graph.mutate(
                    f'query q() {{ insert Person {{ name: "{key}" }} insert Note {{ slug: "{key}" }} }}',
                    branch=branch,
                )
            case "branch":
                graph.branches.create(f"new-{turn}", branch)
                seen = seen_on(graph, f"new-{turn}", value)
                graph.branches.delete(f"new-{turn}")
            case "apply":
                source = graph.schema.show(branch=branch).source
                graph.schema.apply(
                    f"{source}\nnode {turn.title()} {{ k: String @key }}", branch=branch
                )
            case "merge":
                graph.branches.merge("third", branch)
            case _:
                with og.open(graph.uri, mode=action.removeprefix("open ")) as other:
                    seen = seen_on(other, branch, value)
    except OmniGraphError as error:
        return error.code, seen_on(graph, branch, value)
    return "done", seen or seen_on(graph, branch, value)
