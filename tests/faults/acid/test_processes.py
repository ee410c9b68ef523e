"""Processes that race for the same rows, and what must be true of every outcome."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.faults.acid.acid_workers import append, quarrel, transfer, watch_total
from tests.faults.acid.bank import SCHEMA, check_rules, put, values
from tests.faults.acid.history import explain_cycle
from tests.measured import MEASURED
from tests.sampling import runs_all, seed
from tests.storage.processes import run_processes, talk_to
from tests.stored import read_back

LIMIT = 600.0
PROCESSES = 3
TIMES = 40 if runs_all() else 5


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT_MS", "600000")  # however long the others take
    with init(tmp_path / "g", SCHEMA) as graph:
        yield graph
        check_rules(graph)


def seeds() -> list[int]:
    return [random.Random(f"{seed()} {at}").randrange(2**31) for at in range(PROCESSES)]


def test_bank_transfers_lose_and_make_no_money(graph, record_property):
    """Nobody sees money under way, and the balances are those that the transfers add up to."""
    put(graph, *"abcd", n=100)
    with talk_to(watch_total, (graph.uri,)) as (_, watcher):
        assert watcher.recv() == "looking"
        made = run_processes(transfer, [(graph.uri, one, TIMES) for one in seeds()], LIMIT)
        watcher.send("stop")
        assert watcher.poll(LIMIT)
        sums, looks = watcher.recv()
    assert sums == {400}
    commits = [one for one in graph.commits.list() if one.operation != "optimize"]
    assert len(commits) == 2 + sum(made)
    balances = dict.fromkeys("abcd", 100)
    with open_graph(graph.uri, mode="r") as fresh:
        for _, giver, taker, row in read_back(fresh).edges["Paid"]:
            balances[giver] -= row["amount"]
            balances[taker] += row["amount"]
        assert values(fresh) == balances
    assert min(balances.values()) >= 0
    record_property(MEASURED, f"{sum(made)} transfers, {looks} sums of all accounts, all the same")


def test_lists_that_all_append_to_have_one_order(graph, record_property):
    """Who read what orders the transactions; with their order in time, that has no cycle."""
    put(graph, *"xy")
    calls = [(graph.uri, f"p{at}", one, TIMES) for at, one in enumerate(seeds())]
    events = [event for told in run_processes(append, calls, LIMIT) for event in told]
    rows = read_back(graph).nodes["Register"].values()
    final = {row["name"]: tuple(row["list"] or ()) for row in rows}
    appended = Counter(event.appended for event in events if event.appended)
    assert appended == Counter((key, one) for key, found in final.items() for one in found)
    assert explain_cycle(events, final) is None
    record_property(
        MEASURED, f"{len(events)} transactions, {sum(appended.values())} appends, no cycle"
    )


def test_rules_hold_whoever_wins(graph, record_property):
    """Unique values, ends of edges and cardinalities, where everybody writes without asking."""
    put(graph, *"xyz")
    calls = [(graph.uri, f"p{at}", one, 2 * TIMES) for at, one in enumerate(seeds())]
    done = [one for told in run_processes(quarrel, calls, LIMIT) for one in told]
    emails = Counter(email for kind, email in done if kind == "email")
    assert set(emails.values()) <= {1}
    found = read_back(graph).nodes["Account"].values()
    # Nobody deletes those, so each that was acknowledged is there.
    assert {row["email"] for row in found if row["email"]} == set(emails)
    kinds = Counter(kind for kind, _ in done)
    record_property(MEASURED, f"{len(done)} acknowledged: {dict(kinds)}")
