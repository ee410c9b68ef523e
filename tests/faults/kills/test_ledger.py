"""The judge of the kill loop notices what it is there for."""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.kills.journal import Entry, Journal, read_journal
from tests.faults.kills.ledger import Ledger
from tests.faults.kills.work import WORK, schema
from tests.graphs import graph_of
from tests.opened import workspace_of

INSERT = {"kind": "insert", "branch": "main", "name": "w1.1", "n": 3}
PERSON = {"type": "Person", "data": {"name": "w1.1", "n": 3}}


graph = graph_of(schema(()))


@pytest.fixture
def ledger(graph):
    return Ledger(graph, Random(0))


def insert(graph, ledger, outcome="done", end=2.0):
    """An operation that really happens, told as the test wants it."""
    commit = WORK["insert"].run(graph, INSERT, "w1.1")
    ledger.add([Entry("w1", 1, INSERT, 1.0, end, outcome, commit)])
    return commit


def judged(graph, ledger):
    ledger.judge_state(graph)
    ledger.judge_settled(graph)
    ledger.end_round(graph)


@pytest.mark.parametrize("outcome", ["done", "unknown"])
def test_whole_operations_pass(graph, ledger, outcome):
    insert(graph, ledger, outcome)
    judged(graph, ledger)
    ledger.add([Entry("w1", 2, {"kind": "branch", "name": "b0"}, 3.0, 4.0, "done")])
    graph.branches.create("b0")
    judged(graph, ledger)


def test_an_acknowledged_operation_that_is_not_there(graph, ledger):
    ledger.add([Entry("w1", 1, INSERT, 1.0, 2.0, "done", "01ARZ3NDEKTSV4RRFFQ69G5FAV")])
    with pytest.raises(AssertionError, match=r"lost: w1\.1"):
        judged(graph, ledger)


@pytest.mark.parametrize("outcome", ["refused", "undone"])
def test_an_operation_that_is_there_although_it_did_not_happen(graph, ledger, outcome):
    insert(graph, ledger, outcome)
    with pytest.raises(AssertionError, match="did not happen, and is there"):
        judged(graph, ledger)


def test_an_operation_that_nobody_began(graph, ledger):
    graph.load([PERSON], actor="w9.9")
    with pytest.raises(AssertionError, match="nobody began"):
        judged(graph, ledger)


def test_an_operation_that_is_there_twice(graph, ledger):
    insert(graph, ledger)
    judged(graph, ledger)
    graph.load([PERSON], actor="w1.1")
    with pytest.raises(AssertionError, match="is there twice"):
        judged(graph, ledger)


def test_half_of_an_operation(graph, ledger):
    graph.load([PERSON], actor="w1.1")
    ledger.add([Entry("w1", 1, INSERT, 1.0)])
    with pytest.raises(AssertionError, match="main at "):
        judged(graph, ledger)


@pytest.mark.parametrize(("made", "told"), [(False, "done"), (True, "refused")])
@pytest.mark.parametrize("what", ["branch", "tag"])
def test_a_name_that_is_not_as_it_was_told(graph, ledger, what, made, told):
    if made:
        (graph.branches if what == "branch" else graph.tags).create("x")
    ledger.add([Entry("w1", 1, {"kind": what, "name": "x", "branch": "main"}, 1.0, 2.0, told)])
    with pytest.raises(AssertionError, match=f"{what} x is"):
        judged(graph, ledger)


def test_a_name_that_was_removed_meanwhile_may_be_there_or_not(graph, ledger):
    created = Entry("w1", 1, {"kind": "branch", "name": "b0"}, 1.0, 2.0, "done")
    ledger.add([created, Entry("w2", 1, {"kind": "delete_branch", "name": "b0"}, 1.5)])
    ledger.judge_state(graph)
    graph.branches.create("b0")
    judged(graph, ledger)


def test_something_is_left_to_recover(graph, ledger):
    workspace_of(graph).store.write_text("__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json", "{}")
    with pytest.raises(AssertionError, match="__recovery"):
        judged(graph, ledger)


def test_a_journal_tells_what_was_begun_and_what_was_told(tmp_path):
    with Journal(tmp_path, "w1") as journal:
        journal.begin(1, INSERT)
        journal.end(1, "done", commit="c")
        journal.begin(2, {"kind": "cleanup"})
    with (tmp_path / "w1.jsonl").open("ab") as file:
        file.write(b'{"end": 2, "at"')  # killed while it wrote
    one, two = read_journal(tmp_path, "w1")
    assert (one.outcome, one.commit, one.intent) == ("done", "c", INSERT)
    assert (two.outcome, two.kind, two.actor) == ("unknown", "cleanup", "w1.2")
    assert one.begin <= one.end <= two.begin < two.end
    assert read_journal(tmp_path, "w2") == []
