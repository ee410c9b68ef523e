"""The anomalies of concurrent transactions, one after the other: none of them can be had here.

They are those of the ACID tests of the LDBC: dirty writes (G0), aborted, intermediate and circular reads (G1a,
G1b, G1c), observed transactions that vanish (OTV), fractured reads (FR), predicates and items with many
preceders (PMP, IMP), lost updates (LU), write skew (WS), and the two halves of atomicity.

A transaction is one mutation, or one load. One query is a transaction that reads; several are one if they name
the same commit. Reads followed by a mutation are one transaction with ``if_commit``, and only then: the tests
named "without" show what happens otherwise, and with it that the race is a real one. Races are made, not hoped
for: a transaction stops at a point of its commit while others run, or somebody looks at every step of it.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import omnigraph.write.mutate  # noqa: F401 - it declares the points that are armed here
from omnigraph import failpoints
from omnigraph.errors import ConstraintError, PreconditionFailed, RecoveryRequired, StorageError
from omnigraph.graph import init
from omnigraph.graph import open as open_graph
from tests.faults.acid.bank import (
    ACCOUNTS,
    REGISTERS,
    SCHEMA,
    both,
    check_rules,
    looking,
    mutation,
    put,
    set_both,
    values,
)
from tests.write.writing import nodes, state


@pytest.fixture
def graph(tmp_path):
    with init(tmp_path / "g", SCHEMA) as graph:
        put(graph, "x", "y")
        yield graph
        check_rules(graph)


@pytest.fixture
def other(graph):
    """A second handle, which knows only what is stored."""
    with open_graph(graph.uri, mode="r") as other:
        yield other


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def stopped(pool, graph, source, point, **options):
    """A mutation that stands at a point for as long as the block runs, and then goes on."""
    pause = failpoints.Pause()
    with failpoints.arm(point, pause, times=1):
        running: Future = pool.submit(graph.mutate, source, **options)
        try:
            pause.wait_until_reached()
            yield running
        finally:
            pause.resume()


def both_prepared(pool, graph, first, second, **options):
    """Two mutations that both read before either of them commits; what became of each."""
    together = threading.Barrier(2)
    with failpoints.arm("mutation.before_locks", lambda _: together.wait(), times=2):
        running = [pool.submit(graph.mutate, source, **options) for source in (first, second)]
        return [(one.exception(), one) for one in running]


# ------------------------------------------------------------------ atomicity


def test_atomicity_of_a_commit(graph, other):
    """Somebody looks at every step: everything of the transaction is there, or nothing."""
    source = mutation(
        'insert Account { name: "z", n: 1 }',
        'insert Paid { from: "z", to: "x", amount: 1 }',
        'update Register set { n: 1 } where name = "x"',
    )

    def look():
        tables = other.snapshot().tables
        rows = tuple(tables[key].row_count for key in ("node:Account", "edge:Paid"))
        return rows, values(other, REGISTERS)["x"]

    with looking(look) as seen:
        graph.mutate(source)
    assert set(seen) == {((2, 0), 0), ((3, 1), 1)}
    assert look() == ((3, 1), 1)


def test_atomicity_of_a_rollback(graph):
    """Its last statement cannot be: nothing of the others stays."""
    before = state(graph)
    source = mutation(
        'insert Account { name: "z", n: 1 }',
        'update Register set { n: 1 } where name = "x"',
        'insert Paid { from: "z", to: "nobody", amount: 1 }',
    )
    with pytest.raises(ConstraintError):
        graph.mutate(source)
    assert state(graph) == before


# ------------------------------------------------------------------ dirty writes and dirty reads


@pytest.mark.parametrize("point", ["mutation.after_table_commit", "publish.before_write"])
def test_dirty_write(graph, pool, point):
    """G0. Two write the same two rows, and the first one stands between its writes."""
    with stopped(pool, graph, set_both(1), point) as first:
        second = pool.submit(graph.mutate, set_both(2))
    assert first.result().commit.graph_commit_id == second.result().commit.parent_commit_id
    assert both(graph) == (2, 2)
    for commit in graph.commits.list():
        account, register = (
            values(graph, query, snapshot=commit.graph_commit_id).get("x")
            for query in (ACCOUNTS, REGISTERS)
        )
        assert account == register


@pytest.mark.parametrize("skip", [0, 1])
def test_aborted_read(graph, other, skip):
    """G1a. It fails before or between its writes; nobody sees any of them, then or ever."""
    point = "mutation.before_table_commit"
    with (
        looking(lambda: both(other), but=point) as seen,
        failpoints.arm(point, times=1, skip=skip),
        pytest.raises(RecoveryRequired if skip else StorageError, match=point),
    ):
        graph.mutate(set_both(1))
    seen.append(both(other))
    with open_graph(graph.uri) as reopened:
        seen.append(both(reopened))
    seen.append(both(other))
    assert set(seen) == {(0, 0)}


def test_intermediate_read(graph, other):
    """G1b. It writes a row twice, and the first value is nobody else's."""
    twice = [f'update Account set {{ n: {n} }} where name = "x"' for n in (1, 2)]
    with looking(lambda: values(other)["x"]) as seen:
        graph.mutate(mutation(*twice))
    assert set(seen) == {0, 2}


def test_circular_information_flow(graph, pool):
    """G1c. Each writes its row and reads the other's; one of the two is first, and does not see."""

    def source(mine, theirs):
        return mutation(
            f'update Account set {{ n: 1 }} where name = "{mine}"'
            if mine == "x"
            else f'update Register set {{ n: 1 }} where name = "{mine}"',
            'update Register set { seen: "theirs" } where n = 1'
            if theirs == "y"
            else 'update Account set { seen: "theirs" } where n = 1',
        )

    told = both_prepared(pool, graph, source("x", "y"), source("y", "x"))
    assert [error for error, _ in told] == [None, None]
    saw = [
        "seen" in nodes(graph, "Register")["y"],
        "seen" in nodes(graph, "Account")["x"],
    ]
    assert sorted(saw) == [False, True]


# ------------------------------------------------------------------ reads


def test_observed_transaction_vanishes(graph, other):
    """OTV. Once something of a transaction was seen, all later reads see it; no read goes back."""
    with looking(lambda: both(other)) as seen:
        for n in (1, 2, 3):
            graph.mutate(set_both(n))
    assert seen == sorted(seen)
    assert {account == register for account, register in seen} == {True}
    assert set(seen) == {(n, n) for n in range(4)}


def test_fractured_read(graph, other):
    """FR. What one transaction wrote to two tables is seen as a whole: by one query, or at one commit."""

    def look():
        at = other.snapshot().graph_commit_id
        account = values(other, ACCOUNTS, snapshot=at)["x"]
        inner.mutate(set_both(account + 10))
        register = values(other, REGISTERS, snapshot=at)["x"]
        return account, register, both(other)

    with open_graph(graph.uri) as inner:
        seen = [look() for _ in range(3)]
    assert seen == [(n, n, (n + 10, n + 10)) for n in (0, 10, 20)]


def test_fractured_read_without_a_commit_to_read_at(graph, other):
    """Two queries of the head are two transactions."""
    account = values(other, ACCOUNTS)["x"]
    graph.mutate(set_both(1))
    assert (account, values(other, REGISTERS)["x"]) == (0, 1)


def test_predicate_many_preceders(graph, other):
    """PMP. A predicate asked twice at one commit has one answer, whatever came to match meanwhile."""
    many = (
        "query q() { match { $a: Account  $a.n >= 1 } return { $a.name as name } order { name } }"
    )
    at = other.snapshot().graph_commit_id
    first = other.query(many, snapshot=at).rows
    graph.mutate(
        mutation(
            'insert Account { name: "z", n: 5 }', 'update Account set { n: 5 } where name = "x"'
        )
    )
    assert other.query(many, snapshot=at).rows == first == []
    assert [row["name"] for row in other.query(many).rows] == ["x", "z"]


def test_item_many_preceders(graph, other):
    """IMP. A row read twice at one commit is the same row, also after its deletion."""
    at = other.snapshot().graph_commit_id
    read = [values(other, ACCOUNTS, snapshot=at)]
    for source in (
        'update Account set { n: 1 } where name = "x"',
        'delete Account where name = "x"',
    ):
        graph.mutate(mutation(source))
        read.append(values(other, ACCOUNTS, snapshot=at))
    assert read == [{"x": 0, "y": 0}] * 3
    assert values(other, ACCOUNTS) == {"y": 0}


# ------------------------------------------------------------------ lost updates and write skew


def increment(graph):
    n = values(graph)["x"]
    return mutation(f'update Account set {{ n: {n + 1} }} where name = "x"')


def test_lost_update(graph, pool):
    """LU. Two read, then both write what follows from it: one of them has to read again."""
    head = graph.snapshot().graph_commit_id
    source = increment(graph)
    told = both_prepared(pool, graph, source, source, if_commit=head)
    errors = [error for error, _ in told if error is not None]
    assert [type(error) for error in errors] == [PreconditionFailed]
    source = increment(graph)
    graph.mutate(source, if_commit=graph.snapshot().graph_commit_id)
    assert values(graph)["x"] == 2


def test_lost_update_without_if_commit(graph, pool):
    """Nothing ties the mutation to the query before it."""
    source = increment(graph)
    told = both_prepared(pool, graph, source, source)
    assert [error for error, _ in told] == [None, None]
    assert values(graph)["x"] == 1


def test_lost_update_of_one_mutation(graph, pool):
    """What a mutation itself reads is current when it commits: of two that claim a row one gets it."""
    graph.mutate(mutation('insert Account { name: "z", n: 0, email: "free" }'))
    claims = [
        mutation(f'update Account set {{ seen: "{name}", email: "{name}" }} where email = "free"')
        for name in "ab"
    ]
    told = both_prepared(pool, graph, *claims)
    assert sorted(one.result().affected_nodes for _, one in told) == [0, 1]
    row = nodes(graph, "Account")["z"]
    assert row["seen"] == row["email"]


SPEND = (
    mutation('update Account set { n: -1 } where name = "x"'),
    mutation('update Register set { n: -1 } where name = "x"'),
)
"""Each is right while the other table has enough; they write to different tables."""


def test_write_skew(graph, pool):
    """WS. Both read both rows and each writes another one: with the commit they read at, one loses."""
    head = graph.snapshot().graph_commit_id
    assert both(graph, snapshot=head) == (0, 0)
    told = both_prepared(pool, graph, *SPEND, if_commit=head)
    errors = [error for error, _ in told if error is not None]
    assert [type(error) for error in errors] == [PreconditionFailed]
    assert sorted(both(graph)) == [-1, 0]


def test_write_skew_without_if_commit(graph, pool):
    """They write to different tables and rest on nothing else: both are right by themselves."""
    told = both_prepared(pool, graph, *SPEND)
    assert [error for error, _ in told] == [None, None]
    assert both(graph) == (-1, -1)


def test_write_skew_of_mutations(graph, pool):
    """Each writes a row that the other one would have changed, had it been there: not both missed it."""
    told = both_prepared(
        pool,
        graph,
        mutation(
            'update Account set { n: 1 } where name = "new"',
            'insert Register { name: "new", n: 0 }',
        ),
        mutation(
            'update Register set { n: 1 } where name = "new"',
            'insert Account { name: "new", n: 0 }',
        ),
    )
    assert [error for error, _ in told] == [None, None]
    found = nodes(graph, "Account")["new"]["n"], nodes(graph, "Register")["new"]["n"]
    assert sorted(found) == [0, 1]
