"""Threads that share commits race for the same rows; every answer has to fit one order of all of them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from omnigraph.errors import ConstraintError
from omnigraph.graph import init
from tests.commit.synthetic import drifted
from tests.faults.acid.acid_workers import Event
from tests.faults.acid.bank import ACCOUNTS, values
from tests.faults.acid.history import explain_cycle
from tests.measured import MEASURED
from tests.sampling import runs_all, seed
from tests.stored import read_back

THREADS = 6
TIMES = 60 if runs_all() else 6
SCHEMA = """
node Account { name: String @key  n: I64  @range(n, 0..) }
node Register { name: String @key  log: String }
edge Paid: Account -> Account { amount: I64 }
"""
PAY = """query q($giver: String, $taker: String, $amount: I64) {
  update Account set { n: n - $amount } where name = $giver
  update Account set { n: n + $amount } where name = $taker
  insert Paid { from: $giver, to: $taker, amount: $amount }
}"""
APPEND = """query q($key: String, $event: String) {
  upsert $r: Register { name: $key, log: log + $event }
  return { $r.log as log }
}"""
LOGS = "query q() { match { $r: Register } return { $r.name as name, $r.log as log } }"


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")  # however long the others take
    with init(tmp_path / "g", SCHEMA, group_commit=True) as graph:
        names = [{"type": "Account", "data": {"name": name, "n": 100}} for name in "abcd"]
        logs = [{"type": "Register", "data": {"name": name, "log": ""}} for name in "xy"]
        graph.load([*names, *logs])
        yield graph
        assert drifted(graph) == []


def in_threads(work: Callable[[int, random.Random], Any]) -> list[Any]:
    """Let each thread do its work; what all of them returned."""
    told: list[Any] = [None] * THREADS
    failed: list[BaseException] = []

    def run(at: int) -> None:
        try:
            told[at] = work(at, random.Random(f"{seed()} {at}"))
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    if failed:
        raise failed[0]
    return told


def shared(graph) -> int:
    """How many commits have several members; nothing here would be worth much without any."""
    return sum(bool(commit.members) for commit in graph.commits.list())


def test_bank_transfers_lose_and_make_no_money(graph, record_property):
    """Nobody sees money under way, and one that is refused has moved none."""
    sums = set()

    def transfer(at: int, chance: random.Random) -> int:
        made = 0
        for _ in range(TIMES):
            giver, taker = chance.sample("abcd", 2)
            given = {"giver": giver, "taker": taker, "amount": chance.randint(1, 80)}
            try:
                graph.mutate(PAY, given, actor=f"t{at}")
            except ConstraintError as refused:
                assert refused.details["violation"] == "range"
            else:
                made += 1
            sums.add(sum(values(graph, ACCOUNTS).values()))
        return made

    made = sum(in_threads(transfer))
    assert sums == {400}
    balances = dict.fromkeys("abcd", 100)
    paid = read_back(graph).edges["Paid"]
    for _, giver, taker, row in paid:
        balances[giver] -= row["amount"]
        balances[taker] += row["amount"]
    assert values(graph) == balances
    assert min(balances.values()) >= 0
    assert len(paid) == made
    groups = shared(graph)
    assert groups
    record_property(MEASURED, f"{made} transfers, {groups} commits with several")


def test_lists_that_all_append_to_have_one_order(graph, record_property):
    """What each append found, and what readers saw, has an order that fits the time."""

    def append(at: int, chance: random.Random) -> list[Event]:
        events = []
        for number in range(TIMES):
            name, key = f"t{at}-{number}", chance.choice("xy")
            began = time.monotonic()
            if number % 3 == 2:
                rows = graph.query(LOGS).rows
                read = {row["name"]: tuple(row["log"].split()) for row in rows}
                appended = None
            else:
                answer = graph.mutate(APPEND, {"key": key, "event": f"{name} "})
                *before, own = answer.rows[0]["log"].split()
                assert own == name
                read, appended = {key: tuple(before)}, (key, name)
            events.append(Event(name, read, appended, began, time.monotonic()))
        return events

    events = [event for told in in_threads(append) for event in told]
    rows = read_back(graph).nodes["Register"].values()
    final = {row["name"]: tuple(row["log"].split()) for row in rows}
    appended = Counter(event.appended for event in events if event.appended)
    assert appended == Counter((key, one) for key, found in final.items() for one in found)
    assert explain_cycle(events, final) is None
    groups = shared(graph)
    assert groups
    record_property(MEASURED, f"{len(events)} transactions, {groups} commits with several")
