"""What the processes of the ACID tests run: transactions that read, decide and write with ``if_commit``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from omnigraph.errors import ConstraintError, PreconditionFailed
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from tests.faults.acid.bank import ACCOUNTS, mutation, values

LISTS = "query q() { match { $r: Register } return { $r.name as name, $r.list as list } }"
APPEND = "query q($name: String, $list: [String]) { update Register set { list: $list } where name = $name }"


class Event(NamedTuple):
    """One transaction as its process saw it: the lists it read, what it appended, and when."""

    name: str
    read: dict[str, tuple[str, ...]]
    appended: tuple[str, str] | None
    began: float
    ended: float


def decide(graph: Graph, work: Callable[[str], tuple[str, dict[str, Any]] | None]) -> bool:
    """Run a transaction: read at a commit, then write if the branch is still there; again if it is not."""
    while True:
        at = graph.snapshot().graph_commit_id
        wanted = work(at)
        if wanted is None:
            return False
        try:
            graph.mutate(wanted[0], params=wanted[1], if_commit=at)
        except PreconditionFailed:
            continue
        return True


def transfer(uri: str, seed: int, times: int) -> int:
    """Move money between accounts, never more than there is; how many transfers were made."""
    chance = random.Random(seed)
    made = 0
    with open_graph(uri) as graph:

        def once(at: str) -> tuple[str, dict[str, Any]] | None:
            have = values(graph, ACCOUNTS, snapshot=at)
            if have[giver] < amount:
                return None
            source = mutation(
                f'update Account set {{ n: {have[giver] - amount} }} where name = "{giver}"',
                f'update Account set {{ n: {have[taker] + amount} }} where name = "{taker}"',
                f'insert Paid {{ from: "{giver}", to: "{taker}", amount: {amount} }}',
            )
            return source, {}

        for _ in range(times):
            giver, taker = chance.sample(sorted(values(graph)), 2)
            amount = chance.randint(1, 60)
            made += decide(graph, once)
    return made


def watch_total(pipe: Connection, uri: str) -> None:
    """Add up all accounts again and again; the sums that were seen, and how often it looked."""
    sums, looks = set(), 0
    with open_graph(uri, mode="r") as graph:
        while not pipe.poll(0.01):
            sums.add(sum(values(graph).values()))
            looks += 1
            if looks == 1:
                pipe.send("looking")
    pipe.send((sums, looks))


def append(uri: str, name: str, seed: int, times: int) -> list[Event]:
    """Append to lists, each time after reading all of them, and read now and then; all that was seen."""
    chance = random.Random(seed)
    events = []
    with open_graph(uri) as graph:
        for number in range(times):
            key = chance.choice("xy") if number % 3 else None
            event = f"{name}-{number}"
            read: dict[str, tuple[str, ...]] = {}

            def once(at: str, key=key, event=event, read=read) -> Any:
                rows = graph.query(LISTS, snapshot=at).rows
                read.update({row["name"]: tuple(row["list"] or ()) for row in rows})
                if key is None:
                    return None
                return APPEND, {"name": key, "list": [*read[key], event]}

            began = time.monotonic()
            decide(graph, once)
            appended = None if key is None else (key, event)
            events.append(Event(event, dict(read), appended, began, time.monotonic()))
    return events


def quarrel(uri: str, name: str, seed: int, times: int) -> list[tuple[str, str]]:
    """Write what others write too, without any agreement; what was acknowledged."""
    chance = random.Random(seed)
    done = []
    with open_graph(uri) as graph:
        for number in range(times):
            mine, email = f"{name}-{number}", f"mail-{number}"
            somebody = chance.choice(["x", "y", "z"])
            kind, source = chance.choice(
                [
                    ("email", f'insert Account {{ name: "{mine}", n: 0, email: "{email}" }}'),
                    ("delete", f'delete Account where name = "{somebody}"'),
                    ("insert", f'insert Account {{ name: "{somebody}", n: {number} }}'),
                    ("paid", f'insert Paid {{ from: "{somebody}", to: "x", amount: 1 }}'),
                    ("backs", f'insert Backs {{ from: "{somebody}", to: "x" }}'),
                ]
            )
            try:
                graph.mutate(mutation(source))
            except ConstraintError:
                continue
            done.append((kind, email if kind == "email" else mine))
    return done
